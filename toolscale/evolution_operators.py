"""The operators of evolution: each drafts a harder task from one verified task, or from two.

`toolorchestra.toolscale.evolution` says what they do, and verifies the drafts. They use nothing of a domain but its
specification and what its tools return, so they work on any.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import msgspec

from toolorchestra.toolscale import evolution_templates as wording
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.entities import EntityFact, EntityIndex, is_code, is_date, scalars, states
from toolorchestra.toolscale.evolution_templates import TEMPLATES
from toolorchestra.toolscale.format import Operator
from toolorchestra.toolscale.impossible_requests import nothing_found, refused
from toolorchestra.toolscale.intents import difficulty
from toolorchestra.toolscale.lookups import joined
from toolorchestra.toolscale.referring_expressions import Finder
from toolorchestra.toolscale.task import Call, Task

_MAX_PATHS = 6

Path = tuple[Call, ...]
CallsAndAnswer = tuple[Path, str]


class TaskDraft(NamedTuple):
    """An evolved task that is not verified yet, and whose id has no number.

    `key` distinguishes it from others of its operator. `unevolved` are episodes that solve the tasks that it was made
    of, and must not solve it.
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

    @functools.cached_property
    def has_plain(self) -> bool:
        """Whether a request writes and does not branch; where none does, conditions are put on those that branch."""
        tasks = (
            task for of_intent in self._tasks.values() for task in of_intent if not (task.branches or task.refuses)
        )
        return any(self.index.writes(task.reference_calls) for task in tasks)

    def parent(self, rng: random.Random) -> Task | None:
        """Return a task to evolve, of any intent alike, if there is one."""
        return rng.choice(self._tasks[rng.choice(list(self._tasks))]) if self._tasks else None

    def other(self, parent: Task, rng: random.Random) -> Task | None:
        """Return a task of another intent of the same split, if there is one."""
        tasks = self._of_split[parent.split]
        intents = [intent for intent in tasks if intent != parent.intent]
        return rng.choice(tasks[rng.choice(intents)]) if intents else None

    def fact(self, parents: Sequence[Task], rng: random.Random) -> EntityFact | None:
        """Return a fact that a look-up returns about an entry that one parent names, and that no parent mentions."""
        named = [entry for parent in parents for entry in self.index.named(parent)]
        if not named:
            return None
        table, key = rng.choice(named)
        texts = " ".join(f"{parent.instruction} {parent.answer}" for parent in parents)
        facts = [fact for fact in self.index.facts(table, key) if not states(texts, fact.value)]
        return rng.choice(facts) if facts else None


def _constraint(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Do it only if the result of a look-up meets a condition, and otherwise nothing."""
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
        lookups=joined((*parent.lookups, *other.lookups)),
    )


def _branch(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """One of two requests, as a look-up decides."""
    other = pool.other(parent, rng)
    return None if other is None else _conditional(pool, parent, other, rng)


def _conditional(pool: TaskPool, parent: Task, other: Task | None, rng: random.Random) -> TaskDraft | None:
    """Do what `parent` asks if a condition holds, and otherwise what `other` asks, if it is given."""
    given = [parent] if other is None else [parent, other]
    nested = any(task.branches for task in given)
    if any(task.refuses for task in given) or (nested and pool.has_plain):
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
        "second": wording.sentence(other.instruction) if other else "",
    }
    templates = ("nested " if nested else "") + ("branches" if other else "constraints")
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
        instruction=rng.choice(TEMPLATES[templates]).format_map(words),
        reference_calls=_after(look_up, _without(chosen.reference_calls, fact.call)),
        communicate=(*chosen.communicate, (str(fact.value),)),
        answer=f"{reported} {chosen.answer}",
        alternatives=tuple(_after(look_up, path) for path in chosen.alternatives),
        branches=True,
        refuses=chosen is nothing,
        lookups=() if chosen is nothing else chosen.lookups,
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
        return None  # the name is beside the id, so that no description is needed
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
    aside = f"{fact.thing} {fact.be} {wording.value_text(fact)}"
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
    for find in rng.sample([nothing_found, refused], 2):
        if found := find(pool.index, parent, rng):
            name, value, other, changes = found
            unevolved = [(parent.reference_calls, parent.answer)]
            evolved = {"changed": {str(value): other}}
            kept = (call for call in parent.lookups if value not in scalars(call.arguments))
            changes |= {"branches": True, "refuses": True, "lookups": joined(kept)}
            return _draft(parent, "impossible", f"{name} {other}", evolved, unevolved, **changes)
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
