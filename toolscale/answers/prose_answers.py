"""Prose answers by the paper's rule (ToolOrchestra §3.3, process fidelity): what must be communicated is mentioned.

Gameable: nothing else is checked, so an answer that names every candidate is right, and so is one that denies what it
names. The rule is there for comparison with the paper; where rewards matter, answers are typed
(`toolorchestra.toolscale.answers.typed_answers`). How a mention is found: `toolorchestra.toolscale.answers.mentions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolorchestra.toolscale.answers.mentions import mentions, tokens

MAX_CHARACTERS = 20_000
"""A longer answer is wrong, unread."""

LABEL = "text, gameable"
"""What the record of an episode, ``details["answer"]``, says of an answer that is judged so."""
JUDGED_LABEL = "text, judged by a model"
"""What it says of one that a model judges in the place of this rule."""


def judge_mentions(text: str, communicate: Sequence[Sequence[str]]) -> list[str]:
    """Return what is wrong with an answer; nothing if it mentions an accepted phrase of every fact.

    >>> judge_mentions("7 guests, at half past six?", [("7", "seven"), ("18:30",)])
    ["the user was not told '18:30'"]
    """
    if len(text) > MAX_CHARACTERS:
        return [f"the answer has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read"]
    found = tokens(text)
    return [
        f"the user was not told {named(phrases)}"
        for phrases in communicate
        if not any(mentions(found, phrase) for phrase in phrases)
    ]


def named(phrases: Sequence[str]) -> str:
    """Return the accepted phrases of a fact as an error names them: at most two."""
    return " or ".join(map(repr, phrases[:2]))
