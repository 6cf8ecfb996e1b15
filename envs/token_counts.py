"""Estimates of the number of tokens in a text, without a tokenizer."""

from __future__ import annotations

from collections.abc import Callable

CHARACTERS = 4
"""Characters of a token, about, where no tokenizer is given."""

CountTokens = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has.

    >>> estimate_tokens("How many tables are free?")
    7
    """
    return -(-len(text) // CHARACTERS)
