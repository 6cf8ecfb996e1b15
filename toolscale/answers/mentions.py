"""Whether a text mentions a piece of information, however it is written (process fidelity).

Texts are compared as sequences of tokens in which numbers, money, dates and times have one spelling:
"$1,234.50" and "1234.5" agree, "July 30, 2025" and "2025-07-30" agree, "7 pm" and "19:00" agree, and "12" is
not found inside "2012", "12.50" or "D12". Case, accents, punctuation and possessive 's do not count.

It does not judge meaning: a text that mentions a fact in order to deny it mentions it.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence

from toolorchestra.toolscale.answers.numerals import TENS, UNITS, number_of_words

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip
_MONTH_NUMBER = {name[:3]: i for i, name in enumerate(MONTHS, 1)}
_NUMBER_WORD = (
    {"noon": "~12:00", "midnight": "~00:00"}
    | {word: f"#{i}" for i, word in enumerate(UNITS)}
    | {word: f"#{10 * i}" for i, word in enumerate(TENS, 2)}
)
_MONTHS = (
    "jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?", "aug(?:ust)?",
    "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?",
)  # fmt: skip
_MONTH = f"(?:{'|'.join(_MONTHS)})"
_DIGITS_OF_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_MONTH_AND_DAY = r"\.?\s+\d{1,2}(?:st|nd|rd|th)?(?!\d|:\d)(?:,?\s+\d{4}(?!\d))?"
_DAY_AND_MONTH = rf"(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\b\.?(?:,?\s+\d{{4}}(?!\d))?"  # after the digits of the day
# Each branch begins with the characters that it is about: others are passed over at once. No groups are captured, so
# that a branch is left early.
_tokens = re.compile(
    rf"""
      [a-f][+-](?![\w+-])
    | [b-ceg-ik-lp-rt-z][^\W_]*+
    | \d(?:
          \d{{3}}(?:-\d{{2}}-\d{{2}}|/\d{{2}}/\d{{2}})(?!\d)(?:t(?=\d))?
        | \d?/\d{{1,2}}/\d{{4}}(?!\d)
        | \d?\.\d{{1,2}}\.\d{{4}}(?!\d)
        | \d?:\d{{2}}(?::\d{{2}})?(?:\s?[ap]\.?m\b)?|\d?\s?[ap]\.?m\b
        | \d?{_DAY_AND_MONTH}
        | (?:\d{{0,2}}(?:,\d{{3}})+(?!\d)|\d*)(?:\.\d+)?
      )
    | {"|".join(month + _MONTH_AND_DAY for month in _MONTHS)}
    | [-−](?<!\w[-−])(?=[$€£.\d])(?:[$€£]\s?)?(?:{_DIGITS_OF_NUMBER}|\.\d+)
    | [$€£]\s?(?:{_DIGITS_OF_NUMBER}|\.\d+)
    | \.(?<!\w\.)\d+
    | [^\W_][^\W_]*+
    """,
    re.VERBOSE,
).findall
_words = re.compile(r"[^\W_]+").findall
_VALUED = re.compile(r"[\d+-]")  # what is no plain word has one of these
_MARK = re.compile(r"[^\x00-\x7f]")
_DECIMAL_COMMA = re.compile(
    r"(?<![\d.,])[$€£]\s?\d+,\d{2}(?![\d,])|(?<![\d.,])\d+,\d{2}(?=\s?(?:[$€£]|eur|usd|dollar))", re.IGNORECASE
)
ORDINALS = (
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip
_NUMBER_WORD_PATTERN = "|".join((*UNITS, *TENS))
_NUMBER_IN_WORDS = re.compile(
    rf"\bminus\s+(?=\d)|\b(?:{_NUMBER_WORD_PATTERN}|a(?=\s(?:hundred|thousand)\b))(?:(?:\s+and)?[\s-]+(?:{_NUMBER_WORD_PATTERN}|hundred|thousand))+\b"
)
_DOTTED_THOUSANDS = re.compile(
    r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?=(?:,\d+)?\s?(?:€|eur))|(?<=€)\d{1,3}(?:\.\d{3})+(?!\d)"
)
_WORDED_DAY = re.compile(rf"\b({'|'.join(ORDINALS[1:])})(?=\s+of\s+{_MONTH}\b)")
_COMMA_AND_DIGITS = re.compile(r",\d\d")  # in all that has a decimal comma
_COUNTING = frozenset((*UNITS, *TENS, "hundred", "thousand", "minus"))  # one of them is in every number in words
_POSSESSIVE = re.compile(r"'s\b")
_MONTH_NAME = re.compile(_MONTH)
_SPOKEN_DATE = re.compile(
    rf"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+(?:the\s+)?)?"
    rf"(?:{_MONTH}{_MONTH_AND_DAY}|\d{{1,2}}{_DAY_AND_MONTH})",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_BARE = str.maketrans("−", "-", "$€£,")


def tokens(text: str) -> list[str]:
    """Return the tokens of `text`, each in its one spelling.

    >>> tokens("Ada's bill: $1,234.50 on July 30, 2025 at 7 pm")
    ['ada', 'bill', '#1234.5', 'on', '@2025-07-30', 'at', '~19:00']
    """
    if "," in text and _COMMA_AND_DIGITS.search(text):
        text = _DECIMAL_COMMA.sub(lambda found: found[0].replace(",", "."), text)
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = _MARK.sub(_without_mark, decomposed).replace("’", "'")
    if "€" in text or "eur" in text:
        text = _DOTTED_THOUSANDS.sub(lambda found: found[0].replace(".", ""), text)
    text = text.casefold()
    if "th of " in text or "rst of " in text or "ond of " in text or "ird of " in text:
        text = _WORDED_DAY.sub(lambda found: str(ORDINALS.index(found[1])), text)
    bare = _POSSESSIVE.sub("", text) if "'s" in text else text
    found = _tokens(bare) if _VALUED.search(bare) else _words(bare)
    if not _COUNTING.isdisjoint(found) and _NUMBER_IN_WORDS.search(text):
        found = _tokens(_POSSESSIVE.sub("", _NUMBER_IN_WORDS.sub(_in_digits, text)))
    return [_NUMBER_WORD.get(token, token) if token.isalpha() else _spelled(token) for token in found]


def replace_spoken_dates(text: str, spelled: Callable[[str], str | None]) -> str:
    """Return a text with the dates in it that have a month's name as `spelled` spells them, which may be not at all.

    It is given ``2025-07-30``, or ``????-07-30`` where the year is left out. A day of the week before a date goes too.

    >>> replace_spoken_dates("On Wednesday, July 30, please", lambda date: date.replace("????", "2025"))
    'On 2025-07-30, please'
    """
    return _SPOKEN_DATE.sub(lambda found: spelled(tokens(found[0])[-1][1:]) or found[0], text)


def _without_mark(found: re.Match[str]) -> str:
    return "" if unicodedata.combining(found[0]) else found[0]


def _in_digits(found: re.Match[str]) -> str:
    """Return a number in words in digits, and "minus" as a sign; words that make no one number stay as they are."""
    words = found[0]
    if words.startswith("minus"):
        return "-"
    number = number_of_words("one" + words[1:] if words.startswith("a ") else words)
    return words if number is None else str(number)


@functools.lru_cache(maxsize=65536)
def _spelled(token: str) -> str:
    """Return a number, date, time or grade in its one spelling; a word with digits in it is left as it is."""
    if token[-1] in "+-" or (token.isalnum() and not token[0].isdecimal()):
        return token
    if token[0] in "-−$€£." or token.isdecimal():
        return _number(token)
    if ":" in token or token[-1] == "m":
        return _time(token)
    if token[4:5] in ("-", "/") and token[:4].isdecimal():
        return "@" + token[:10].replace("/", "-")
    return _date(token) if "/" in token or token.count(".") == 2 or len(token.split()) > 1 else _number(token)


def _number(token: str) -> str:
    if token[0] in "123456789" and token.isdecimal():
        return "#" + token
    digits = "".join(token.translate(_BARE).split())
    whole, _, fraction = digits.partition(".")
    sign, whole = ("-", whole[1:]) if whole[:1] == "-" else ("", whole)
    fraction = fraction.rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"#{sign}{whole}.{fraction}" if fraction else f"#{sign}{whole}"


def _time(token: str) -> str:
    numbers = _DIGITS.findall(token)
    hours, minutes = int(numbers[0]), numbers[1] if len(numbers) > 1 else "00"
    if token[-1] == "m" or token[-2:] == "m.":
        hours = hours % 12 + (12 if "p" in token else 0)
    return f"~{hours:02d}:{minutes}"


def _date(token: str) -> str:
    numbers = _DIGITS.findall(token)
    if token.count(".") == 2:
        day, month, year = map(int, numbers)
        return f"@{year:04d}-{month:02d}-{day:02d}"
    if "/" in token:
        first, second, year = map(int, numbers)
        month, day = (first, second) if first <= 12 else (second, first)
        return f"@{year:04d}-{month:02d}-{day:02d}"
    name = token if token[0].isalpha() else _MONTH_NAME.search(token)[0]  # type: ignore[index]  # it has one
    year_or_blank = numbers[1] if len(numbers) > 1 else "????"
    return f"@{year_or_blank}-{_MONTH_NUMBER[name[:3]]:02d}-{int(numbers[0]):02d}"


@functools.lru_cache(maxsize=65536)
def fact_tokens(fact: str) -> tuple[str, ...]:
    """Return the tokens of a short text that is often asked for, as values of a database are."""
    return tuple(tokens(fact))


def _agrees(found: str, fact: str) -> bool:
    """Return whether two tokens agree; a date without its year agrees with that date in any year."""
    return found == fact or (found[:1] == "@" == fact[:1] and "?" in found + fact and found[5:] == fact[5:])


def mentions(text: Sequence[str], fact: str) -> bool:
    """Return whether the tokens of a text contain those of `fact`, in a row.

    >>> mentions(tokens("Your table costs $12.50 in 2012."), "12")
    False
    """
    wanted = fact_tokens(fact)
    if not wanted:
        return False
    size, first = len(wanted), wanted[0]
    if first[0] != "@":  # only dates have more than one spelling: with and without their year
        if first not in text:
            return False
        if size == 1:
            return True
    for start in range(len(text) - size + 1):
        if (
            text[start][0] == first[0]
            and _agrees(text[start], first)
            and all(map(_agrees, text[start + 1 : start + size], wanted[1:]))
        ):
            return True
    return False
