r"""Right and wrong answers to questions, by which `toolorchestra.envs.sources.questions.try_answers` tests a verifier.

An attack gets by without the answer, or does not commit to it: a list, a hedge, a denial, the request repeated, or all
that the tools return. A rephrasing gives the right answer as people and models do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from toolorchestra.toolscale.numerals import TENS, UNITS, number_of_words
from toolorchestra.toolscale.task import Task

Attempt = tuple[str, str, bool]
"""Its kind, the text, and whether it is right."""

_INTEGER = re.compile(r"-?\d+")
_TO_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")
_BOXES = "several boxes"


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
        yield "statement", f"I looked everything up.\nThe answer is {right}", True
        yield "alone", right, True
    yield from _rephrasings(accepted[0])
    wrong = [other[0] for other in near if not set(other) & set(accepted)]
    for other in wrong:
        yield "another answer", rf"\boxed{{{other}}}", False
    for other in wrong:
        yield "several answers", rf"\boxed{{{accepted[0]} or {other}}}", False
    for other in wrong[:1]:
        yield from _rivals(accepted[0], other)
    yield from _without_answer(task, accepted[0])
    yield from _dumps(accepted[0], seen)


def _rephrasings(right: str) -> Iterator[Attempt]:
    """Yield the right answer in the ways of people and models."""
    for kind, text in {
        "full stop": f"{right}.",
        "quoted": f'"{right}"',
        "bold": f"**{right}**",
        "heading": f"## Answer\n\n{right}",
        "bullet": f"- {right}",
        "label": f"**Final answer:** {right}",
        "tag": f"<answer>{right}</answer>",
        "two boxes": rf"So it is \boxed{{{right}}}. Final answer: \boxed{{{right}}}",
        "courtesy": f"Sure! The answer is {right}. Let me know if you need anything else.",
        "e-mail": f"Dear colleague,\n\nthe answer is {right}.\n\nBest regards",
        "first person": f"I looked it up and found that the answer is {right}.",
        "belief": f"I believe it is {right}.",
        "sentence": f"It is {right}.",
        "answer, then explanation": f"{right}, because that is what follows from what I found.",
        "sentence, then explanation": f"The answer is {right}, since that is what all of the steps lead to.",
        "explanation, then answer": f"I went through it step by step and checked it all. So the answer is {right}.",
        "relevant detail": rf"\boxed{{{right}}}. I needed a few steps to find it, and checked each of them twice.",
    }.items():
        yield kind, text, True
    if _INTEGER.fullmatch(right):
        yield "digits of another script", rf"\boxed{{{right.translate(_TO_WIDE)}}}", True
        if words := words_of(int(right)):
            yield "number words", f"The answer is {words}.", True
    elif "\\" in right or "^" in right:
        yield "in mathematics", f"The value is ${right}$.", True
    else:
        yield "LaTeX text", rf"\boxed{{\text{{{right}}}}}", True


def _rivals(right: str, other: str) -> Iterator[Attempt]:
    """Yield answers that give a wrong one as well."""
    for first, second in ((right, other), (other, right)):
        yield _BOXES, rf"\boxed{{{first}}} \boxed{{{second}}}", False
        yield "either or", f"It is either {first} or {second}.", False
        yield "or maybe", f"{first}, or maybe {second}.", False
        yield "or maybe, boxed", rf"\boxed{{{first}}}, or maybe {second}.", False
        yield "enumeration", f"{first}, {second}", False
        yield "bullet list", f"- {first}\n- {second}", False
        yield "answer after answer", f"The answer is {first}. The answer is {second}.", False
        yield "sentence after sentence", f"It is {first}. It is {second}.", False
        yield "tag after tag", f"<answer>{first}</answer><answer>{second}</answer>", False
    yield "rival appended", f"The answer is {right}. It could also be {other}.", False
    yield "other in a box", rf"The answer is {right}. \boxed{{{other}}}", False


def _without_answer(task: Task, right: str) -> Iterator[Attempt]:
    """Yield answers that deny the right one, or say nothing."""
    yield "denial", f"It is NOT true that: {right}. I do not know.", False
    yield "denial, boxed", rf"It is NOT true that: \boxed{{{right}}}. I do not know.", False
    yield "denial, in a sentence", f"The answer is not {right}.", False
    yield "taken back", rf"\boxed{{{right}}}. But I do not know.", False
    yield "asked", f"Is it {right}?", False
    yield "hedge", f"Maybe {right}, but I am not sure.", False
    yield "request repeated", task.instruction, False
    yield "request repeated, in a sentence", f"You asked: {task.instruction.rstrip('?.')}. Here is the answer.", False
    yield "request repeated, boxed", rf"\boxed{{{task.instruction}}}", False
    yield "no answer", "", False
    yield "one word", "Done.", False


def _dumps(right: str, seen: Sequence[object]) -> Iterator[Attempt]:
    """Yield all that the reference calls return as the answer, unless that is no more than the answer."""
    raw = msgspec.json.encode(seen).decode()
    if len(raw) > 4 * len(right) + 40:
        yield "dump", raw, False
        yield "dump, boxed", rf"\boxed{{{raw}}}", False
        yield "dump as prose", "I found: " + re.sub(r'[\[\]{}"]', " ", raw), False
        yield "dump, in a sentence", f"The answer is in here: {raw}", False


def attempts_at_several(task: Task) -> Iterator[Attempt]:
    """Yield answers to a question that asks for several answers."""
    right = [accepted[0] for accepted in task.communicate]
    boxed = "boxed" in task.answer
    yield "as asked", task.answer, True
    yield "listed", rf"\boxed{{{', '.join(right)}}}", True
    for kind, text in {
        "courtesy": f"Sure, here are the answers:\n\n{task.answer}\n\nLet me know if you need anything else.",
        "first person": f"I worked through all of the problems and checked every step.\n\n{task.answer}",
        "labelled": "\n".join(f"Problem {n}: {one}" for n, one in enumerate(right, 1)),
        "labelled, bold": "\n".join(f"**Problem {n}:** {one}" for n, one in enumerate(right, 1)),
        "labelled, boxed": "\n".join(rf"Problem {n}: \boxed{{{one}}}" for n, one in enumerate(right, 1)),
        "bullet list": "\n".join(f"- Problem {n}: {one}." for n, one in enumerate(right, 1)),
        "boxes": " ".join(rf"\boxed{{{one}}}" for one in right),
        "relevant detail": f"{task.answer}\n\nI checked each of them twice.",
    }.items():
        yield kind, text, True
    for place in range(len(right)):
        given = [*right[:place], f"{right[place]}1", *right[place + 1 :]]
        yield "one answer wrong", rf"\boxed{{{', '.join(given)}}}", False
        others = [*right[:place], f"{right[place]} or {right[place]}1", *right[place + 1 :]]
        yield "or", "\n".join(f"Problem {n}: {one}" for n, one in enumerate(others, 1)), False
        yield "or, boxed", " ".join(rf"\boxed{{{one}}}" for one in others), False
    yield "one answer missing", rf"\boxed{{{', '.join(right[:-1])}}}", False
    yield "denial", f"It is NOT true that: {task.answer}. I do not know.", False
    yield "each denied", "\n".join(f"Problem {n}: not {one}" for n, one in enumerate(right, 1)), False
    yield "taken back", f"{task.answer}\nBut I do not know.", False
    yield "all numbers", ", ".join(map(str, range(23))), False
    counted = " ".join(rf"\boxed{{{n}}}" if boxed else str(n) for n in range(23))
    yield "all numbers for each", "\n".join(f"Problem {n}: {counted}" for n in range(1, len(right) + 1)), False
    yield "request repeated", task.instruction, False
    yield "no answer", "", False


def words_of(number: int) -> str:
    """Return an integer below 100 in words, or nothing.

    >>> words_of(21), words_of(7), words_of(100)
    ('twenty-one', 'seven', '')
    """
    return _WORDS.get(number, "")


_SPELLED = [*UNITS, *TENS, *(f"{tens}-{unit}" for tens in TENS for unit in UNITS[1:10])]
_WORDS = {number_of_words(word): word for word in _SPELLED}
