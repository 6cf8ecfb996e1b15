"""Ground truth from which simulated models answer: problems made of steps of reasoning. Real models never see it."""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

Load = Literal["steps", "kept"]
"""What makes each step of a problem harder: how many steps it has, or how many results must be kept in mind at once."""
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
        load: What makes each step harder, the more of it there is.
    """

    key: str
    subject: str
    steps: tuple[Step, ...]
    targets: tuple[int, ...] = (-1,)
    reading: int = 0
    load: Load = "steps"

    @property
    def weight(self) -> int:
        """The amount of load: the number of steps, or that of the results that are kept at once."""
        return len(self.steps) if self.load == "steps" else kept(self)

    @classmethod
    def chain(
        cls, key: str, subject: str, length: int, answer: str, wrong: tuple[str, ...] = (), difficulty: float = 0.0
    ) -> Problem:
        """Return a problem of `length` steps, each of which needs the one before; the last one is the target."""
        before = [Step("right", ("wrong",), (i - 1,) if i else (), difficulty) for i in range(length - 1)]
        last = Step(answer, wrong, (length - 2,) if length > 1 else (), difficulty)
        return cls(key, subject, (*before, last))


@functools.lru_cache(maxsize=1_024)
def kept(problem: Problem) -> int:
    """Return how many results are kept at once at most, if each step is taken just before its result is needed.

    In a chain, each result is forgotten once the next one is there, however long the chain is. Results that meet in one
    step, or are targets of the problem, are kept until then.

    >>> kept(Problem.chain("long", "math", 12, "7"))
    1
    >>> leaves = tuple(Step(str(number)) for number in range(8))
    >>> kept(Problem("sum", "math", (*leaves, Step("28", needs=tuple(range(8))))))
    8
    >>> kept(Problem("all", "math", leaves, targets=tuple(range(8))))
    8
    """
    steps, count = problem.steps, len(problem.steps)
    targets = [target % count for target in problem.targets]
    order: list[int] = []
    waiting = [(target, False) for target in reversed(targets)]
    taken = set[int]()
    while waiting:
        at, ready = waiting.pop()
        if at in taken:
            continue
        if ready or not steps[at].needs:
            taken.add(at)
            order.append(at)
        else:
            waiting.append((at, True))
            waiting += [(need, False) for need in reversed(steps[at].needs)]
    last = {need: place for place, at in enumerate(order) for need in steps[at].needs}
    last |= dict.fromkeys(targets, count)
    keeping = set[int]()
    max_kept = 1
    for place, at in enumerate(order):
        keeping = {one for one in keeping if last[one] > place} | {at}
        max_kept = max(max_kept, len(keeping))
    return max_kept


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
