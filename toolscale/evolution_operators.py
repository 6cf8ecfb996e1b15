"""The operators of evolution: each drafts a harder task from one verified task, or from two.

`toolorchestra.toolscale.evolution` says what they do, and verifies the drafts. They use nothing of a domain but its
specification and what its tools return, so they work on any.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import msgspec

from toolorchestra.toolscale import evolution_templates as wording
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.entities import EntityFact, EntityIndex, is_code, is_date, required, scalars, states
from toolorchestra.toolscale.evolution_templates import TEMPLATES
from toolorchestra.toolscale.format import GuardSpec, Operator
from toolorchestra.toolscale.intents import difficulty
from toolorchestra.toolscale.referring_expressions import Finder
from toolorchestra.toolscale.sqltool import SqlTool
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Status

_MAX_REPLACEMENTS = 24  # values tried in place of one
_MAX_PATHS = 6

Path = tuple[Call, ...]
CallsAndAnswer = tuple[Path, str]
Replacement = tuple[str, Any, Any, dict[str, Any]]
"""A parameter, its value, another value in its place, and how that changes the task."""


class TaskDraft(NamedTuple):
    """An evolved task that is not verified yet, and whose id has no number; `key` tells it from others of its operator.

    `unevolved` are episodes that solve the tasks that it was made of, and must not solve it.
    """

    task: Task
    key: str
    unevolved: tuple[CallsAndAnswer, ...] = ()


class TaskPool:
    """The tasks to evolve, by split and intent (evolved ones are left aside), and their domain as its tools show it."""

    def __init__(self, domain: Domain, tasks: Sequence[Task]) -> None:
        self.index = EntityIndex(domain)
        self.finder = Finder(self.index)
        self._tasks: dict[str, list[Task]] = {}
        self._of_split: dict[str, dict[str, list[Task]]] = {}
        for task in tasks:
            if task.operator is None:
                self._tasks.setdefault(task.intent, []).append(task)
                self._of_split.setdefault(task.split, {}).setdefault(task.intent, []).append(task)

    def parent(self, rng: random.Random) -> Task | None:
        """Return a task to evolve, of any intent alike, if there is one."""
        return rng.choice(self._tasks[rng.choice(list(self._tasks))]) if self._tasks else None

    def other(self, parent: Task, rng: random.Random) -> Task | None:
        """Return a task of another intent of the same split, if there is one."""
        tasks = self._of_split[parent.split]
        intents = [intent for intent in tasks if intent != parent.intent]
        return rng.choice(tasks[rng.choice(intents)]) if intents else None

    def fact(self, parents: Sequence[Task], rng: random.Random) -> EntityFact | None:
        """Return what a look-up tells of an entry that one of the parents names, and that none of them says."""
        named = [entry for parent in parents for entry in self.index.named(parent)]
        if not named:
            return None
        table, key = rng.choice(named)
        texts = " ".join(f"{parent.instruction} {parent.answer}" for parent in parents)
        facts = [fact for fact in self.index.facts(table, key) if not states(texts, fact.value)]
        return rng.choice(facts) if facts else None


def _constraint(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Do it only if a look-up says so, and otherwise nothing."""
    return _conditional(pool, parent, None, rng)


def _chain(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """One request after another."""
    other = pool.other(parent, rng)
    if other is None:
        return None
    paths = list(product((parent.reference_calls, *parent.alternatives), (other.reference_calls, *other.alternatives)))
    if len(paths) > _MAX_PATHS or not all(_independent(pool.index, first, second) for first, second in paths):
        return None
    words = {"first": wording.sentence(parent.instruction), "second": wording.sentence(other.instruction)}
    reference_calls, *alternatives = (_after(first, second) for first, second in paths)
    return _draft(
        parent,
        "chain",
        other.id,
        {"with": other.id},
        [(parent.reference_calls, parent.answer), (other.reference_calls, other.answer)],
        instruction=rng.choice(TEMPLATES["chains"]).format_map(words),
        reference_calls=reference_calls,
        communicate=tuple(dict.fromkeys((*parent.communicate, *other.communicate))),
        answer=f"{wording.sentence(parent.answer)} {wording.sentence(other.answer)}",
        alternatives=tuple(alternatives),
        branches=parent.branches or other.branches,
        refuses=parent.refuses and other.refuses,
    )


def _branch(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """One of two requests, as a look-up decides."""
    other = pool.other(parent, rng)
    return None if other is None else _conditional(pool, parent, other, rng)


def _conditional(pool: TaskPool, parent: Task, other: Task | None, rng: random.Random) -> TaskDraft | None:
    """Do what `parent` asks if a condition holds, and otherwise what `other` asks, if it is given."""
    given = [parent] if other is None else [parent, other]
    if any(task.branches or task.refuses for task in given):
        return None
    if not any(pool.index.writes(task.reference_calls) for task in given):
        return None
    holds = rng.random() < 0.5
    fact = pool.fact(given, rng)
    predicate = fact and pool.index.predicate(fact, rng, holds)
    if fact is None or predicate is None:
        return None
    nothing = msgspec.structs.replace(
        parent, reference_calls=(), alternatives=(), communicate=(), answer="So nothing was changed."
    )
    chosen, wrong = (parent, other or nothing) if holds else (other or nothing, parent)
    words = wording.words_of(fact, predicate) | {
        "request": wording.sentence(parent.instruction),
        "do": wording.bare(parent.instruction),
        "otherwise": wording.bare(other.instruction) if other else "",
    }
    look_up, reported = (fact.call,), wording.statement(fact)
    unevolved = [(task.reference_calls, task.answer) for task in given]
    if wrong is not nothing:
        unevolved.append((_after(look_up, wrong.reference_calls), f"{reported} {wrong.answer}"))
    return _draft(
        parent,
        "branch" if other else "constraint",
        other.id if other else f"{fact.call.name} {fact.field} {holds}",
        ({"with": other.id} if other else {}) | {"condition": f"{fact.thing} {fact.be} {predicate}", "holds": holds},
        unevolved,
        instruction=rng.choice(TEMPLATES["branches"] if other else TEMPLATES["constraints"]).format_map(words),
        reference_calls=_after(look_up, _without(chosen.reference_calls, fact.call)),
        communicate=(*chosen.communicate, (str(fact.value),)),
        answer=f"{reported} {chosen.answer}",
        alternatives=tuple(_after(look_up, path) for path in chosen.alternatives),
        branches=True,
        refuses=chosen is nothing,
    )


def _indirect(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """A description in place of an id."""
    named = [(table, key) for table, key in pool.index.named(parent) if is_code(key)]
    if not named:
        return None
    table, key = rng.choice(named)
    description = pool.finder.description(table, key)
    text = f"{parent.instruction} {parent.answer}"
    if description is None or any(states(text, value) for value in description.values if not is_date(value)):
        return None  # the name stands beside the id, so that no description is needed
    pattern, noun = pool.index.mention(table, key), pool.index.noun(table)
    instruction = wording.described(parent.instruction, pattern, description.text, noun)
    needed = tuple(call for call in description.calls if not any(_same(call, one) for one in parent.reference_calls))
    if instruction is None or not needed:
        return None
    return _draft(
        parent,
        "indirect",
        str(key),
        {"described": {str(key): description.text}},
        instruction=instruction,
        reference_calls=_after(needed, parent.reference_calls),
        alternatives=tuple(_after(needed, path) for path in parent.alternatives),
    )


def _distract(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Something that does not matter: a wish that is taken back, or a fact."""
    return _retraction(pool, parent, rng) if rng.random() < 0.5 else _aside(pool, parent, rng)


def _retraction(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    other = pool.other(parent, rng)
    if other is None or other.branches or not pool.index.writes(other.reference_calls):
        return None
    words = {"request": wording.sentence(parent.instruction), "wish": wording.sentence(other.instruction)}
    return _draft(
        parent,
        "distract",
        other.id,
        {"with": other.id},
        [(_after(parent.reference_calls, other.reference_calls), f"{parent.answer} {other.answer}")],
        instruction=rng.choice(TEMPLATES["retractions"]).format_map(words),
    )


def _aside(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    tables = [table for table in pool.index.keys if pool.index.entries(table)]
    if not tables:
        return None
    table = rng.choice(tables)
    facts = pool.index.facts(table, rng.choice(pool.index.entries(table)))
    fact = rng.choice(facts) if facts else None
    if fact is None or states(f"{parent.instruction} {parent.answer}", fact.entry[1]):
        return None
    aside = f"{fact.thing} {fact.be} {wording.said(fact)}"
    words = {"request": wording.sentence(parent.instruction), "aside": aside, "Aside": wording.capital(aside)}
    return _draft(
        parent,
        "distract",
        f"{fact.call.name} {fact.entry[1]} {fact.field}",
        {"aside": aside},
        instruction=rng.choice(TEMPLATES["asides"]).format_map(words),
    )


def _impossible(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Something that cannot be done, or not be found."""
    if parent.branches or parent.refuses or parent.alternatives or not parent.reference_calls:
        return None
    for find in rng.sample([_nothing_found, _refused], 2):
        if found := find(pool.index, parent, rng):
            name, value, other, changes = found
            unevolved = [(parent.reference_calls, parent.answer)]
            evolved = {"changed": {str(value): other}}
            changes |= {"branches": True, "refuses": True}
            return _draft(parent, "impossible", f"{name} {other}", evolved, unevolved, **changes)
    return None


def _nothing_found(index: EntityIndex, parent: Task, rng: random.Random) -> Replacement | None:
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


def _refused(index: EntityIndex, parent: Task, rng: random.Random) -> Replacement | None:
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


OPERATORS: dict[Operator, Callable[[TaskPool, Task, random.Random], TaskDraft | None]] = {
    "constraint": _constraint,
    "chain": _chain,
    "branch": _branch,
    "indirect": _indirect,
    "distract": _distract,
    "impossible": _impossible,
}


def _draft(
    parent: Task,
    operator: Operator,
    key: str,
    evolved: Mapping[str, Any],
    unevolved: Sequence[CallsAndAnswer] = (),
    **changes: Any,
) -> TaskDraft:
    """Return the draft of a task that differs from `parent` by `changes`; `evolved` goes into its bindings."""
    task = msgspec.structs.replace(parent, **changes)
    intent = f"{parent.intent}+{operator}"
    task = msgspec.structs.replace(
        task,
        id=f"{parent.domain}/{intent}",
        intent=intent,
        difficulty=difficulty(len(task.reference_calls), task.branches),
        bindings={**parent.bindings, "evolved": dict(evolved)},
        parent=parent.id,
        operator=operator,
    )
    return TaskDraft(task, f"{parent.id} {key}", tuple(unevolved))


def _after(first: Sequence[Call], second: Sequence[Call]) -> Path:
    """Return the calls of one path and then those of another, in stages of their own."""
    start = 1 + max((call.stage for call in first), default=-1)
    return (*first, *(msgspec.structs.replace(call, stage=call.stage + start) for call in second))


def _same(call: Call, other: Call) -> bool:
    return (call.name, call.arguments) == (other.name, other.arguments)


def _without(calls: Sequence[Call], known: Call) -> Path:
    """Return a path whose first stage does not repeat a look-up made just before."""
    return tuple(call for call in calls if call.stage > 0 or not _same(call, known))


def _independent(index: EntityIndex, first: Sequence[Call], second: Sequence[Call]) -> bool:
    """Return whether two paths lead to the same results and the same rows in either order as on their own."""
    if not index.writes((*first, *second)):
        return True
    alone = index.results(first), index.results(second)
    if alone[0] is None or alone[1] is None:
        return False
    if index.results((*first, *second)) != alone[0] + alone[1]:
        return False
    rows = index.session.touched()
    return index.results((*second, *first)) == alone[1] + alone[0] and index.session.touched() == rows


def _replacements(index: EntityIndex, column: str, value: Any, rng: random.Random) -> Iterator[Any]:
    """Yield values that could stand in place of one: others of its column, and an id that does not exist."""
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
