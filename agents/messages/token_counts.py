"""Estimates of the number of tokens in a text, without a tokenizer.

Two rules: `estimate_tokens` is the measure of length in the rewards of ParaManager and TMATR; `tokens_of` is what an
orchestrator's messages and prompts are priced by (`toolorchestra.envs.orchestrator_rates`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

CHARACTERS = 4
"""Characters of a token, about, where no tokenizer is given."""
BYTES = 4
"""Bytes of UTF-8 that are priced as one token."""
CALL_TAGS = len("<tool_call></tool_call>")
"""Bytes around a call that is written in a text."""
CALL_KEYS = len('{"name":"","arguments":}')
"""Bytes of a call beside its name and arguments."""

CountTokens = Callable[[str], int]

_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has.

    >>> estimate_tokens("How many tables are free?")
    7
    """
    return -(-len(text) // CHARACTERS)


def tokens_of(size: int) -> int:
    """Return how many tokens are priced for so many bytes of text.

    >>> tokens_of(text_size("How many tables are free?"))
    7
    """
    return -(-size // BYTES)


def text_size(text: str) -> int:
    """Return the bytes of a text in UTF-8.

    >>> text_size("18 €")
    6
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@functools.lru_cache(maxsize=512)
def opening_size(text: str) -> int:
    """Return `text_size` of a text that is often the same object, as prompts are."""
    return text_size(text)


def written_size(text: str) -> int:
    """Return the bytes that count of a text that an agent wrote: white space around it does not, unless it is more.

    >>> written_size("It is 7. "), written_size("7" + 1_000 * " ")
    (8, 1000)
    """
    kept = text.strip()
    size = text_size(kept)
    return size if len(kept) == len(text) else max(size, len(text) - len(kept))


def message_size(text: str, around: str) -> int:
    r"""Return the bytes that count of a message with calls in its text: white space that lays out calls does not.

    `around` is the text around the calls. An escaped character of a call counts as the character.

    >>> message_size('<tool_call>\n{"name": "stop"}\n</tool_call>', "")
    38
    """
    white = text.count(" ") + text.count("\n")
    if around and (around := around.strip()):
        white -= around.count(" ") + around.count("\n")
    size = (len(text) if text.isascii() else text_size(text)) - white
    if "\\" in text:
        size -= _escaping(text.encode("utf-8", "replace")) - _escaping(around.encode("utf-8", "replace"))
    return size if size > white else white


def json_size(text: bytes) -> int:
    r"""Return the bytes that count of the JSON of a call.

    >>> json_size(b'{"city": "Z\\u00fcrich"}') == json_size('{"city":"Zürich"}'.encode())
    True
    """
    white = text.count(b" ") + text.count(b"\n")
    size = len(text) - white
    if b"\\" in text:
        size -= _escaping(text)
    return size if size > white else white


def _escaping(text: bytes) -> int:
    """Return how many bytes fewer a text would have if no character were escaped that need not be."""
    if b"\\u" not in text:
        return 0
    return sum(6 - _escaped_size(int(found, 16)) for found in _ESCAPE.findall(text) if found)


def _escaped_size(code: int) -> int:
    """Return the bytes of a character that may be escaped; each half of a pair of surrogates counts two."""
    if code < 0x20:
        return 6
    if code < 0x80:
        return 1
    return 2 if code < 0x800 or 0xD800 <= code < 0xE000 else 3
