"""The operators of evolution: each makes a draft of a harder task from one verified task, or from two.

What they do is told in `toolorchestra.toolscale.evolution`, which proves the drafts. They know of a domain only what
its specification says and its tools show, so they work on any.
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
from toolorchestra.toolscale.entities import EntityFact, EntityIndex, is_code, is_date, scalars, shown_value, states
from toolorchestra.toolscale.format import GuardSpec, Operator
from toolorchestra.toolscale.intents import difficulty
from toolorchestra.toolscale.referring_expressions import Finder
from toolorchestra.toolscale.sqltool import SqlTool
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Status

_OTHERS = 24  # values tried in place of one
_MAX_PATHS = 6


class TaskDraft(NamedTuple):
    """An evolved task that is not proved yet.

    Attributes:
        task: The task; its id has no number yet.
        key: What makes it different from others of its operator and parent.
        unevolved: Episodes that solved what it was made of, and must not solve it.
    """

    task: Task
    key: str
    unevolved: tuple[tuple[tuple[Call, ...], str], ...] = ()


class Workshop:
    """What operators work with: the tasks to evolve, by split and intent, and the domain as its tools show it.

    Args:
        domain: The domain.
        tasks: Verified tasks of the domain; those that are evolved themselves are left aside.
    """

    def __init__(self, domain: Domain, tasks: Sequence[Task]) -> None:
        self.world = EntityIndex(domain.database, domain.tools)
        self.finder = Finder(self.world)
        self._tasks: dict[str, list[Task]] = {}
        self._of_split: dict[str, dict[str, list[Task]]] = {}
        for task in tasks:
            if task.operator is None:
                self._tasks.setdefault(task.intent, []).append(task)
                self._of_split.setdefault(task.split, {}).setdefault(task.intent, []).append(task)
        self._intents = list(self._tasks)

    def parent(self, rng: random.Random) -> Task | None:
        """Return a task to evolve, of any intent alike, if there is one."""
        return rng.choice(self._tasks[rng.choice(self._intents)]) if self._intents else None

    def other(self, parent: Task, rng: random.Random) -> Task | None:
        """Return a task of another intent of the same split, if there is one."""
        tasks = self._of_split[parent.split]
        intents = [intent for intent in tasks if intent != parent.intent]
        return rng.choice(tasks[rng.choice(intents)]) if intents else None

    def named_fact(self, parents: Sequence[Task], rng: random.Random) -> EntityFact | None:
        """Return what a look-up tells of an entry that one of the parents names, and that none of them says."""
        named = [entry for parent in parents for entry in self.world.named(parent)]
        if not named:
            return None
        entry = rng.choice(named)
        said = " ".join(f"{parent.instruction} {parent.answer}" for parent in parents)
        facts = [fact for fact in self.world.facts(entry.table, entry.key) if not states(said, fact.value)]
        return rng.choice(facts) if facts else None


def _constraint(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Only if a look-up says so, and otherwise nothing."""
    if parent.branches or parent.refuses or not shop.world.writes(parent.reference_calls):
        return None
    holds = rng.random() < 0.5
    fact = shop.named_fact([parent], rng)
    predicate = fact and shop.world.predicate(fact, rng, holds)
    if fact is None or predicate is None:
        return None
    words = wording.words_of(fact, predicate) | {
        "request": wording.sentence(parent.instruction),
        "do": wording.bare(parent.instruction),
    }
    told = f"{wording.capital(fact.thing)} {fact.be} {shown_value(fact.value)}."
    reference_calls = _after((fact.call,), _without(parent.reference_calls, fact.call)) if holds else (fact.call,)
    task = _evolved(
        parent,
        "constraint",
        instruction=rng.choice(wording.CONSTRAINTS).format_map(words),
        reference_calls=reference_calls,
        communicate=(*(parent.communicate if holds else ()), (str(fact.value),)),
        answer=f"{told} {parent.answer}" if holds else f"{told} So nothing was changed.",
        alternatives=tuple(_after((fact.call,), path) for path in parent.alternatives) if holds else (),
        branches=True,
        refuses=not holds,
        evolved={"condition": f"{fact.thing} {fact.be} {predicate}", "holds": holds},
    )
    unevolved = [(parent.reference_calls, parent.answer)]
    unevolved += [(_after((fact.call,), parent.reference_calls), f"{told} {parent.answer}")] if not holds else []
    return TaskDraft(task, f"{parent.id} {fact.call.name} {fact.field} {holds}", tuple(unevolved))


def _chain(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """One request after another."""
    world, other = shop.world, shop.other(parent, rng)
    if other is None:
        return None
    paths = list(product((parent.reference_calls, *parent.alternatives), (other.reference_calls, *other.alternatives)))
    if len(paths) > _MAX_PATHS or not all(_independent(world, first, second) for first, second in paths):
        return None
    words = {"first": wording.sentence(parent.instruction), "second": wording.sentence(other.instruction)}
    chained = [_after(first, second) for first, second in paths]
    task = _evolved(
        parent,
        "chain",
        instruction=rng.choice(wording.CHAINS).format_map(words),
        reference_calls=chained[0],
        communicate=tuple(dict.fromkeys((*parent.communicate, *other.communicate))),
        answer=f"{wording.sentence(parent.answer)} {wording.sentence(other.answer)}",
        alternatives=tuple(chained[1:]),
        branches=parent.branches or other.branches,
        refuses=parent.refuses and other.refuses,
        evolved={"with": other.id},
    )
    return TaskDraft(
        task,
        f"{parent.id} {other.id}",
        ((parent.reference_calls, parent.answer), (other.reference_calls, other.answer)),
    )


def _branch(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """One of two requests, as a look-up decides."""
    other = shop.other(parent, rng)
    if other is None or parent.branches or parent.refuses or other.branches or other.refuses:
        return None
    if not shop.world.writes((*parent.reference_calls, *other.reference_calls)):
        return None
    holds = rng.random() < 0.5
    fact = shop.named_fact([parent, other], rng)
    predicate = fact and shop.world.predicate(fact, rng, holds)
    if fact is None or predicate is None:
        return None
    chosen = parent if holds else other
    words = wording.words_of(fact, predicate) | {
        "do": wording.bare(parent.instruction),
        "otherwise": wording.bare(other.instruction),
    }
    told = f"{wording.capital(fact.thing)} {fact.be} {shown_value(fact.value)}."
    task = _evolved(
        parent,
        "branch",
        instruction=rng.choice(wording.BRANCHES).format_map(words),
        reference_calls=_after((fact.call,), _without(chosen.reference_calls, fact.call)),
        communicate=(*chosen.communicate, (str(fact.value),)),
        answer=f"{told} {chosen.answer}",
        alternatives=tuple(_after((fact.call,), path) for path in chosen.alternatives),
        branches=True,
        refuses=False,
        evolved={"with": other.id, "condition": f"{fact.thing} {fact.be} {predicate}", "holds": holds},
    )
    wrong = other if holds else parent
    unevolved = (
        (parent.reference_calls, parent.answer),
        (other.reference_calls, other.answer),
        (_after((fact.call,), wrong.reference_calls), f"{told} {wrong.answer}"),
    )
    return TaskDraft(task, f"{parent.id} {other.id}", unevolved)


def _indirect(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """A description in place of an id."""
    named = [entry for entry in shop.world.named(parent) if is_code(entry.key)]
    if not named:
        return None
    entry = rng.choice(named)
    description = shop.finder.description(entry.table, entry.key)
    said = f"{parent.instruction} {parent.answer}"
    if description is None or any(states(said, value) for value in description.told if not is_date(value)):
        return None  # who is told the name besides the id needs no description
    pattern = shop.world.mention(entry.table, entry.key)
    instruction = wording.described(parent.instruction, pattern, description.text, shop.world.noun(entry.table))
    if instruction is None:
        return None
    known = [call for call in description.calls if not any(_same(call, one) for one in parent.reference_calls)]
    task = _evolved(
        parent,
        "indirect",
        instruction=instruction,
        reference_calls=_after(tuple(known), parent.reference_calls),
        communicate=parent.communicate,
        answer=parent.answer,
        alternatives=tuple(_after(tuple(known), path) for path in parent.alternatives),
        branches=parent.branches,
        refuses=parent.refuses,
        evolved={"described": {str(entry.key): description.text}},
    )
    return TaskDraft(task, f"{parent.id} {entry.key}") if known else None


def _distract(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Something that does not matter."""
    world = shop.world
    words = {"request": wording.sentence(parent.instruction)}
    unevolved: tuple[tuple[tuple[Call, ...], str], ...] = ()
    if rng.random() < 0.5:
        other = shop.other(parent, rng)
        if other is None or other.branches or not world.writes(other.reference_calls):
            return None
        words["wish"] = wording.sentence(other.instruction)
        instruction, key = rng.choice(wording.RETRACTIONS).format_map(words), other.id
        evolved: dict[str, Any] = {"with": other.id}
        unevolved = ((_after(parent.reference_calls, other.reference_calls), f"{parent.answer} {other.answer}"),)
    else:
        tables = [table for table in world.keys if world.entries(table)]
        table = rng.choice(tables) if tables else None
        facts = world.facts(table, rng.choice(world.entries(table))) if table is not None else ()
        fact = rng.choice(facts) if facts else None
        if fact is None or states(f"{parent.instruction} {parent.answer}", fact.entry[1]):
            return None
        aside = f"{fact.thing} {fact.be} {wording.said(fact)}"
        words |= {"aside": aside, "Aside": wording.capital(aside)}
        instruction, key = (
            rng.choice(wording.ASIDES).format_map(words),
            f"{fact.call.name} {fact.entry[1]} {fact.field}",
        )
        evolved = {"aside": aside}
    task = _evolved(
        parent,
        "distract",
        instruction=instruction,
        reference_calls=parent.reference_calls,
        communicate=parent.communicate,
        answer=parent.answer,
        alternatives=parent.alternatives,
        branches=parent.branches,
        refuses=parent.refuses,
        evolved=evolved,
    )
    return TaskDraft(task, f"{parent.id} {key}", unevolved)


def _impossible(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Something that cannot be done, or not be found."""
    if parent.branches or parent.refuses or parent.alternatives or not parent.reference_calls:
        return None
    first, second = rng.sample([_nothing_found, _refused], 2)
    return first(shop, parent, rng) or second(shop, parent, rng)


def _nothing_found(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Change an argument of the first look-up so that it finds nothing on which the rest could be done."""
    world, look = shop.world, parent.reference_calls[0]
    tool, results = world.tools[look.name], world.trace(parent)
    if tool.effect != "read" or results is None or any(call.stage == look.stage for call in parent.reference_calls[1:]):
        return None
    found = {str(value) for value in scalars(results[0])} - {str(value) for value in scalars(look.arguments)}
    later = {str(value) for call in parent.reference_calls[1:] for value in scalars(call.arguments)}
    told = {fact for options in parent.communicate for fact in options}
    if not found & (later | told):
        return None
    for name in rng.sample(sorted(look.arguments), len(look.arguments)):
        value, column = look.arguments[name], tool.parameters[name].column
        if not isinstance(value, str | int) or column is None:
            continue
        for other in _others(world, column, value, rng):
            instruction = wording.changed(parent.instruction, value, other)
            if instruction is None:
                break
            call = _witness(world, look, {**look.arguments, name: other}, found & (later | told))
            if call is None:
                continue
            ending = wording.CHANGE_NOTHING if world.writes(parent.reference_calls) else wording.NOTHING_THERE
            nouns = world.searched(world.tools[call.name])
            searched = ", ".join(str(value) for value in scalars(call.arguments))
            task = _evolved(
                parent,
                "impossible",
                instruction=f"{instruction} {rng.choice(ending)}",
                reference_calls=(call,),
                communicate=((*wording.NOT_FOUND, *(f"no {noun}" for noun in nouns)),),
                answer=f"That cannot be done: nothing was found for {searched}.",
                branches=True,
                refuses=True,
                evolved={"changed": {str(value): other}},
            )
            return TaskDraft(task, f"{parent.id} {name} {other}", ((parent.reference_calls, parent.answer),))
    return None


def _witness(world: EntityIndex, look: Call, changed: Mapping[str, Any], needed: set[str]) -> Call | None:
    """Return a call that shows that a changed look-up finds nothing: the look-up itself, or a search for the same.

    A search counts when it takes what the look-up takes, finds with the look-up's own arguments what is needed,
    and with the changed ones nothing.
    """
    result = world.run(Call(look.name, dict(changed)))
    if result.status is Status.OK:
        return Call(look.name, dict(changed)) if result.value in (None, []) else None
    columns = {spec.column: name for name, spec in world.tools[look.name].parameters.items() if spec.column}
    for tool in world.readers:
        taken = {name: columns[spec.column] for name, spec in tool.parameters.items() if spec.column in columns}
        required = {name for name, spec in tool.parameters.items() if spec.required}
        if tool.name == look.name or not required <= set(taken) or not set(changed) <= set(taken.values()):
            continue
        before, call = (
            Call(tool.name, {name: arguments[of] for name, of in taken.items() if of in arguments})
            for arguments in (look.arguments, changed)
        )
        shown = {str(value) for value in scalars(world.run(before).value)}
        now = world.run(call)
        if needed & shown and now.status is Status.OK and now.value in (None, []):
            return call
    return None


def _refused(shop: Workshop, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Change an entry so that the first write is refused by a rule, and ask for what a look-up says of the entry."""
    world = shop.world
    write = next((call for call in parent.reference_calls if world.tools[call.name].effect == "write"), None)
    if write is None:
        return None
    tool = world.tools[write.name]
    guards = tool.spec.guards if isinstance(tool, SqlTool) else []
    names = [
        name
        for name, value in write.arguments.items()
        if (table := world.table_of(tool.parameters[name]))
        and isinstance(value, str | int)
        and world.database.row(table, value) is not None  # it may be made on the way
        and world.mention(table, value).search(parent.instruction)
    ]
    for name in rng.sample(names, len(names)):
        value, table = write.arguments[name], world.table_of(tool.parameters[name])
        assert table is not None
        for other in rng.sample(world.entries(table), min(_OTHERS, len(world.entries(table)))):
            result = world.run(Call(write.name, {**write.arguments, name: other}))
            broken = _broken(guards, result.error) if result.status is Status.EXEC_ERR else None
            if other == value or broken is None or not _decided(parent, write, name, broken):
                continue
            facts = world.facts(table, other)
            telling = [fact for fact in facts if re.search(rf"\b{re.escape(fact.field)}\b", broken.require)] or facts
            instruction = wording.changed(parent.instruction, value, other)
            if not telling or instruction is None or _tied(world, table, value, other, parent.instruction):
                continue
            fact = rng.choice(telling)
            if states(instruction, fact.value):
                continue
            words = wording.words_of(fact, "") | {"request": instruction}
            told = f"{wording.capital(fact.thing)} {fact.be} {shown_value(fact.value)}."
            task = _evolved(
                parent,
                "impossible",
                instruction=rng.choice(wording.REFUSALS).format_map(words),
                reference_calls=(fact.call,),
                communicate=(wording.REFUSED, (str(fact.value),)),
                answer=f"That cannot be done. {wording.sentence(result.error or '')} {told}",
                branches=True,
                refuses=True,
                evolved={"changed": {str(value): other}},
            )
            return TaskDraft(task, f"{parent.id} {name} {other}", ((parent.reference_calls, parent.answer),))
    return None


OPERATORS: dict[Operator, Callable[[Workshop, Task, random.Random], TaskDraft | None]] = {
    "constraint": _constraint,
    "chain": _chain,
    "branch": _branch,
    "indirect": _indirect,
    "distract": _distract,
    "impossible": _impossible,
}


def _evolved(parent: Task, operator: Operator, *, evolved: Mapping[str, Any], **fields: Any) -> Task:
    """Return a task evolved from `parent`; `evolved` goes into its bindings."""
    intent = f"{parent.intent}+{operator}"
    return Task(
        id=f"{parent.domain}/{intent}",
        domain=parent.domain,
        intent=intent,
        split=parent.split,
        difficulty=difficulty(len(fields["reference_calls"]), fields["branches"]),
        bindings={**parent.bindings, "evolved": dict(evolved)},
        parent=parent.id,
        operator=operator,
        **fields,
    )


def _after(first: Sequence[Call], second: Sequence[Call]) -> tuple[Call, ...]:
    """Return the calls of one path and then those of another, in stages of their own."""
    start = 1 + max((call.stage for call in first), default=-1)
    return (*first, *(msgspec.structs.replace(call, stage=call.stage + start) for call in second))


def _same(call: Call, other: Call) -> bool:
    return (call.name, call.arguments) == (other.name, other.arguments)


def _without(calls: Sequence[Call], known: Call) -> tuple[Call, ...]:
    """Return a path whose first stage does not repeat a look-up made just before."""
    return tuple(call for call in calls if call.stage > 0 or not _same(call, known))


def _independent(world: EntityIndex, first: Sequence[Call], second: Sequence[Call]) -> bool:
    """Return whether two paths lead to the same results and the same rows in either order as on their own."""
    if not world.writes((*first, *second)):
        return True
    alone = world.results(first), world.results(second)
    if alone[0] is None or alone[1] is None:
        return False
    if world.results((*first, *second)) != alone[0] + alone[1]:
        return False
    rows = world.session.touched()
    return world.results((*second, *first)) == alone[1] + alone[0] and world.session.touched() == rows


def _others(world: EntityIndex, column: str, value: Any, rng: random.Random) -> Iterator[Any]:
    """Yield values that could stand in place of one: others of its column, and an id that does not exist."""
    table, _, name = column.partition(".")
    known = world.values(column)
    options = [other for other in rng.sample(known, min(_OTHERS, len(known))) if other != value]
    if world.keys.get(table) == name and (missing := _missing(known, value, rng)) is not None:
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
    return all(
        used_name in write.arguments and states(parent.instruction, write.arguments[used_name]) for used_name in used
    )


def _tied(world: EntityIndex, table: str, value: Any, other: Any, instruction: str) -> bool:
    """Return whether the request says something of an entry that is not true of the other."""
    before, now = world.row(table, value), world.row(table, other)
    return any(
        cell != now[column] and isinstance(cell, str) and len(cell) > 1 and states(instruction, cell)
        for column, cell in before.items()
        if cell != value and not is_date(cell)
    )
