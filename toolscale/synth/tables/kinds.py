"""The kinds of things that columns hold, as one table: how each is recognised, asked for, compared and changed.

`kind_of` names the kind of a column by its name, what its cells look like and its values; everything that is derived
from a column asks the entry of its kind (`kinds`) instead of looking at the name again. A column of secrets has none:
it is left out (`is_secret`). How a value is made that no row has yet is in `fresh_values`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from toolorchestra.toolscale.requests.naming import in_words, quantity_words, word_lists
from toolorchestra.toolscale.synth.tables.values import Cells, Shape

MAX_CHOICES = 12
"""Values of a category."""


def _all(pattern: str) -> Callable[[Sequence[Any]], bool]:
    whole = re.compile(pattern)
    return lambda present: bool(present) and all(whole.fullmatch(str(value)) for value in present)


_NOTE = "note|comment|description|remark|reason|summary|bio|text|body|message|details"
_PHONE = r"phone|mobile|fax|(?:^|_)(?:tel|telefon|handy)(?:_|$)"
_STOCK = "stock|quantity|capacity|seats|level|units|hours|limit|points|credits"
_AHEAD = "due|expir|until|end|held|scheduled|start|appointment|deadline|valid|deliver|arriv|depart|check|event"
_PLACE = r"latitude|longitude|coordinate|(?:^|_)(?:lat|lon|lng|long|coords?)(?:_|$)"
_CALENDAR = "(?:month|week|weekday|day|hour|minute|quarter)"
_SHARE = r"(?:^|_)(?:percent|percentage|pct|prozent|ratio|share|tax_rate|vat|mwst)(?:_|$)"
_NO_PERSON = "^(?!.*(?:first|last|given|family|sur|fore|vor|nach)_?name)"
_DAY = ", YYYY-MM-DD"
_SAME_DAY = "date({0}, '+0 days') IS {0}"  # SQLite takes the 30th of February
_CLOCK = "strftime('%H:%M', {0}) IS {0}"
_TOKENS = "access|refresh|auth|csrf|reset|bearer|session|remember|api|device|id|jwt|oauth"
_SURE = re.compile(
    r"(?:^|_)(?:password|passwd|passwort|kennwort|passphrase|pwd|otp|cvv|cvc|api_?key"
    rf"|(?:private|secret|access|auth|activation)_key|session_key|(?:{_TOKENS})_token|(?:client|api|app|shared|t?otp|mfa|webhook)_secret)"
    r"(?:_?(?:hash|digest|salt|enc|encrypted|value))?\d*$"
)
_LIKELY = re.compile(r"(?:^|_)(?:secret|hash|digest|token|salt|session|cookie|nonce|pass)(?:_value)?$")
_PIN = re.compile(r"(?:^|_)pin(?:_?(?:hash|number|nr))?$")
_OWN_LOOKS = _all(
    r"\$(?:2[abxy]?|argon2\w*|pbkdf2\S*|scrypt|[156y]|[HPS])\$\S+|(?:pbkdf2|argon2|bcrypt|scrypt)\w*\$\S+|\{S?SHA\d*\}\S+"
    r"|(?:sk|pk|rk)[-_]\w[\w-]{7,}|gh[pousr]_\w{8,}|xox[abpr]-\S+|AKIA[A-Z0-9]{12,}|eyJ[\w-]+\.[\w-]+\.[\w-]*"
)
_DIGEST = _all(r"(?i)[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{128}")
_NAMED_DIGEST = re.compile(r"(?:^|_)(?:\w*id|commit|sha|revision|etag|ref|z?identifier|key|code)\d*(?:_|$)")
_OPAQUE = _all(r"(?=\S*\d)(?=\S*[A-Za-z])[\w+/=.:-]{8,}|[A-Za-z0-9+/_-]{20,}={0,2}")
_FEW_DIGITS = _all(r"\d{3,8}")
_DATE_SAID = re.compile(r"dat|day|time|tag|zeit|fecha|jour|giorno")


@dataclass(frozen=True)
class ColumnKind:
    """A kind of column: how it is recognised, by conditions that all hold, and what may be done with its values."""

    name: str
    shape: Shape
    named: str = ""  # a regular expression that is found in the column's name
    holds: Callable[[Sequence[Any]], bool] = lambda _: True  # of the values that are not missing
    of: Literal["all", "key", "plain", "shared"] = "all"  # keys and references, others, others that are not unique
    asked: int | None = None  # the place among what questions ask for, the most informative first; None: never
    summed: bool = False  # values are so much of something, so that their sum is, too
    compared: bool = False  # one can be the highest
    change: int = 0  # how likely a value is to be changed; 0: never
    change_named: str = ""  # in columns of such names
    renewed: bool = False  # a value is changed to one that no row has
    format: Literal["date", "time"] | None = None  # of a parameter that takes a value; a datetime is given by its day
    check: str = ""  # the SQL condition that {0} is a value, where type and format do not say so
    hint: str = ""  # how a value is written, after a comma


def _repeat(present: Sequence[Any]) -> bool:
    distinct = set(present)
    few = 0 < len(distinct) <= MAX_CHOICES and len(present) >= 3 * len(distinct)
    return few and max(map(len, distinct)) <= 30


def _are_long(present: Sequence[Any]) -> bool:
    """Whether texts are more than names, of which a few may be long."""
    return 10 * sum(len(value) > 80 for value in present) > len(present)


def _are_shares(present: Sequence[Any]) -> bool:
    """Whether numbers lie between 0 and 1, and are not all whole."""
    inside = all(isinstance(value, float) and 0 <= value <= 1 for value in present)
    return inside and not all(value in (0, 1) for value in present)


@functools.cache
def kinds() -> tuple[ColumnKind, ...]:
    """Return the kinds in the order in which they are looked for; some are recognised in two ways."""
    words = word_lists()
    money = f"(?:{'|'.join(words.money)}|fine$)"
    summed = rf"(?:{'|'.join(words.summed)})s?(?:_|$)|^(?:number|num|no)_of_"
    naming = rf"(?:^|_)(?:{'|'.join(words.identifying)})(?:_|$)(?!of_)|(?:nummer|number)$|^{_CALENDAR}$"
    clock = r"(?:[01]\d|2[0-3]):[0-5]\d"
    code = r"(?=.*\d|[A-Z]{2,12}$)[A-Za-z0-9]+(?:[-_/.:][A-Za-z0-9]+)*|(?=.*\d)[A-Z0-9]{1,8}(?: [A-Z0-9]{1,8})+"
    moment = "[12][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]"
    moved: Any = {"change": 5, "change_named": _AHEAD, "format": "date", "check": _SAME_DAY, "hint": _DAY}
    return (
        ColumnKind("date", "date", asked=1, compared=True, **moved),
        ColumnKind("moment", "datetime", of="key", check=f"{{0}} GLOB '{moment}'", hint=", YYYY-MM-DD HH:MM:SS"),
        ColumnKind("datetime", "datetime", asked=5, **moved),
        ColumnKind("flag", "flag", change=1),
        ColumnKind("json", "json"),
        ColumnKind("email", "text", holds=_all(r"[^@\s]+@[^@\s]+\.[^@\s.]{2,}"), asked=3, change=4, renewed=True),
        ColumnKind("url", "text", holds=_all(r"(?:https?://|www\.)\S+"), asked=3),
        ColumnKind("phone", "text", _PHONE, _all(r"\+?[\d\s()/.x-]{5,30}"), asked=3, change=4, renewed=True),
        ColumnKind("coordinates", "text", holds=_all(r"-?\d{1,3}\.\d+[,; ]\s*-?\d{1,3}\.\d+"), asked=6),
        ColumnKind("category", "text", _NO_PERSON, _repeat, of="plain", asked=0, change=2),
        ColumnKind("duration", "text", "duration|length|runtime|dauer", _all(r"\d{1,3}(?::[0-5]\d){1,2}"), asked=3),
        ColumnKind("time", "text", holds=_all(clock), asked=3, format="time", check=_CLOCK, hint=", HH:MM"),
        ColumnKind("note", "text", holds=_are_long, of="plain", change=1),
        ColumnKind("note", "text", _NOTE, of="shared", change=1),
        ColumnKind("code", "text", holds=_all(code), asked=3, change=4, change_named="phone|address|mobile|contact"),
        ColumnKind("text", "text", asked=3, change=4, change_named="email|phone|address|mobile|contact"),
        ColumnKind("coordinate", "number", _PLACE, asked=6),
        ColumnKind("identifier", "number", naming, asked=4),
        ColumnKind("rate", "number", _SHARE, asked=4, compared=True),
        ColumnKind("rate", "number", holds=_are_shares, asked=4, compared=True),
        ColumnKind("money", "number", f"(?=.*{money}).*(?:{summed})", asked=2, summed=True, compared=True, change=3),
        ColumnKind("price", "number", money, asked=2, compared=True, change=3),
        ColumnKind("quantity", "number", summed, asked=4, summed=True, compared=True, change=3, change_named=_STOCK),
        ColumnKind("number", "number", asked=4, compared=True, change=3, change_named=_STOCK),
    )


def kind_of(name: str, shape: Shape, present: Sequence[Any], *, plain: bool, unique: bool) -> str:
    """Return the kind of a column by its name, the look of its cells and its values that are not missing.

    >>> names = ("lat", "zip", "fee", "unit_price", "no_of_pages")
    >>> [kind_of(name, "number", [7, 9], plain=True, unique=False) for name in names]
    ['coordinate', 'identifier', 'money', 'price', 'quantity']
    """
    allowed = {"all": True, "key": not plain, "plain": plain, "shared": plain and not unique}
    ways = (kind for kind in kinds() if kind.shape == shape and allowed[kind.of] and re.search(kind.named, name))
    return next(kind.name for kind in ways if kind.holds(present))


def words_of(name: str, shape: Shape, present: Sequence[Any]) -> str:
    """Return what a column's values are called: ``returned_on`` is the "date returned", ``born`` a "year born"."""
    if said := word_lists().said.get(name):
        return said
    words = in_words(name)
    if shape in ("date", "datetime") and words == "born":
        return "date of birth"
    if shape in ("date", "datetime") and not _DATE_SAID.search(name):
        after = words.startswith("last ") or words.endswith(("since", "until", "from", "to"))
        return f"{words} date" if after else f"date {re.sub(r' (?:on|at)$', '', words)}"
    if shape == "flag":
        return f"{words.removeprefix('is ').removeprefix('has ').removesuffix(' status')} status"
    years = present and all(isinstance(value, int) and 1000 <= value < 2200 for value in present)
    if years and words.endswith(("ed", "born", "built", "made")):
        return f"year {words}"
    return words if shape != "number" else quantity_words(name, counts=all(float(v).is_integer() for v in present))


def is_secret(name: str, cells: Cells, *, identifies: bool) -> bool:
    """Whether a column holds secrets; one that `identifies` rows is a key or a reference.

    Name and cells say so together: a cinema has sessions, a recipe has salt, and a count of tokens is no token.

    >>> plain, hashed = Cells(["Matinee", "Late"], "TEXT", "text"), Cells(["$2b$12$abcdef"], "TEXT", "text")
    >>> is_secret("session", plain, identifies=False), is_secret("login_info", hashed, identifies=False)
    (False, True)
    """
    present = [value for value in cells.values if value is not None]
    if cells.shape in ("date", "datetime", "flag", "json"):  # when it was changed, whether there is one
        return False
    if _SURE.search(name) or _OWN_LOOKS(present):
        return not identifies or not name.endswith("_id")
    if identifies or (_PIN.search(name) and _FEW_DIGITS(present)):
        return not identifies
    opaque = _OPAQUE(present) if _LIKELY.search(name) else _DIGEST(present) and not _NAMED_DIGEST.search(name)
    return opaque and cells.type == "TEXT"
