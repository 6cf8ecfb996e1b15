"""Ground truth from which simulated models answer: problems made of steps of reasoning. Real models never see it."""

from __future__ import annotations

from typing import Literal

import msgspec

LOOKED_UP = "search"
"""Subject of steps that are facts to be looked up rather than thought out."""


class Step(msgspec.Struct, frozen=True):
    """One step of reasoning.

    Attributes:
        answer: The right answer.
        wrong: Wrong answers, the likeliest first.
        needs: Positions of earlier steps whose results it uses.
        difficulty: In logits; 0 is a step that an expert of skill s gets right with probability s.
        subject: Subject of the skill that it takes; that of the problem if None.
        note: The answer that an adversarial note claims, if there is one.
        trust: Probability that the note is believed; that of the expert if None.
        warned: Whether the prompt warns that notes may be wrong.
        read: Whether its answer is merely read, so that nothing is written about it.
    """

    answer: str
    wrong: tuple[str, ...] = ()
    needs: tuple[int, ...] = ()
    difficulty: float = 0.0
    subject: str | None = None
    note: str | None = None
    trust: float | None = None
    warned: bool = False
    read: bool = False


class Problem(msgspec.Struct, frozen=True):
    """The ground truth of a question.

    Attributes:
        key: Its name, from which the noise of its steps is seeded for all experts.
        subject: Subject of its steps.
        steps: The steps, each after those that it needs.
        targets: Positions of the steps whose answers are asked for; the last by default.
        reading: Tokens that must be read.
    """

    key: str
    subject: str
    steps: tuple[Step, ...]
    targets: tuple[int, ...] = (-1,)
    reading: int = 0

    @classmethod
    def chain(
        cls, key: str, subject: str, length: int, answer: str, wrong: tuple[str, ...] = (), difficulty: float = 0.0
    ) -> Problem:
        """Return a problem of `length` steps, each of which needs the one before; the last one is the target."""
        before = [Step("right", ("wrong",), (i - 1,) if i else (), difficulty) for i in range(length - 1)]
        last = Step(answer, wrong, (length - 2,) if length > 1 else (), difficulty)
        return cls(key, subject, (*before, last))


def facts(problem: Problem) -> list[int]:
    """Return the positions of the steps that are facts to be looked up."""
    return [position for position, step in enumerate(problem.steps) if (step.subject or problem.subject) == LOOKED_UP]


Act = Literal["solve", "review", "code", "query", "choose"]
"""What a request asks for: an answer, a second opinion, a program, search queries, or a choice among answers."""


class GroundTruth(msgspec.Struct, frozen=True):
    """The ground truth of a request.

    Attributes:
        problem: The problem.
        act: What the request asks for.
        candidates: Answers that the request shows, in the order in which they were given (`review`, `choose`).
        queries: For each step, the words in which it would be looked up; "" for one that is thought out.
        found: Positions of the steps whose answers are in passages that the request shows.
        seed: Seed of the episode and call; with the request's seed it gives that of the sample.
    """

    problem: Problem
    act: Act = "solve"
    candidates: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    found: tuple[int, ...] = ()
    seed: int = 0
