"""The operators of evolution: each drafts a harder task from one verified task, or from two.

`toolorchestra.toolscale.evolution.evolution` says what they do, and verifies the drafts. They use nothing of a domain
but its specification and what its tools return, so they work on any. How the drafts are worded is in
`toolorchestra.toolscale.evolution.requests`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import msgspec

from toolorchestra.toolscale.database.format import Operator
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.evolution import templates as wording
from toolorchestra.toolscale.evolution.impossible_requests import impossible_changes
from toolorchestra.toolscale.evolution.indirect_requests import described_request
from toolorchestra.toolscale.evolution.referring_expressions import Finder
from toolorchestra.toolscale.evolution.requests import Request, Requests
from toolorchestra.toolscale.requests.entities import EntityFact, EntityIndex, states
from toolorchestra.toolscale.requests.intents import difficulty
from toolorchestra.toolscale.requests.wording import unique_calls
from toolorchestra.toolscale.requests.wording_checks import text_faults
from toolorchestra.toolscale.tasks.task import Call, Task

_MAX_PATHS = 6
_MAX_OTHERS = 12  # tasks tried as the other one
_MAX_WORSE = 3  # of them with ids

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
        self.requests = Requests(self.index)
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

    def other(self, parent: Task, rng: random.Random) -> tuple[Task, Request, Request] | None:
        """Return a task of another intent of the same split, and both requests as one person makes them, or None."""
        tasks = self._of_split[parent.split]
        intents = [intent for intent in tasks if intent != parent.intent]
        worse: list[tuple[Task, Request, Request]] = []
        for _ in range(_MAX_OTHERS if intents else 0):
            other = rng.choice(tasks[rng.choice(intents)])
            if pair := self.requests.pair(parent, other, rng):
                if not self.requests.has_ids(f"{pair[0].text} {pair[1].text}"):
                    return other, *pair
                worse.append((other, *pair))
            if len(worse) == _MAX_WORSE:
                break
        return worse[0] if worse else None

    def fact(
        self, parents: Sequence[Task], requests: Sequence[Request], rng: random.Random
    ) -> tuple[EntityFact, Path] | None:
        """Return a fact that a look-up returns about an entry that a request names, and that none mentions.

        The calls find the entry, if the fact does not name it by its key.
        """
        text = " ".join(request.text for request in requests)
        named: list[tuple[str, Any, str | None, Path]] = []
        for table, key in dict.fromkeys(entry for parent in parents for entry in self.index.taken(parent)):
            called = self.requests.called(table, key)
            if called is not None and called.is_named_in(text):
                named.append((table, key, called.text, called.calls))
            elif self.index.mention(table, key).search(text) and not self.requests.is_odd(key):
                named.append((table, key, None, ()))
        if not named:
            return None
        table, key, phrase, calls = rng.choice(named)
        fact = self.fact_about(table, key, phrase, " ".join([text, *(parent.answer for parent in parents)]), rng)
        return fact and (fact, calls)

    def fact_about(self, table: str, key: Any, phrase: str | None, text: str, rng: random.Random) -> EntityFact | None:
        """Return a fact about an entry whose value a text does not state; `phrase` says what the entry is called."""
        facts = [fact for fact in self.index.facts(table, key) if not states(text, fact.value)]
        facts = [fact.about(f"{self.index.noun(table)} {key}", phrase) for fact in facts] if phrase else facts
        facts = [fact for fact in facts if not states(fact.thing, fact.value)]
        facts = [fact for fact in facts if not any(text_faults(wording.statement(fact)))]
        return rng.choice(facts) if facts else None


def _constraint(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Do it only if the result of a look-up meets a condition, and otherwise nothing."""
    return _conditional(pool, parent, None, rng)


def _chain(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """One request after another."""
    found = pool.other(parent, rng)
    if found is None:
        return None
    other, *requests = found
    paths = list(product((parent.reference_calls, *parent.alternatives), (other.reference_calls, *other.alternatives)))
    if len(paths) > _MAX_PATHS or not all(_independent(pool.index, first, second) for first, second in paths):
        return None
    words = {"first": wording.sentence(requests[0].body), "second": wording.sentence(requests[1].body)}
    reference_calls, *alternatives = (_after(first, second) for first, second in paths)
    return _draft(
        parent,
        "chain",
        other.id,
        {"with": other.id},
        [(parent.reference_calls, parent.answer), (other.reference_calls, other.answer)],
        instruction=pool.requests.text(
            wording.template("chains", parent.split, rng), words, requests, parent.split, rng
        ),
        lookups=_lookups(*requests),
        reference_calls=reference_calls,
        communicate=tuple(dict.fromkeys((*parent.communicate, *other.communicate))),
        answer=f"{wording.sentence(parent.answer)} {wording.sentence(other.answer)}",
        alternatives=tuple(alternatives),
        branches=parent.branches or other.branches,
        refuses=parent.refuses and other.refuses,
    )


def _branch(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """One of two requests, as a look-up decides."""
    found = pool.other(parent, rng)
    return None if found is None else _conditional(pool, parent, found, rng)


def _conditional(
    pool: TaskPool, parent: Task, found: tuple[Task, Request, Request] | None, rng: random.Random
) -> TaskDraft | None:
    """Do what `parent` asks if a condition holds, and otherwise what another task asks, if it is given."""
    other = found[0] if found else None
    given = [parent] if other is None else [parent, other]
    nested = any(task.branches for task in given)
    if any(task.refuses for task in given) or (nested and pool.has_plain):
        return None
    if not any(pool.index.writes(task.reference_calls) for task in given):
        return None
    requests = [pool.requests.choose(pool.requests.of(parent), rng)] if found is None else [*found[1:]]
    holds = rng.random() < 0.5
    found_fact = pool.fact(given, requests, rng)
    predicate = found_fact and pool.index.predicate(found_fact[0], rng, holds)
    if found_fact is None or predicate is None:
        return None
    fact, found_by = found_fact
    nothing = msgspec.structs.replace(
        parent, reference_calls=(), alternatives=(), communicate=(), answer="So nothing was changed."
    )
    chosen, wrong = (parent, other or nothing) if holds else (other or nothing, parent)
    bodies = [wording.sentence(request.body) for request in requests]
    words = wording.words_of(fact, predicate, requests[0].person) | {
        "request": bodies[0],
        "first": bodies[0],
        "second": bodies[-1],
    }
    kind = ("nested " if nested else "") + ("branches" if other else "constraints")
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
        instruction=pool.requests.text(wording.template(kind, parent.split, rng), words, requests, parent.split, rng),
        lookups=_lookups(*requests, calls=found_by),
        reference_calls=_after(look_up, _without(chosen.reference_calls, fact.call)),
        communicate=(*chosen.communicate, (str(fact.value),)),
        answer=f"{reported} {chosen.answer}",
        alternatives=tuple(_after(look_up, path) for path in chosen.alternatives),
        branches=True,
        refuses=chosen is nothing,
    )


def _indirect(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """A description in place of an id or a name."""
    found = described_request(pool.finder, pool.requests, parent, rng)
    if found is None:
        return None
    request = found.request
    needed = tuple(call for call in found.calls if not any(_same(call, one) for one in parent.reference_calls))
    return (
        _draft(
            parent,
            "indirect",
            str(found.key),
            {"described": {str(found.key): found.text}},
            instruction=pool.requests.text("{request}", {"request": request.body}, [request], parent.split, rng),
            lookups=request.lookups,
            reference_calls=_after(needed, parent.reference_calls),
            alternatives=tuple(_after(needed, path) for path in parent.alternatives),
        )
        if needed
        else None
    )


def _distract(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Something that does not matter: a wish that is taken back, or a fact."""
    return _retraction(pool, parent, rng) if rng.random() < 0.5 else _aside(pool, parent, rng)


def _retraction(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    found = pool.other(parent, rng)
    if found is None or found[0].branches or not pool.index.writes(found[0].reference_calls):
        return None
    other, *requests = found
    words = {"request": wording.sentence(requests[0].body), "wish": wording.sentence(requests[1].body)}
    return _draft(
        parent,
        "distract",
        other.id,
        {"with": other.id},
        [(_after(parent.reference_calls, other.reference_calls), f"{parent.answer} {other.answer}")],
        instruction=pool.requests.text(
            wording.template("retractions", parent.split, rng), words, requests, parent.split, rng
        ),
        lookups=_lookups(*requests),
    )


def _aside(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    tables = [table for table in pool.index.keys if pool.index.entries(table)]
    if not tables:
        return None
    table = rng.choice(tables)
    key = rng.choice(pool.index.entries(table))
    called = pool.requests.called(table, key)
    text = f"{parent.instruction} {parent.answer}"
    unnamed = called is None and (pool.requests.named(table, key) or pool.requests.is_odd(key))
    if states(text, key) or unnamed or (called is not None and called.is_named_in(text)):
        return None
    fact = pool.fact_about(table, key, called and called.text, "", rng)
    if fact is None or states(text, fact.thing):
        return None
    request = pool.requests.choose(pool.requests.of(parent), rng)
    aside = f"{wording.own(fact.thing, request.person)} {fact.be} {wording.value_text(fact)}"
    words = {"request": wording.sentence(request.body), "aside": aside, "Aside": wording.capital(aside)}
    return _draft(
        parent,
        "distract",
        f"{fact.call.name} {fact.entry[1]} {fact.field}",
        {"aside": aside},
        instruction=pool.requests.text(
            wording.template("asides", parent.split, rng), words, [request], parent.split, rng
        ),
        lookups=request.lookups,
    )


def _impossible(pool: TaskPool, parent: Task, rng: random.Random) -> TaskDraft | None:
    """Something that cannot be done, or not be found."""
    if parent.branches or parent.refuses or parent.alternatives or not parent.reference_calls:
        return None
    found = impossible_changes(pool.index, pool.requests, parent, rng)
    if found is None:
        return None
    changes = found.changes | {"branches": True, "refuses": True}
    contrary = changes["answer"].replace("That cannot be done.", "That can be done.").replace("could not find", "found")
    wrong = (contrary, "I cannot help you with that.")
    unevolved = [(parent.reference_calls, parent.answer), *((changes["reference_calls"], answer) for answer in wrong)]
    evolved = {"changed": {str(found.value): found.other}}
    return _draft(parent, "impossible", f"{found.place} {found.other}", evolved, unevolved, **changes)


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


def _lookups(*requests: Request, calls: Path = ()) -> Path:
    """Return the calls that find what requests name, and further ones, one after another."""
    return tuple(unique_calls(call for path in (*(request.lookups for request in requests), calls) for call in path))


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
