"""Naming: from the names of a database to the names and sentences of a domain.

English as far as table and column names need it; a word that the rules do not know is left as it is.
"""

from __future__ import annotations

import functools
import keyword
import re
import unicodedata
from collections.abc import Collection
from pathlib import Path

import msgspec

from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml

MAX_LETTERS = 40
"""Longest name made here: tool and intent names are put together from several."""
_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ł": "l", "Ł": "L",
                          "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ı": "i"})  # fmt: skip


class WordLists(msgspec.Struct, frozen=True):
    """The word lists of ``words.yaml``, which says what each of them is."""

    irregular: dict[str, str]
    uncountable: frozenset[str]
    verbs: dict[str, str]
    final: frozenset[str]
    initial: tuple[str, ...]
    good: frozenset[str]
    labels: tuple[str, ...]
    money: tuple[str, ...]
    summed: tuple[str, ...]
    identifying: frozenset[str]
    roles: dict[str, str]
    endings: dict[str, str]
    units: dict[str, str]
    said: dict[str, str]
    currencies: frozenset[str]
    sql: frozenset[str]
    english: frozenset[str]
    foreign: frozenset[str]


@functools.cache
def word_lists() -> WordLists:
    """Return the word lists."""
    return convert(read_yaml(Path(__file__).with_name("words.yaml")), WordLists)


def snake_case(name: str, taken: Collection[str] = (), fallback: str = "item") -> str:
    """Return `name` as a snake_case identifier that is not `taken`.

    >>> [snake_case(name) for name in ("InvoiceLine", "Order Details", "customerID", "Größe (cm)", "2nd", "class")]
    ['invoice_line', 'order_details', 'customer_id', 'grosse_cm', 'item_2nd', 'class_']
    """
    text = spelled_out(name)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    text = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or fallback
    text = text if text[:1].isalpha() else f"{fallback}_{text}"
    text = text[:MAX_LETTERS].rstrip("_")
    if keyword.iskeyword(text) or text in ("today", "json_each", "json_tree"):
        text += "_"
    found, number = text, 1
    while found in taken:
        number += 1
        found = f"{text}_{number}"
    return found


def spelled_out(text: str) -> str:
    """Return `text` in the letters of English; of other scripts, nothing is left.

    >>> spelled_out("Größe"), spelled_out("Løn"), spelled_out("顧客ID")
    ('Grosse', 'Lon', 'ID')
    """
    return unicodedata.normalize("NFKD", text.translate(_LETTERS)).encode("ascii", "ignore").decode()


def singular(name: str) -> str:
    """Return the name of one of the things that a table's name speaks of.

    >>> [singular(name) for name in ("loans", "book_copies", "branches", "status", "staff", "order")]
    ['loan', 'book_copy', 'branch', 'status', 'staff_member', 'order']
    """
    before, _, word = name.rpartition("_")
    return f"{before}_{_singular(word)}".lstrip("_")


def _singular(word: str) -> str:
    if word in word_lists().irregular:
        return word_lists().irregular[word]
    if word in word_lists().uncountable or len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zzes")):
        return word[:-2]
    return word[:-1]


def plural(name: str) -> str:
    """Return the name of many of the things that a table's name speaks of.

    >>> [plural(name) for name in ("loans", "order", "branch", "category", "staff", "box")]
    ['loans', 'orders', 'branches', 'categories', 'staff', 'boxes']
    """
    before, _, word = name.rpartition("_")
    if word in word_lists().uncountable or _singular(word) != word or word.isdigit():
        return name
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        many = word[:-1] + "ies"
    else:
        many = word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")
    return f"{before}_{many}".lstrip("_")


def verb(word: str) -> str | None:
    """Return the verb that leads to a state or is dated by a column, if it is known.

    >>> verb("Cancelled"), verb("returned_at"), verb("blue")
    ('cancel', 'return', None)
    """
    text = re.sub(r"_(at|on|date|time|day|datetime|timestamp)$", "", snake_case(word))
    return word_lists().verbs.get(text)


def in_words(name: str) -> str:
    """Return a name as words: ``due_date`` is "due date".

    >>> in_words("book_copy"), in_words("returned_at")
    ('book copy', 'returned at')
    """
    return name.strip("_").replace("_", " ")


def quantity_words(name: str, *, counts: bool = True) -> str:
    """Return what the numbers in a column are called: with their unit, or, if it `counts`, as a number of things.

    >>> [quantity_words(name) for name in ("weight_kg", "beds", "units_in_stock", "berth_no", "fee")]
    ['weight in kg', 'number of beds', 'number of units in stock', 'berth number', 'fee']
    """
    words, (rest, _, last) = word_lists(), name.rpartition("_")
    if rest and last in words.units:
        return f"{in_words(rest)} in {words.units[last]}"
    if last in words.endings:
        return f"{in_words(rest)} {words.endings[last]}".strip()
    head = re.split(r"_(?:in|of|on|per|to)_", name)[0]
    return f"number of {in_words(name)}" if counts and singular(head) != head else in_words(name)


def an(phrase: str) -> str:
    """Return `phrase` with the indefinite article.

    >>> an("loan"), an("author"), an("user"), an("hour")
    ('a loan', 'an author', 'a user', 'an hour')
    """
    vowel = re.match(r"(?!user|uni|eu|one)[aeiou]|hour|hono|heir", phrase)
    return f"{'an' if vowel else 'a'} {phrase}"
