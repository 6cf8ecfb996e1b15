"""Answers given both ways, in words and in a form: do the two judges agree?

Right answers are the rephrasings of `toolorchestra.toolscale.judging.attacks`, and their forms have the facts. Wrong
ones are its attacks, and their forms have what the text says in the place of the facts: the rival that was put in, what
another task communicates, the denied fact, or the whole text where it says everything or nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from toolorchestra.toolscale.judging.attacks import Context, attacks, rephrasings, rival_of
from toolorchestra.toolscale.judging.form import AnswerForm, Value
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.task import Task

_RIVALS = ("hedge", "rival in its place", "rivals appended")
_WHOLE = ("parrot", "one word", "dump")
_DENIED = ("denial", "polarity flipped")


class AnswerBothWays(NamedTuple):
    """An answer in words and as a form.

    Attributes:
        kind: The rephrasing or attack.
        right: Whether it is meant to be right.
        text: In words.
        form: The filled form.
    """

    kind: str
    right: bool
    text: str
    form: str


def answers_both_ways(context: Context, form_of: Callable[[Task], AnswerForm]) -> Iterator[AnswerBothWays]:
    """Yield rephrasings of the answer to a task and attacks on it, each with a form that says the same.

    Attacks of which a form cannot say the same are left out: that one says several values, for example.
    """
    form = form_of(context.task)
    for kind, text in rephrasings(context):
        yield AnswerBothWays(kind, True, text, form.filled())
    rng = random.Random(f"attacks:{context.task.id}")  # that of `attacks`, which draws the rivals first
    rivals = [rival_of(fact, context, rng) for fact in context.expected.facts]
    for kind, text in attacks(context):
        values = _values(kind, text, context, form, rivals, form_of)
        if values is not None:
            yield AnswerBothWays(kind, False, text, form.filled(values))


def _values(
    kind: str,
    text: str,
    context: Context,
    form: AnswerForm,
    rivals: Sequence[str | None],
    form_of: Callable[[Task], AnswerForm],
) -> list[Value] | None:
    """Return the values that a wrong text gives, or None if they cannot be told."""
    if kind.startswith(_RIVALS):
        for position, rival in enumerate(rivals):
            if rival and text.count(rival) > context.task.answer.count(rival):
                values = list(form.values)
                values[position] = _typed(rival)
                return values
        return None
    if kind.startswith(_DENIED):
        return [not value if isinstance(value, bool) else f"not {_in_words(value)}" for value in form.values]
    if kind.startswith(_WHOLE):
        return [text for _ in form.values]
    other = next((one for one in (*context.siblings, *context.strangers) if one.answer == text), None)
    if other is None:
        return None
    pairs = zip_longest(form.values, form_of(other).values, fillvalue="")
    return [value for _, value in pairs][: len(form.values)]


def _in_words(value: Value) -> str:
    return "none" if value is None else str(value)


def _typed(text: str) -> Value:
    """Return a value as a form has it."""
    found = tokens(text)
    if len(found) != 1 or found[0][0] not in "#@~":
        return text
    token = found[0][1:]
    return float(token) if found[0][0] == "#" else token
