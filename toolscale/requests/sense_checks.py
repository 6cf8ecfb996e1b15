"""Checks of tasks that nobody has read: those of a domain that was made from a database or by a language model.

A request may state its own answer, the answer may be one that a guess finds, and what is rewarded may be had without
understanding the request. A person who writes a domain decides these things; where nobody did, such tasks are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.intents import bindings_of, facts_of
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.validation.exploiter import try_exploits
from toolorchestra.toolscale.validation.verifier_attacks import try_attacks
from toolorchestra.toolscale.validation.verifier_mutations import try_verifier

MAX_COMMON = Fraction(1, 2)
"""Share of the answers to a kind of request that one answer may have; a more frequent one is a guess."""
MIN_TASKS = 3
"""Tasks that an intent keeps at least, if some of its tasks are dropped; with fewer left, all of them are."""

Check = Callable[[list[Task]], Iterator[str]]
"""Yields for each task why it is dropped, or nothing."""


def reading_checks(domain: Domain) -> dict[str, Check]:
    """Return the checks of what requests ask, by name."""
    return {
        "request states the answer": lambda tasks: (_stated(task) for task in tasks),
        "the usual answer": lambda tasks: _usual(domain, tasks),
    }


def unread_checks(
    domain: Domain, made: Sequence[Task], guessers: Mapping[str, Callable[[Domain, Task, int], bool]], k: int
) -> dict[str, Check]:
    """Return all checks of the tasks `made` in a domain; a guesser that solves one in `k` attempts drops it."""

    def guessed(task: Task) -> str:
        found = (name for seed in range(k) for name, guesser in guessers.items() if guesser(domain, task, seed))
        return f"solved by {name}" if (name := next(found, None)) else ""

    return {
        **reading_checks(domain),
        "solved by a guesser": lambda left: map(guessed, left),
        "judged wrongly": lambda left: misjudged(domain, left),
        "solved by guessing": lambda left: _guessed(domain, left),
        "few left of the intent": lambda left: _left_over(made, left),
    }


def _left_over(made: Sequence[Task], left: Sequence[Task]) -> Iterator[str]:
    """Yield why a task that is `left` of those `made` goes, too: of its intent, too few are."""
    before, now = (Counter(task.intent for task in tasks) for tasks in (made, left))
    few = {name for name in now if now[name] < min(MIN_TASKS, before[name])}
    yield from (f"of {before[task.intent]}, {now[task.intent]} left" if task.intent in few else "" for task in left)


def _stated(task: Task) -> str:
    """Return the fact that an instruction says; one of several that a look-up decides between is not stated."""
    said = [] if task.branches or task.refuses else tokens(task.instruction)
    for phrase in (phrase for phrases in task.communicate for phrase in phrases):
        words = tokens(phrase)
        if words and any(said[i : i + len(words)] == words for i in range(len(said) - len(words) + 1)):
            return f"it says {phrase!r}"
    return ""


def _usual(domain: Domain, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield whether the answer of a task is the most frequent one of what its intent asks, or of what is then left."""
    usual: dict[str, set[Any]] = {}
    for name in dict.fromkeys(task.intent for task in tasks):
        left = _answers(domain, name, tasks)
        usual[name] = set()
        while left and left.most_common(1)[0][1] > MAX_COMMON * left.total():
            answer = left.most_common(1)[0][0]
            usual[name].add(answer)
            del left[answer]
    yield from ("more than half have this answer" if task.communicate in usual[task.intent] else "" for task in tasks)


def _answers(domain: Domain, name: str, tasks: Sequence[Task]) -> Counter[Any]:
    """Return the answers to all requests that an intent could make: by its bindings, or else by its tasks."""
    intent = domain.spec.intents.get(name)
    if intent is not None and intent.communicate:
        try:
            return Counter(facts_of(intent, row) for row in bindings_of(domain, intent, f"intents.{name}"))
        except TaskError:
            pass  # it tells what look-ups return
    return Counter(task.communicate for task in tasks if task.intent == name and task.communicate)


def misjudged(domain: Domain, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield the kind of episode of a task that is wrong and judged right, or right and judged wrong."""
    trial = domain.with_tasks(tasks, {})
    reasons = {one.task_id: one.kind for one in try_verifier(trial, tasks).surprises if not one.equivalent}
    reasons |= try_attacks(trial, tasks).misjudged
    yield from (reasons.get(task.id, "") for task in tasks)


def _guessed(domain: Domain, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield whether the best strategy without calls solves a task."""
    solved = try_exploits(domain.with_tasks(tasks, {}), tasks).idle.solved_tasks
    yield from ("the best guess without a call is right" if task.id in solved else "" for task in tasks)
