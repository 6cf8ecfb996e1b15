"""Words: from the names of a database to the names and sentences of a domain.

English as far as table and column names need it; a word that the rules do not know is left as it is.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection

MAX_LETTERS = 40
"""Longest name made here: tool and intent names are put together from several."""

_IRREGULAR = {
    "people": "person", "persons": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse",
    "shelves": "shelf", "leaves": "leaf", "halves": "half", "knives": "knife", "lives": "life", "movies": "movie",
    "cookies": "cookie", "indices": "index", "matrices": "matrix", "statuses": "status", "addresses": "address",
    "analyses": "analysis", "criteria": "criterion", "staff": "staff_member", "personnel": "employee",
    "calories": "calorie", "categories": "category", "heroes": "hero", "potatoes": "potato", "tomatoes": "tomato",
    "buses": "bus", "gases": "gas", "aliases": "alias", "canvases": "canvas", "caches": "cache",
}  # fmt: skip
_UNCOUNTABLE = {"series", "species", "news", "data", "media", "equipment", "information", "inventory", "stock", "lens"}

_VERBS = {
    "returned": "return", "cancelled": "cancel", "canceled": "cancel", "closed": "close", "completed": "complete",
    "paid": "pay", "waived": "waive", "fulfilled": "fulfill", "collected": "collect", "shipped": "ship",
    "delivered": "deliver", "resolved": "resolve", "refunded": "refund", "settled": "settle", "finished": "finish",
    "ended": "end", "end": "end", "withdrawn": "withdraw", "approved": "approve", "rejected": "reject",
    "declined": "decline", "suspended": "suspend", "retired": "retire", "archived": "archive", "confirmed": "confirm",
    "dismissed": "dismiss", "discharged": "discharge", "sold": "sell", "released": "release",
    "return": "return", "closing": "close", "completion": "complete", "payment": "pay", "terminated": "terminate",
    "fulfilment": "fulfill", "fulfillment": "fulfill", "checkout": "check_out", "checked_out": "check_out",
    "checked_in": "check_in", "discontinued": "discontinue", "blocked": "block", "deactivated": "deactivate",
}  # fmt: skip
FINAL = frozenset({
    "returned", "cancelled", "canceled", "closed", "completed", "complete", "done", "paid", "waived", "fulfilled",
    "collected", "expired", "delivered", "resolved", "rejected", "declined", "refunded", "failed", "lost", "settled",
    "void", "voided", "finished", "withdrawn", "no show", "denied", "sold", "archived", "deleted", "terminated",
    "ended", "retired", "discontinued", "discharged", "dismissed", "written off",
})  # fmt: skip
"""States that nothing leads out of."""
INITIAL = (
    "pending", "new", "open", "active", "placed", "requested", "waiting", "scheduled", "booked", "reserved", "unpaid",
    "outstanding", "draft", "submitted", "available", "received", "created", "planned",
)  # fmt: skip
"""States in which things begin, the likeliest first."""
GOOD = frozenset({"active", "enabled", "approved", "verified", "valid", "current", "in good standing"})
"""States of somebody or something that may be dealt with."""


def snake_case(name: str, taken: Collection[str] = (), fallback: str = "item") -> str:
    """Return `name` as a snake_case identifier that is not `taken`.

    >>> [snake_case(name) for name in ("InvoiceLine", "Order Details", "customerID", "Größe (cm)", "2nd", "class")]
    ['invoice_line', 'order_details', 'customer_id', 'grosse_cm', 'item_2nd', 'class_']
    """
    text = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    text = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or fallback
    text = text if text[0].isalpha() else f"{fallback}_{text}"
    text = text[:MAX_LETTERS].rstrip("_")
    if keyword.iskeyword(text) or text in ("today", "json_each", "json_tree"):
        text += "_"
    found, number = text, 1
    while found in taken:
        number += 1
        found = f"{text}_{number}"
    return found


def singular(name: str) -> str:
    """Return the name of one of the things that a table's name speaks of.

    >>> [singular(name) for name in ("loans", "book_copies", "branches", "status", "staff", "order")]
    ['loan', 'book_copy', 'branch', 'status', 'staff_member', 'order']
    """
    before, _, word = name.rpartition("_")
    return f"{before}_{_singular(word)}".lstrip("_")


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _UNCOUNTABLE or len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
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
    if word in _UNCOUNTABLE or _singular(word) != word:
        return name
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        word = word[:-1] + "ies"
    else:
        word += "es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s"
    return f"{before}_{word}".lstrip("_")


def verb(word: str) -> str | None:
    """Return the verb that leads to a state or is dated by a column, if it is known.

    >>> verb("Cancelled"), verb("returned_at"), verb("blue")
    ('cancel', 'return', None)
    """
    text = snake_case(word)
    text = re.sub(r"_(at|on|date|time|day|datetime|timestamp)$", "", text)
    return _VERBS.get(text)


def in_words(name: str) -> str:
    """Return a name as words: ``due_date`` is "due date".

    >>> in_words("book_copy"), in_words("returned_at")
    ('book copy', 'returned at')
    """
    return name.strip("_").replace("_", " ")


def an(words: str) -> str:
    """Return `words` with the indefinite article.

    >>> an("loan"), an("author"), an("user")
    ('a loan', 'an author', 'a user')
    """
    vowel = words[:1] in "aeiou" and not words.startswith(("user", "uni", "eu", "one"))
    return f"{'an' if vowel else 'a'} {words}"
