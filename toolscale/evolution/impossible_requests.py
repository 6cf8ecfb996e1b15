"""Impossible requests: changes of a verified task after which it cannot be carried out.

Either nothing is found: an entry is named as none is (Ada's order from a day on which she has none), or an argument of
the first look-up is changed. Or a rule refuses the first write, as it is asked for another entry.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.database.format import GuardSpec, NameSpec
from toolorchestra.toolscale.evolution import templates as wording
from toolorchestra.toolscale.evolution.requests import Request, Requests, WordedTask
from toolorchestra.toolscale.evolution.templates import WORDS
from toolorchestra.toolscale.requests.entities import (
    EntityFact,
    EntityIndex,
    is_date,
    required,
    scalars,
    spellings,
    states,
)
from toolorchestra.toolscale.requests.wording import NamedEntry, named_entries, named_entry, states_value
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.expressions import evaluate, fill
from toolorchestra.toolscale.tools.sqltool import SqlTool
from toolorchestra.toolscale.tools.tool import Status

_MAX_REPLACEMENTS = 24  # values tried in place of one
_MAX_DONORS = 8  # entries whose names are mixed with another's
_GIVEN = re.compile(r"[A-Z][^\W\d_]+ [A-Z][^\W\d_'-]+")
_ISO = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_HINT = re.compile(r"[;:(]|, see | See ")
_NEAR = re.compile(r"\b(?:today|tomorrow|yesterday)\b", re.IGNORECASE)


class Change(NamedTuple):
    """What of a task was replaced by what, and how that changes the task."""

    place: str
    value: Any
    other: Any
    changes: dict[str, Any]


def impossible_changes(index: EntityIndex, requests: Requests, parent: Task, rng: random.Random) -> Change | None:
    """Return changes after which a task cannot be carried out, or None if none is found."""
    ways = [not_there, refused] if requests.worded(parent) else [nothing_found, refused]
    for find in rng.sample(ways, 2):
        if found := find(index, requests, parent, rng):
            return found
    return None


# --------------------------------------------------------------------------------------------- nothing is found


def nothing_found(index: EntityIndex, requests: Requests, parent: Task, rng: random.Random) -> Change | None:
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
            nouns = index.searched(index.tools[call.name])
            searched = ", ".join(str(value) for value in scalars(call.arguments))
            request = Request(instruction, None, None, None, parent.lookups)
            changes = _reported(index, requests, parent, request, (), call, f"anything for {searched}", nouns, rng)
            return Change(name, value, other, changes)
    return None


def not_there(index: EntityIndex, requests: Requests, parent: Task, rng: random.Random) -> Change | None:
    """Name an entry so that the look-ups that would find it find none."""
    of = requests.worded(parent)
    assert of is not None
    for name in rng.sample(sorted(of.names), len(of.names)):
        (naming,) = of.intent.names[name]
        spec = index.domain.spec.names[naming]
        if spec.from_call or not spec.find or len(of.names[name]) != 1 or of.names[name][0].calls is None:
            continue
        for row in _mixed(index, of, naming, of.names[name][0], rng):
            calls = _search(index, spec, row, of.names[name][0])
            request = calls and _named_otherwise(requests, of, name, row, parent.split, rng)
            if not calls or not request:
                continue
            noun = index.noun(spec.table)
            what = fill(spec.phrase, {**row, "today": index.domain.spec.today}) if spec.phrase else f"such a {noun}"
            what = f"any {noun} called {what}" if what in row.values() else what
            nouns = sorted({noun, noun.split()[-1]})
            changes = _reported(index, requests, parent, request, calls[:-1], calls[-1], what, nouns, rng)
            return Change(name, of.names[name][0].key, what, changes)
    return None


def _reported(
    index: EntityIndex,
    requests: Requests,
    parent: Task,
    request: Request,
    before: tuple[Call, ...],
    search: Call,
    what: str,
    nouns: Sequence[str],
    rng: random.Random,
) -> dict[str, Any]:
    """Return the changes of a task of which a search, made after other look-ups, shows that `what` is not there."""
    kind = "change_nothing" if index.writes(parent.reference_calls) else "nothing_there"
    words = {"request": wording.sentence(request.body), "ending": wording.template(kind, parent.split, rng)}
    return {
        "instruction": requests.text("{request} | {ending}", words, [request], parent.split, rng),
        "lookups": before,
        "reference_calls": (Call(search.name, search.arguments),),
        "communicate": ((*WORDS["not_found"], *(f"no {noun}" for noun in nouns)),),
        "answer": f"I could not find {what}.",
    }


def _mixed(
    index: EntityIndex, of: WordedTask, naming: str, entry: NamedEntry, rng: random.Random
) -> Iterator[dict[str, Any]]:
    """Yield what may be said of an entry, mixed with what may be said of another one of its table."""
    spec = index.domain.spec.names[naming]
    stated = [column for column, value in entry.row.items() if value in entry.stated]
    keys = index.entries(spec.table) if spec.table in index.keys else []
    for key in rng.sample(keys, min(_MAX_DONORS, len(keys))):
        try:
            row = named_entry(index.domain, naming, key, of.scope, index.session).row
        except TaskError:
            continue
        if any(row[column] is None for column in stated):
            continue
        for kept in rng.sample(stated, len(stated)) if len(stated) > 1 else ():
            yield {**row, kept: entry.row[kept]}
        for column in stated if len(stated) == 1 else ():
            own, other = str(entry.row[column]), str(row[column])
            if _GIVEN.fullmatch(own) and _GIVEN.fullmatch(other):
                mixed = f"{own.split()[0]} {other.split()[1]}"
                yield {
                    name: cell.replace(own, mixed) if isinstance(cell, str) else cell
                    for name, cell in entry.row.items()
                }


def _search(index: EntityIndex, spec: NameSpec, row: Mapping[str, Any], entry: NamedEntry) -> tuple[Call, ...] | None:
    """Return the calls that show that there is no entry of which that could be said, or None if they do not."""
    scope: dict[str, Any] = {**row, "today": index.domain.spec.today}
    calls: list[Call] = []
    for stage, step in enumerate(spec.find):
        try:
            call = Call(step.call, {name: evaluate(value, scope) for name, value in step.arguments.items()}, stage)
        except TaskError:
            return None
        result = index.run(call)
        if result.status is not Status.OK:
            own = entry.calls[stage] if entry.calls else call
            instead = _empty_search(index, own, call.arguments, {str(entry.key)})
            return None if instead is None else (*calls, instead)
        calls.append(call)
        if result.value in (None, []):
            return tuple(calls)
        if step.save is not None:
            scope[step.save] = result.value
    if not isinstance(result.value, list) or not spec.pick:
        return None
    wanted = {field: evaluate(expression, scope) for field, expression in spec.pick.items()}
    fit = any(all(one.get(field) == value for field, value in wanted.items()) for one in result.value)
    return None if fit else tuple(calls)


def _named_otherwise(
    requests: Requests, of: WordedTask, name: str, row: dict[str, Any], split: str, rng: random.Random
) -> Request | None:
    """Return a request of a task that says something else of one of its entries, and nothing of what was said."""
    (entry,) = of.names[name]
    changed = {
        value: row[column]
        for column, value in entry.row.items()
        if isinstance(value, str) and len(value) > 1 and row.get(column) != value and row.get(column) is not None
    }
    stated = tuple(row[column] for column, value in entry.row.items() if value in entry.stated)
    names = {
        other: [_swapped(one, changed) for one in entries] if other != name else [NamedEntry("\0", row, (), stated)]
        for other, entries in of.names.items()
    }
    scope = {key: _mapped(value, changed) for key, value in of.scope.items()}
    mixed = len(stated) == 1
    fitting = [
        one
        for one in requests.made(WordedTask(of.intent, scope, names), split)
        if _states_all(one.text, stated)
        and not any(states_value(one.text, tokens(one.text), old) for old in changed)
        and not (any(map(is_date, changed)) and _NEAR.search(one.body))
        and (mixed or all(map(is_date, changed)) or not wording.GENDERED.search(one.body))
    ]
    return requests.choose(fitting, rng) if fitting else None


def _states_all(text: str, values: Sequence[Any]) -> bool:
    words = tokens(text)
    return all(states_value(text, words, value) for value in values)


def _swapped(entry: NamedEntry, changed: Mapping[str, Any]) -> NamedEntry:
    """Return an entry of which something else is said; if so, it is not looked up any more."""
    row = {column: _mapped(value, changed) for column, value in entry.row.items()}
    return entry if row == entry.row else NamedEntry(entry.key, row, (), ())


def _mapped(value: Any, changed: Mapping[str, Any]) -> Any:
    return changed.get(value, value) if isinstance(value, str) else value


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


# ----------------------------------------------------------------------------------------------- a rule refuses


def refused(index: EntityIndex, requests: Requests, parent: Task, rng: random.Random) -> Change | None:
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
    }
    for name in rng.sample(list(tables), len(tables)):
        value, table = write.arguments[name], tables[name]
        for other in rng.sample(index.entries(table), min(_MAX_REPLACEMENTS, len(index.entries(table)))):
            result = index.run(Call(write.name, {**write.arguments, name: other}))
            broken = _broken(guards, result.error) if result.status is Status.EXEC_ERR else None
            if other == value or broken is None:
                continue
            request = _asked_of(index, requests, parent, table, value, other, rng)
            if request is None or not _decided(requests, parent, request.text, write, name, broken):
                continue
            fact = _telling(index, requests, table, other, request.text, broken, rng)
            if fact is None:
                continue
            words = wording.words_of(fact, "", request.person) | {"request": wording.sentence(request.body)}
            template = wording.template("refusals", parent.split, rng)
            reason = _reason(requests, table, other, request.text, result.error or "")
            return Change(name, value, other, {
                "instruction": requests.text(template, words, [request], parent.split, rng),
                "lookups": request.lookups,
                "reference_calls": (fact.call,),
                "communicate": (WORDS["refused"], (str(fact.value),)),
                "answer": f"That cannot be done. {reason} {wording.statement(fact)}",
            })  # fmt: skip
    return None


def _reason(requests: Requests, table: str, key: Any, text: str, error: str) -> str:
    """Return what an error says to people: without hints at tools, and with what the entry is called."""
    called = requests.called(table, key)
    reason = _HINT.split(error)[0].strip()
    if called is not None and called.is_named_in(text):
        reason = reason.replace(str(key), called.text)
    reason = _ISO.sub(lambda found: spellings(found[0])[-1], reason)
    return wording.sentence(wording.capital(reason))


def _telling(
    index: EntityIndex, requests: Requests, table: str, key: Any, text: str, guard: GuardSpec, rng: random.Random
) -> EntityFact | None:
    """Return a fact about an entry that its request does not state, one on which the rule depends if possible."""
    called = requests.called(table, key)
    if called is None and not index.mention(table, key).search(text):
        return None
    facts = [fact for fact in index.facts(table, key) if not states(text, fact.value)]
    facts = [fact for fact in facts if re.search(rf"\b{re.escape(fact.field)}\b", guard.require)] or facts
    if not facts:
        return None
    fact = rng.choice(facts)
    named = called is not None and called.is_named_in(text)
    return fact.about(f"{index.noun(table)} {key}", called.text) if called is not None and named else fact


def _asked_of(
    index: EntityIndex, requests: Requests, parent: Task, table: str, value: Any, other: Any, rng: random.Random
) -> Request | None:
    """Return the request of a task for another entry in place of one, or None where it would not be true of that."""
    of = requests.worded(parent)
    if of is None:
        instruction = wording.changed(parent.instruction, value, other)
        if instruction is None or not index.mention(table, value).search(parent.instruction):
            return None
        fitting = [Request(instruction, None, None, None, parent.lookups)]
    else:
        fitting = _reworded(index, requests, of, parent, table, value, other)
    fitting = [one for one in fitting if not _tied(index, table, value, other, one.text)]
    return requests.choose(fitting, rng) if fitting else None


def _reworded(
    index: EntityIndex, requests: Requests, of: WordedTask, parent: Task, table: str, value: Any, other: Any
) -> list[Request]:
    """Return the requests of a task with another entry in its bindings."""
    before, now = index.row(table, value), index.row(table, other)
    changed = {cell: now[column] for column, cell in before.items() if isinstance(cell, str) and len(cell) > 1}
    changed[value] = other
    bindings = {key: _mapped(one, changed) for key, one in parent.bindings.items()}
    if bindings == parent.bindings:
        return []
    try:
        names = named_entries(index.domain, of.intent, bindings, index.session)
    except TaskError:
        return []
    free = {one for call in parent.reference_calls for one in scalars(call.arguments) if isinstance(one, str | int)}
    stale = [
        one
        for key, one in parent.bindings.items()
        if one == bindings[key] and isinstance(one, str | float | int) and len(str(one)) > 1 and one not in free
    ]
    made = requests.made(WordedTask(of.intent, of.scope | bindings, names), parent.split)
    keys = [entry for entries in names.values() for entry in entries if entry.key == other]
    return [
        one
        for one in made
        if not wording.GENDERED.search(one.body)
        and not any(states(one.text, old) for old in stale)
        and (states(one.text, other) or any(_states_all(one.text, entry.stated) for entry in keys if entry.calls))
    ]


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


def _decided(requests: Requests, parent: Task, text: str, write: Call, name: str, guard: GuardSpec) -> bool:
    """Return whether a guard depends on nothing but what the request says."""
    used = set(re.findall(r"[:@$]([A-Za-z_]\w*)", guard.require)) - {"today", name}
    of = requests.worded(parent)
    named = {entry.key for entries in of.names.values() for entry in entries} if of else set()
    return all(
        one in write.arguments and (_states(text, write.arguments[one]) or write.arguments[one] in named)
        for one in used
    )


def _states(text: str, value: Any) -> bool:
    return states_value(text, tokens(text), value)


def _tied(index: EntityIndex, table: str, value: Any, other: Any, instruction: str) -> bool:
    """Return whether the request says something of an entry that is not true of the other."""
    before, now = index.row(table, value), index.row(table, other)
    return any(
        cell != now[column] and isinstance(cell, str) and len(cell) > 1 and states(instruction, cell)
        for column, cell in before.items()
        if cell != value and not is_date(cell)
    )
