r"""The world of MASBench's problems, and how their answers are read from a message.

A problem may want several answers; it is solved when all of them are right. They stand in as many boxes, in the order
of the questions, or in one, separated by commas. A message that gives another number of answers has given none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from toolorchestra.envs.sources.questions import QuestionWorld
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.answers.answers import answers, equal, is_right
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import SOLVED, Failure, Verdict

NAME = "masbench"
RULES = """\
Problems about how many of one thing there are in another. All arithmetic is modulo 23, so that every number and every \
answer is one of 0 to 22. "The number of each A's B" is how many B there are in each A. What no statement defines is \
0. The number of a category that an owner has ("each A's Fruit") is the sum over its members that the statements \
mention of that owner; of a category further inside, each member counts with what it holds. The difference of A and B \
is A minus B. Magic numbers are reported as they stand. A note may be wrong: work out for yourself what it claims.
Give each answer as \\boxed{…}, several in the order of the questions: each in a box ("Problem 1: \\boxed{…}"), or all \
in one, with commas between them."""


class MASBenchWorld(QuestionWorld):
    """The world of MASBench's problems, with a calculator."""

    def __init__(self) -> None:
        super().__init__(NAME, RULES, (Calculator(),))

    def verify(self, task: Task, session: object, answer: str) -> Verdict:
        """Judge the answers that the message gives; there is a failure for each that is wrong."""
        if len(task.communicate) < 2:
            return super().verify(task, session, answer)
        failures = tuple(
            Failure("answer", f"problem {number} has the answer {accepted[0]!r}, not {found!r}")
            for number, (accepted, found, right) in enumerate(_graded(task, answer), 1)
            if not right
        )
        return Verdict(failures) if failures else SOLVED


def _graded(task: Task, answer: str) -> Iterator[tuple[Sequence[str], str, bool]]:
    """Yield for each problem of a task the accepted answers, the one that a message gives, and whether it is right."""
    for accepted, found in zip(task.communicate, read_answers(answer, len(task.communicate)), strict=True):
        yield accepted, found, any(equal(found, right) for right in accepted)


def credit(task: Task, answer: str) -> float:
    r"""Return the share of the answers wanted that a message gives rightly.

    The reward has no use for it: an episode is solved when all are right.
    """
    wanted = task.communicate
    if len(wanted) < 2:
        return float(bool(wanted) and is_right(answer, wanted[0]))
    return sum(right for *_, right in _graded(task, answer)) / len(wanted)


def with_answers(task: Task, answers: Sequence[str]) -> Task:
    """Return a task that asks for some answers."""
    if len(answers) == 1:
        return task
    listed = "\n\n".join(rf"\boxed{{{answer}}}" for answer in answers)
    return msgspec.structs.replace(task, communicate=tuple((answer,) for answer in answers), answer=listed)


def read_answers(text: str, count: int) -> tuple[str, ...]:
    r"""Return the answers that a message gives to so many problems; "" for those that it does not give.

    All of them may be given more than once.

    >>> read_answers("Final Answers\nProblem 1: \\boxed{12}\nProblem 2: \\boxed{7}", 2)
    ('12', '7')
    >>> read_answers(r"\boxed{12, 7}", 2), read_answers(r"\boxed{12}", 2)
    (('12', '7'), ('', ''))
    """
    given = answers(text)
    if len(set(given)) == 1 and "," in given[0]:
        given = [one.strip() for one in given[0].split(",")]
    whole = given and given == given[-count:] * (len(given) // count)
    return tuple(given[-count:]) if whole else ("",) * count
