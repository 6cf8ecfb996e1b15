"""Impossible requests: changes of a verified task after which it cannot be carried out."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from toolorchestra.toolscale import evolution_templates as wording
from toolorchestra.toolscale.entities import EntityIndex, is_date, required, scalars, states
from toolorchestra.toolscale.evolution_templates import TEMPLATES
from toolorchestra.toolscale.format import GuardSpec
from toolorchestra.toolscale.sqltool import SqlTool
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Status

_MAX_REPLACEMENTS = 24  # values tried in place of one

Replacement = tuple[str, Any, Any, dict[str, Any]]
"""A parameter, its value, another value in its place, and how that changes the task."""


def nothing_found(index: EntityIndex, parent: Task, rng: random.Random) -> Replacement | None:
    """Change an argument of the first look-up so that it finds nothing on which the rest could be done."""
    look_up = parent.reference_calls[0]
    tool, results, later_calls = index.tools[look_up.name], index.trace(parent), parent.reference_calls[1:]
    if tool.effect != "read" or results is None or any(call.stage == look_up.stage for call in later_calls):
        return None
    found = {str(value) for value in scalars(results[0])} - {str(value) for value in scalars(look_up.arguments)}
    needed = {str(value) for call in later_calls for value in scalars(call.arguments)}
    needed = found & (needed | {fact for options in parent.communicate for fact in options})
    if not needed:
        return None
    for name in rng.sample(sorted(look_up.arguments), len(look_up.arguments)):
        value, column = look_up.arguments[name], tool.parameters[name].column
        if not isinstance(value, str | int) or column is None:
            continue
        for other in _replacements(index, column, value, rng):
            instruction = wording.changed(parent.instruction, value, other)
            if instruction is None:
                break
            call = _empty_search(index, look_up, {**look_up.arguments, name: other}, needed)
            if call is None:
                continue
            ending = TEMPLATES["change_nothing"] if index.writes(parent.reference_calls) else TEMPLATES["nothing_there"]
            nouns = index.searched(index.tools[call.name])
            searched = ", ".join(str(value) for value in scalars(call.arguments))
            return name, value, other, {
                "instruction": f"{instruction} {rng.choice(ending)}",
                "reference_calls": (call,),
                "communicate": ((*TEMPLATES["not_found"], *(f"no {noun}" for noun in nouns)),),
                "answer": f"That cannot be done: nothing was found for {searched}.",
            }  # fmt: skip
    return None


def _empty_search(index: EntityIndex, look_up: Call, changed: dict[str, Any], needed: set[str]) -> Call | None:
    """Return a call that shows that a changed look-up finds nothing: the look-up itself, or a search for the same.

    Such a search finds what is needed with the look-up's own arguments, and nothing with the changed ones.
    """
    result = index.run(Call(look_up.name, changed))
    if result.status is Status.OK:
        return Call(look_up.name, changed) if result.value in (None, []) else None
    columns = {spec.column: name for name, spec in index.tools[look_up.name].parameters.items() if spec.column}
    for tool in index.readers:
        taken = {name: columns[spec.column] for name, spec in tool.parameters.items() if spec.column in columns}
        fitting = set(required(tool)) <= taken.keys() and changed.keys() <= set(taken.values())
        if tool.name == look_up.name or not fitting:
            continue
        before, call = (
            Call(tool.name, {name: arguments[of] for name, of in taken.items() if of in arguments})
            for arguments in (look_up.arguments, changed)
        )
        shown = {str(value) for value in scalars(index.run(before).value)}
        now = index.run(call)
        if needed & shown and now.status is Status.OK and now.value in (None, []):
            return call
    return None


def refused(index: EntityIndex, parent: Task, rng: random.Random) -> Replacement | None:
    """Change an entry so that the first write is refused by a rule, and ask for what a look-up says of the entry."""
    write = next((call for call in parent.reference_calls if index.tools[call.name].effect == "write"), None)
    if write is None:
        return None
    tool = index.tools[write.name]
    guards = tool.spec.guards if isinstance(tool, SqlTool) else []
    tables = {
        name: table
        for name, value in write.arguments.items()
        if (table := index.table_of(tool.parameters[name]))
        and isinstance(value, str | int)
        and index.database.row(table, value) is not None  # an earlier call may insert it
        and index.mention(table, value).search(parent.instruction)
    }
    for name in rng.sample(list(tables), len(tables)):
        value, table = write.arguments[name], tables[name]
        for other in rng.sample(index.entries(table), min(_MAX_REPLACEMENTS, len(index.entries(table)))):
            result = index.run(Call(write.name, {**write.arguments, name: other}))
            broken = _broken(guards, result.error) if result.status is Status.EXEC_ERR else None
            if other == value or broken is None or not _decided(parent, write, name, broken):
                continue
            facts = index.facts(table, other)
            telling = [fact for fact in facts if re.search(rf"\b{re.escape(fact.field)}\b", broken.require)] or facts
            instruction = wording.changed(parent.instruction, value, other)
            if not telling or instruction is None or _tied(index, table, value, other, parent.instruction):
                continue
            fact = rng.choice(telling)
            if states(instruction, fact.value):
                continue
            words = wording.words_of(fact, "") | {"request": instruction}
            return name, value, other, {
                "instruction": rng.choice(TEMPLATES["refusals"]).format_map(words),
                "reference_calls": (fact.call,),
                "communicate": (TEMPLATES["refused"], (str(fact.value),)),
                "answer": f"That cannot be done. {wording.sentence(result.error or '')} {wording.statement(fact)}",
            }  # fmt: skip
    return None


def _replacements(index: EntityIndex, column: str, value: Any, rng: random.Random) -> Iterator[Any]:
    """Yield values to replace one: others of its column, and an id that does not exist."""
    table, _, name = column.partition(".")
    known = index.values(column)
    options = [other for other in rng.sample(known, min(_MAX_REPLACEMENTS, len(known))) if other != value]
    if index.keys.get(table) == name and (missing := _missing(known, value, rng)) is not None:
        options.insert(0, missing)
    yield from (other for other in options if type(other) is type(value) and is_date(other) == is_date(value))


def _missing(known: Sequence[Any], value: Any, rng: random.Random) -> Any:
    """Return an id like `value` that does not exist, or None if it has no number to count on from."""
    if isinstance(value, int):
        return max(known) + rng.randint(7, 60)
    found = re.fullmatch(r"(.*?)(\d+)(\D*)", str(value))
    if found is None:
        return None
    largest = max((int(digits[-1]) for key in known if (digits := re.findall(r"\d+", str(key)))), default=0)
    other = f"{found[1]}{largest + rng.randint(7, 60):0{len(found[2])}d}{found[3]}"
    return None if other in known else other


def _broken(guards: Sequence[GuardSpec], error: str | None) -> GuardSpec | None:
    """Return the guard whose message an error is."""
    for guard in guards:
        parts = [re.escape(part) for part in re.split(r"\{[a-z0-9_]+\}", guard.error)]
        if error is not None and re.fullmatch(".*".join(parts), error, re.DOTALL):
            return guard
    return None


def _decided(parent: Task, write: Call, name: str, guard: GuardSpec) -> bool:
    """Return whether a guard depends on nothing but what the request says."""
    used = set(re.findall(r"[:@$]([A-Za-z_]\w*)", guard.require)) - {"today", name}
    return all(one in write.arguments and states(parent.instruction, write.arguments[one]) for one in used)


def _tied(index: EntityIndex, table: str, value: Any, other: Any, instruction: str) -> bool:
    """Return whether the request says something of an entry that is not true of the other."""
    before, now = index.row(table, value), index.row(table, other)
    return any(
        cell != now[column] and isinstance(cell, str) and len(cell) > 1 and states(instruction, cell)
        for column, cell in before.items()
        if cell != value and not is_date(cell)
    )
