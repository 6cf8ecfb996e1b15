"""Numbers as people write them: digits of other scripts, superscripts, vulgar fractions, and number words.

Not covered: Roman numerals, ordinals, and number words of other languages than English.
"""

from __future__ import annotations

import re
import unicodedata

UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
"""The words of the numbers from 0 to 19."""
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
"""The words of 20, 30, … 90."""
_SMALL = {word: number for number, word in enumerate(UNITS)} | {word: 10 * n for n, word in enumerate(TENS, 2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_WORD = re.compile(r"[a-z]+")
_MAX_WORDS = 24
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPT = re.compile(f"⁻?[{_SUPERSCRIPTS}]+")
_FROM_SUPERSCRIPT = str.maketrans(_SUPERSCRIPTS + "⁻", "0123456789-")


def plain_digits(text: str) -> str:
    r"""Return a text with ASCII digits, superscripts as powers, and vulgar fractions as LaTeX.

    >>> plain_digits("３½ x² + ٤")
    '3\\frac{1}{2} x^{2} + 4'
    """
    if text.isascii():
        return text
    text = _SUPERSCRIPT.sub(lambda found: f"^{{{found[0].translate(_FROM_SUPERSCRIPT)}}}", text)
    return "".join(character if character.isascii() else _plain(character) for character in text)


def _plain(character: str) -> str:
    decimal = unicodedata.decimal(character, None)
    if decimal is not None:
        return str(decimal)
    if unicodedata.decomposition(character).startswith("<fraction>"):
        top, _, bottom = unicodedata.normalize("NFKD", character).partition("⁄")
        return rf"\frac{{{top}}}{{{bottom}}}" if top and bottom else character
    wide = unicodedata.decomposition(character)
    return unicodedata.normalize("NFKC", character) if wide.startswith(("<wide>", "<narrow>")) else character


def number_of_words(text: str) -> int | None:
    """Return the integer that number words say, or None if a text is anything else.

    >>> number_of_words("twenty-one"), number_of_words("Two hundred and five"), number_of_words("one two")
    (21, 205, None)
    """
    words = text.lower().replace("-", " ").replace("‑", " ").split()
    sign = 1
    if words and words[0] in ("minus", "negative"):
        sign, words = -1, words[1:]
    if not words or len(words) > _MAX_WORDS:
        return None
    total = 0  # of the thousands and more that are complete
    group: int | None = None  # hundreds, tens and units so far
    largest = 10**12
    for place, word in enumerate(words):
        if word in _SMALL:
            number = _SMALL[word]
            if group is not None and not _goes_on(group, number):
                return None
            group = (group or 0) + number
        elif word == "hundred" and group is not None and 0 < group < 10:
            group *= 100
        elif word in _SCALES and group and _SCALES[word] < largest:
            largest = _SCALES[word]
            total, group = total + group * largest, None
        elif word != "and" or place in (0, len(words) - 1) or (words[place - 1] not in (*_SCALES, "hundred")):
            return None
    if words[-1] not in (*_SMALL, *_SCALES, "hundred"):
        return None
    return sign * (total + (group or 0))


def _goes_on(group: int, number: int) -> bool:
    """Return whether a number may follow in a group: units after tens, and both after hundreds."""
    if number == 0:
        return False
    return (group % 100 == 0 and group > 0) or (group % 100 >= 20 and group % 10 == 0 and number < 10)
