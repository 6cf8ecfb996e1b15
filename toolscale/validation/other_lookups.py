"""Right episodes that see the same facts with another tool: `validate` tries them on the verifier.

A search often shows what a look-up by identity shows. Which searches do is found here by running them, and decided by
the words of their results alone, apart from how `toolorchestra.toolscale.tasks.verify` decides what was seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.mentions import fact_tokens, mentions, tokens
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.observed import named_values
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.sqltool import SqlTool
from toolorchestra.toolscale.tools.tool import Status, ToolResult

_NUMBER = re.compile(r"-?[\d.]+|True|False")

_Named = tuple[str, str]


def with_other_lookups(domain: Domain, task: Task, session: Session) -> Iterator[tuple[str, tuple[Call, ...]]]:
    """Yield the reference calls with a look-up replaced by another call that shows what is needed of it, and which.

    Needed are the ids of the entries and those of their values that the answer tells or that later calls take, beside
    those given before; where there are none, since something is derived, any of their values. Each look-up is replaced
    by each such search; the last episode yielded has all of them replaced. `session` is used and reset.
    """
    calls = task.reference_calls
    replaced: dict[int, Call] = {}
    results = domain.make(calls, session)
    for position, (call, result) in enumerate(zip(calls, results, strict=True)):
        others = {entry for i, other in enumerate(results) if i != position for entry in other.operated}
        if domain.tools[call.name].effect != "read" or not set(result.operated) - others:
            continue
        given = {named for other in results[:position] for named in _named_texts(other.value)}
        needed, some = _needed(task, result, given, calls[position + 1 :])
        writes = [before for before in calls[:position] if domain.tools[before.name].effect == "write"]
        for search in _searches(domain, call, result):
            found = domain.make((*writes, search), session)[-1]
            if found.status is Status.OK and _shows(search, found.value, needed, some):
                replaced.setdefault(position, search)
                detail = f"{call.name} #{position}: {search.name}({search.arguments})"
                yield detail, (*calls[:position], search, *calls[position + 1 :])
    if len(replaced) > 1:
        yield "all look-ups", tuple(replaced.get(position, call) for position, call in enumerate(calls))


def _needed(
    task: Task, result: ToolResult, given: Set[_Named], later: Sequence[Call]
) -> tuple[frozenset[str], frozenset[_Named]]:
    """Return the ids of what a call looked up with its values that the answer tells or that later calls take.

    And, where there are no such values, all that it shows, of which any is needed. Neither has what was `given` before:
    a text under any name, a number under the same one.
    """
    ids, request = frozenset(_texts([key for _, key in result.operated])), tokens(task.instruction)
    words = {text for _, text in given if not _NUMBER.fullmatch(text)}
    shown = frozenset(
        (name, text)
        for name, text in _named_texts(result.value)
        if (name, text) not in given and not (text in ids or text in words or mentions(request, text))
    )
    taken = [fact_tokens(text) for call in later for text in _texts(call.arguments)]
    facts = [phrase for phrases in task.communicate for phrase in phrases]
    used = frozenset(
        text
        for _, text in shown
        if any(mentions(argument, text) for argument in taken)
        or any(mentions(fact_tokens(text), fact) for fact in facts)
    )
    return ids | used, frozenset() if used else shown


def _searches(domain: Domain, call: Call, result: ToolResult) -> Iterator[Call]:
    """Yield calls of other tools that read the tables of what a call looked up, with arguments of its kinds."""
    known: dict[str, Any] = dict(result.value) if isinstance(result.value, dict) else {}
    for table, key in result.operated:
        columns = domain.spec.tables[table].columns
        for (name, column), value in zip(columns.items(), domain.database.row(table, key) or (), strict=False):
            known |= {name: value, f"{table}.{name}": value} | ({column.references: value} if column.references else {})
    for name, value in call.arguments.items():
        known |= {name: value, domain.tools[call.name].parameters[name].column or name: value}
    tables = {table for table, _ in result.operated}
    tried = set()
    for name, tool in domain.tools.items():
        if name == call.name or not isinstance(tool, SqlTool) or tool.effect != "read" or not tables <= tool.reads:
            continue
        filled = {
            parameter: value
            for parameter, spec in tool.parameters.items()
            if (value := known.get(spec.column or parameter, known.get(parameter))) is not None
        }
        required = [parameter for parameter, spec in tool.parameters.items() if spec.required]
        if filled.keys() >= set(required):
            for arguments in (filled, {parameter: filled[parameter] for parameter in required}):
                if (search := msgspec.json.encode((name, arguments))) not in tried:
                    tried.add(search)
                    yield Call(name, arguments, call.stage)


def _shows(search: Call, value: Any, needed: frozenset[str], some: frozenset[_Named]) -> bool:
    """Return whether one row of a result has all that is `needed`, and some of `some`; arguments count for each row."""
    rows = value if isinstance(value, list) else [value]
    return any(
        needed <= {*_texts(search.arguments), *_texts(row)} and (not some or not some.isdisjoint(_named_texts(row)))
        for row in rows
        if row is not None
    )


def _texts(value: Any) -> Iterator[str]:
    """Yield the plain values within a value, as texts."""
    return (text for _, text in _named_texts(value))


def _named_texts(value: Any) -> Iterator[_Named]:
    """Yield the plain values within a value, as texts, each with the name under which it stands."""
    return ((name, str(found)) for name, found in named_values(value))
