r"""Right and wrong answers to questions, by which `toolorchestra.envs.sources.questions.try_answers` tests a verifier.

A right one stands in ``\boxed{…}`` or ``<answer>…</answer>``, in the ways of people and models. A wrong one stands in
neither, or does not commit itself: a list, a hedge, a denial, the request repeated, or all that the tools return.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from toolorchestra.toolscale.tasks.task import Task

Attempt = tuple[str, str, bool]
"""Its kind, the text, and whether it is right."""

_INTEGER = re.compile(r"-?\d+")
_TO_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")


def attempts(task: Task, near: Sequence[tuple[str, ...]], seen: Sequence[object] = ()) -> Iterator[Attempt]:
    """Yield answers to a question with one answer.

    Args:
        task: The question.
        near: Accepted answers of similar questions.
        seen: What its reference calls return.
    """
    accepted = task.communicate[0]
    for right in accepted:
        yield "boxed", rf"It follows that \boxed{{{right}}} holds.", True
        yield "tag", f"I looked everything up.\n<answer>{right}</answer>", True
    yield from _in_other_ways(accepted[0])
    wrong = [other[0] for other in near if not set(other) & set(accepted)]
    for other in wrong:
        yield "another answer", rf"\boxed{{{other}}}", False
        yield "several answers", rf"\boxed{{{accepted[0]} or {other}}}", False
        yield "as well as", rf"\boxed{{{accepted[0]} as well as {other}}}", False
    for other in wrong[:1]:
        yield from _rivals(accepted[0], other)
    yield from _in_no_form(task, accepted[0])
    yield from _not_committed(task, accepted[0])
    yield from _dumps(accepted[0], seen)


def _in_other_ways(right: str) -> Iterator[Attempt]:
    """Yield the right answer in the ways of people and models."""
    for kind, text in {
        "full stop": rf"\boxed{{{right}.}}",
        "in lines": f"<answer>\n{right}\n</answer>",
        "box in a tag": rf"<answer>\boxed{{{right}}}</answer>",
        "delimiters": rf"\[ \boxed{{{right}}} \]",
        "two boxes": rf"So it is \boxed{{{right}}}. Final answer: \boxed{{{right}}}",
        "box of a box": rf"\boxed{{\boxed{{{right}}}}}",
        "after a placeholder": rf"In the form \boxed{{…}}: \boxed{{{right}}}",
        "after thoughts": rf"<think>Or is it \boxed{{{right}1}}?</think>\boxed{{{right}}}",
        "courtesy": rf"Sure! The answer is \boxed{{{right}}}. Let me know if you need anything else.",
        "answer, then explanation": rf"\boxed{{{right}}}, because that is what follows from what I found.",
    }.items():
        yield kind, text, True
    if _INTEGER.fullmatch(right):
        yield "digits of another script", rf"\boxed{{{right.translate(_TO_WIDE)}}}", True
    elif "\\" in right or "^" in right:
        yield "in mathematics", rf"\boxed{{${right}$}}", True
    else:
        yield "LaTeX text", rf"\boxed{{\text{{{right}}}}}", True


def _rivals(right: str, other: str) -> Iterator[Attempt]:
    """Yield answers that give a wrong one as well."""
    for first, second in ((right, other), (other, right)):
        yield "several boxes", rf"\boxed{{{first}}} \boxed{{{second}}}", False
        yield "several tags", f"<answer>{first}</answer><answer>{second}</answer>", False
        yield "box and tag", rf"\boxed{{{first}}} <answer>{second}</answer>", False
        yield "box of boxes", rf"\boxed{{\boxed{{{first}}}, \boxed{{{second}}}}}", False
        yield "either or", rf"\boxed{{either {first} or {second}}}", False
        yield "enumeration", rf"\boxed{{{first}, {second}}}", False
        yield "lines", f"<answer>\n{first}\n{second}\n</answer>", False


def _in_no_form(task: Task, right: str) -> Iterator[Attempt]:
    """Yield the right answer where it does not count, and none."""
    yield "alone", right, False
    yield "statement", f"I looked everything up.\nThe answer is {right}", False
    yield "bold", f"**Final answer:** **{right}**", False
    yield "only thought", rf"<think>\boxed{{{right}}}</think>I am done.", False
    yield "request repeated", task.instruction, False
    yield "no answer", "", False
    yield "one word", "Done.", False


def _not_committed(task: Task, right: str) -> Iterator[Attempt]:
    """Yield boxes that deny, doubt or ask for the right answer, or hold no answer."""
    yield "denial", rf"\boxed{{not {right}}}", False
    yield "denial, as text", rf"\boxed{{\text{{not }} {right}}}", False
    yield "denial of a box", rf"\boxed{{not \boxed{{{right}}}}}", False
    yield "hedge", f"<answer>maybe {right}</answer>", False
    yield "bound", rf"\boxed{{at least {right}}}", False
    yield "asked", rf"\boxed{{{right}?}}", False
    yield "request repeated, boxed", rf"\boxed{{{task.instruction}}}", False
    yield "empty box", r"\boxed{}", False


def _dumps(right: str, seen: Sequence[object]) -> Iterator[Attempt]:
    """Yield all that the reference calls return as the answer, unless that is no more than the answer."""
    raw = msgspec.json.encode(seen).decode()
    if len(raw) > 4 * len(right) + 40:
        yield "dump", rf"\boxed{{{raw}}}", False
        yield "dump as prose", f"<answer>{re.sub(r'[^ -~]|[<>]', ' ', raw)}</answer>", False


def attempts_at_several(task: Task) -> Iterator[Attempt]:
    """Yield answers to a question that asks for several answers."""
    right = [accepted[0] for accepted in task.communicate]
    boxes = " ".join(rf"\boxed{{{one}}}" for one in right)
    for kind, text in {
        "as asked": task.answer,
        "boxes": boxes,
        "listed": rf"\boxed{{{', '.join(right)}}}",
        "listed in a tag": f"<answer>{','.join(right)}</answer>",
        "tags": "\n".join(f"<answer>{one}</answer>" for one in right),
        "box of boxes": rf"\boxed{{{boxes}}}",
        "courtesy": f"Sure, here are the answers:\n\n{task.answer}\n\nLet me know if you need anything else.",
        "labelled": "\n".join(rf"Problem {n}: \boxed{{{one}}}" for n, one in enumerate(right, 1)),
        "labelled, bold": "\n".join(rf"**Problem {n}:** \boxed{{{one}}}." for n, one in enumerate(right, 1)),
        "given twice": f"{boxes}\n\nIn short: {boxes}",
    }.items():
        yield kind, text, True
    for place in range(len(right)):
        given = [*right[:place], f"{right[place]}1", *right[place + 1 :]]
        yield "one answer wrong", rf"\boxed{{{', '.join(given)}}}", False
        others = [*right[:place], f"{right[place]} or {right[place]}1", *right[place + 1 :]]
        yield "or", " ".join(rf"\boxed{{{one}}}" for one in others), False
    numbers = range(23)
    for kind, text in {
        "one answer missing": rf"\boxed{{{', '.join(right[:-1])}}}",
        "one answer more": f"{boxes} {boxes[: boxes.find('}') + 1]}",
        "in no form": "\n".join(f"Problem {n}: {one}" for n, one in enumerate(right, 1)),
        "each denied": " ".join(rf"\boxed{{not {one}}}" for one in right),
        "all numbers": rf"\boxed{{{', '.join(map(str, numbers))}}}",
        "all numbers for each": " ".join(rf"\boxed{{{n}}}" for _ in right for n in numbers),
        "request repeated": task.instruction,
        "no answer": "",
    }.items():
        yield kind, text, False
