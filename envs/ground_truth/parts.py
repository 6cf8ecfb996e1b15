"""The parts of a question: the sub-questions that lead to its answer, and which of them a text asks for.

`problem_of` turns a question, or one part of it, into the `Problem` that a simulated model is right or wrong about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set as AbstractSet
from typing import Protocol

import msgspec

from toolorchestra.agents.problems import Problem, Step
from toolorchestra.envs.ground_truth.given import words_of
from toolorchestra.toolscale.tasks.task import Task

LOGITS_PER_LEVEL = 0.4
"""How much harder, in logits, a step is with each level of difficulty above the first."""
_MIN_OVERLAP = 0.6  # share of words that a text must have in common with a part to ask for it


class Dependent(Protocol):
    """A step, sub-question or sub-task that needs others before it."""

    @property
    def needs(self) -> Sequence[int]:
        """Positions of those."""


class SubProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that leads to the answer of a question: a sub-question.

    Attributes:
        question: The sub-question, with the results of earlier parts filled in.
        answer: Its answer.
        wrong: Likely wrong answers, the likeliest first.
        needs: Positions of the earlier parts whose answers it uses.
        difficulty: As of a `Step`, in logits.
        subject: As of a `Step`; that of the question if None.
        support: Ids of the passages that answer it.
        note: The answer that an adversarial note claims, if there is one.
    """

    question: str
    answer: str
    wrong: tuple[str, ...] = ()
    needs: tuple[int, ...] = ()
    difficulty: float = 0.0
    subject: str | None = None
    support: tuple[str, ...] = ()
    note: str | None = None

    def step(self, needs: tuple[int, ...]) -> Step:
        """Return the part as a step of a problem, with the positions of the earlier steps that it needs."""
        return Step(self.answer, self.wrong, needs, self.difficulty, self.subject, self.note)


def stages_of(things: Iterable[Dependent]) -> list[int]:
    """Return the stage of each: 0 of what needs no other, else one more than the latest that it needs."""
    stages: list[int] = []
    for thing in things:
        stages.append(1 + max((stages[need] for need in thing.needs), default=-1))
    return stages


def needed(things: Sequence[Dependent], roots: Iterable[int], known: Collection[int] = ()) -> list[int]:
    """Return the positions that some lead back to, themselves included, in order; those `known` need nothing."""
    found: set[int] = set()
    waiting = [*roots]
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            if at not in known:
                waiting += things[at].needs
    return sorted(found)


def parts_of(task: Task) -> tuple[SubProblem, ...]:
    """Return the parts of a question, or none if they are not known."""
    return msgspec.convert(task.bindings.get("parts", ()), tuple[SubProblem, ...])


def subject_of(task: Task) -> str:
    """Return the subject of a question: the skill that its steps take."""
    return str(task.bindings.get("subject", task.domain))


def level_difficulty(task: Task) -> float:
    """Return the difficulty of a step, in logits, that follows from the task's level."""
    return LOGITS_PER_LEVEL * (task.difficulty - 1)


def problem_of(task: Task, text: str | None = None) -> Problem:
    """Return the problem that a question poses, or the part of it that `text` asks for, if it does (`find_part`)."""
    parts = parts_of(task)
    if not parts:  # a question of which only the answer is known
        answer = task.communicate[0][0] if task.communicate else task.answer
        return Problem.chain(task.id, subject_of(task), task.difficulty, answer, difficulty=level_difficulty(task))
    number = None if text is None else find_part(task, text)
    if number is not None:
        return Problem(f"{task.id}#{number}", subject_of(task), (parts[number].step(()),))
    targets = tuple(task.bindings.get("targets", (-1,)))  # several for a question that asks for several answers
    steps = tuple(part.step(part.needs) for part in parts)
    return Problem(task.id, subject_of(task), steps, targets, load=task.bindings.get("load", "steps"))


def find_part(task: Task, text: str) -> int | None:
    """Return the position of the part that `text` asks for, or None if it asks for none of them.

    That is the part with most words in common. A text that repeats the whole question asks for none of its parts,
    although it has their words.
    """
    words = words_of(text)
    pairs = ((words, words_of(part.question)) for part in parts_of(task))
    return most_similar((words, words_of(task.instruction)), pairs)


def most_similar(
    whole: tuple[AbstractSet[str], AbstractSet[str]], parts: Iterable[tuple[AbstractSet[str], AbstractSet[str]]]
) -> int | None:
    """Return the position of the pair of sets of words that have most in common (the first of equal ones).

    The pairs are the words of a text and those of a part, or of the `whole` question. None is returned if no part has
    more in common than the whole has, or too little.
    """
    overlaps = [overlap(*pair) for pair in parts]
    highest = max(overlaps, default=0.0)
    return overlaps.index(highest) if highest > max(_MIN_OVERLAP, overlap(*whole)) else None


def overlap(words: AbstractSet[str], others: AbstractSet[str]) -> float:
    """Return the share of the words of both that they have in common."""
    return len(words & others) / max(1, len(words | others))
