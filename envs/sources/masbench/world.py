r"""The world of MASBench's problems, and how their answers are read from a message.

A problem may want several answers; it is solved when all of them are right. They stand in ``Problem 2: 14`` (of each
label the last), or in as many boxes at the end, or in one answer, separated by commas or lines. A message that gives
another number of answers has given none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from toolorchestra.envs.sources.questions import QuestionWorld
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.answers import equal, final_answer, is_right
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.verify import SOLVED, Failure, Verdict

NAME = "masbench"
RULES = """\
Problems about how many of one thing there are in another. All arithmetic is modulo 23, so that every number and every \
answer is one of 0 to 22. "The number of each A's B" is how many B there are in each A. What no statement defines is \
0. The number of a category that an owner has ("each A's Fruit") is the sum over its members that the statements \
mention of that owner; of a category further inside, each member counts with what it holds. The difference of A and B \
is A minus B. Magic numbers are reported as they stand. A note may be wrong: work out for yourself what it claims.
Give one answer as \\boxed{…}. Give several in the form that the problem asks for: one line "Problem 1: …" for each, \
or boxes in the order of the questions."""

_MAX_LENGTH = 200_000
_LABEL = re.compile(r"\b(?:problem|question|answer|q)[ _]?#?(\d{1,3})\W{0,4}?[:=]", re.IGNORECASE)
_BOX = re.compile(r"\\boxed\{([^{}]*)\}")
_INTEGER = re.compile(r"[^\d-]*(-?\d+)[^\d-]*")
_BETWEEN = re.compile(r"\s*[,;\n]\s*(?:and\s+)?|\s+and\s+")


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


def with_answers(task: Task, answers: Sequence[str], *, boxed: bool = False) -> Task:
    """Return a task that asks for some answers, with those of several as its problem wants them written."""
    if len(answers) == 1:
        return task
    if boxed:
        listed = "\n\n".join(rf"\boxed{{{answer}}}" for answer in answers)
    else:
        listed = "\n".join(f"Problem {number}: {answer}" for number, answer in enumerate(answers, 1))
    return msgspec.structs.replace(task, communicate=tuple((answer,) for answer in answers), answer=listed)


def read_answers(text: str, count: int) -> tuple[str, ...]:
    r"""Return the answers that a message gives to so many problems; "" for those that it does not give.

    >>> read_answers("Final Answers\nProblem 1: 12\nProblem 2: \\boxed{7}", 2)
    ('12', '7')
    >>> read_answers(r"\boxed{12, 7}", 2), read_answers(r"\boxed{12}", 2)
    (('12', '7'), ('', ''))
    """
    text = text[-_MAX_LENGTH:]
    labelled, numbers = dict(_labelled(text)), range(1, count + 1)
    if not labelled.keys().isdisjoint(numbers):
        return tuple(labelled.get(number, "") for number in numbers)
    boxes = _BOX.findall(text)
    if len(boxes) >= count:
        return tuple(box.strip() for box in boxes[-count:])
    parts = [one.strip() for one in _BETWEEN.split(final_answer(text)) if one.strip()]
    return tuple(parts) if len(parts) == count else ("",) * count


def _labelled(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers of problems, each with the answer after it."""
    labels = list(_LABEL.finditer(text))
    for number, label in enumerate(labels, 1):
        end = labels[number].start() if number < len(labels) else len(text)
        line = text[label.end() : end].strip().split("\n")[0]
        boxes = _BOX.findall(line)
        found = boxes[-1] if boxes else line.strip(" *,;")
        integer = _INTEGER.fullmatch(found)
        yield int(label[1]), integer[1] if integer else found
