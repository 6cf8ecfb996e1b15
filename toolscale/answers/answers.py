r"""Final answers to questions: where they stand in a text, and whether they are the right ones.

An answer stands in ``\boxed{…}`` or in ``<answer>…</answer>``; nothing else in a text counts, and words around it are
not judged. A text that gives several different answers is wrong. Answers are compared as text without cosmetics, and as
exact numbers; mathematics in another form than the reference by Math-Verify, if it is installed
(`toolorchestra.toolscale.answers.math_verifier`).

However long or hostile a text is, it is read in time that grows with its length, and no text raises. Not covered:
partial credit and meaning.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple, TypeVar

from toolorchestra.toolscale.answers.math_verifier import verified
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.answers.numerals import plain_digits
from toolorchestra.toolscale.answers.thoughts import split_thoughts

T = TypeVar("T")

FORMS = r"\boxed{…} or <answer>…</answer>"
"""The forms of an answer, for messages."""
MAX_TEXT = 32_768
"""Characters of a text, from its end, in which an answer is looked for."""
_MAX_ANSWER = 2_000  # characters
_MAX_DIFFERENT = 10  # answers of a text that are compared

# --------------------------------------------------------------------------------------------------- reading

_MARK = re.compile(r"\\boxed\s?\{|\\[{}]|[{}]|<answer>|</answer>", re.IGNORECASE)
_ESCAPED = (r"\{", r"\}")
_OWN = re.compile(r"[^\s,;.$]")  # what makes a box more than a box of boxes
_PLACEHOLDER = re.compile(
    r"(?:\\text\{)?(?:(?:your|the|my)[ _])?(?:final[ _])?answer(?:[ _](?:alone|here))?\}?|[\s.…_]*|\\l?dots",
    re.IGNORECASE,
)


def _given(text: str) -> list[tuple[str, bool]]:
    """Return the answers that a text gives, and whether each stands in a box."""
    text = split_thoughts(text, own=("reasoning",))[1][-MAX_TEXT:]  # sub-agents give their reasoning with the answer
    found: list[tuple[int, int, bool]] = []  # where each answer begins and ends, and whether it is a box
    opened: list[tuple[int, bool, int]] = []  # of each brace: where its content begins, whether it is a box, len(found)
    own: list[bool] = []  # of each brace: whether it holds more than boxes
    tag, place = (-1, 0), 0
    for mark in _MARK.finditer(text):
        sign = mark[0].lower()
        if own and not own[-1]:
            own[-1] = sign in _ESCAPED or _OWN.search(text, place, mark.start()) is not None
        place = mark.end()
        if sign == "}":
            if opened:
                start, is_box, before = opened.pop()
                more = own.pop()
                if is_box and (more or len(found) == before):
                    found[before:] = [(start, mark.start(), True)]
                elif own and more and not is_box:
                    own[-1] = True
        elif sign == "<answer>":
            tag = place, len(found)
        elif sign == "</answer>":
            if tag[0] >= 0 and len(found) == tag[1]:
                found.append((tag[0], mark.start(), False))
            tag = -1, 0
        elif (opened or sign != "{") and sign not in _ESCAPED:
            opened.append((place, sign != "{", len(found)))
            own.append(False)
    given = ((text[start:end].strip(), is_box) for start, end, is_box in found)
    return [one for one in given if not _PLACEHOLDER.fullmatch(one[0][:60])]


def answers(text: str) -> list[str]:
    r"""Return the answers that a text gives, in their order; a box of boxes counts as these.

    Placeholders count for nothing, nor does what was only thought, before ``</think>``.

    >>> answers(r"As \boxed{…}: \boxed{\boxed{1}, \boxed{\frac{1}{2}}}, <answer>3</answer>, \boxed{ unfinished")
    ['1', '\\frac{1}{2}', '3']
    >>> answers("The answer is 12."), answers("<think>It is \\boxed{4}?</think><answer>\\boxed{5}</answer>")
    ([], ['5'])
    """
    return [answer for answer, _ in _given(text)]


def boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}``, or None if there is none.

    >>> boxed(r"First \boxed{1}, then \boxed{\frac{1}{2}}, and \boxed{ unfinished")
    '\\frac{1}{2}'
    """
    return next((answer for answer, is_box in reversed(_given(text)) if is_box), None)


def final_answer(text: str) -> str:
    r"""Return the last answer that a text gives, or the whole text if it gives none: a bare value, to be compared.

    >>> final_answer(r"Two cases remain: \boxed{\frac{3}{4}}."), final_answer(" 12 ")
    ('\\frac{3}{4}', '12')
    """
    found = answers(text)
    return found[-1] if found else text.strip()


def in_form(text: str) -> str:
    r"""Return a text that gives an answer: itself, if it does, else a box with it.

    >>> in_form("12"), in_form(r"So \boxed{12}."), in_form("set {1")
    ('\\boxed{12}', 'So \\boxed{12}.', '<answer>set {1</answer>')
    """
    return text if answers(text) else whole_answer(text)


def whole_answer(text: str) -> str:
    r"""Return a text that gives the whole of a text as its answer: a box with it, or a tag where no box can hold it.

    >>> whole_answer("12"), whole_answer(r"\boxed{1} or 2"), answers(whole_answer(r"\boxed{1}"))
    ('\\boxed{12}', '\\boxed{\\boxed{1} or 2}', ['1'])
    """
    text = text.strip()
    box = rf"\boxed{{{text}}}"
    return box if answers(box) == [text] else f"<answer>{text}</answer>"


def is_right(text: str, accepted: Iterable[str]) -> bool:
    r"""Return whether a text gives an answer, and all that it gives are among those accepted.

    >>> is_right(r"\boxed{0.75}", [r"\frac{3}{4}"]), is_right("<answer>the Lantern</answer>", ["Lantern"])
    (True, True)
    >>> is_right(r"\boxed{5} or \boxed{7}", ["5"]), is_right("5", ["5"])
    (False, False)
    """
    accepted, given = tuple(accepted), dict.fromkeys(answers(text))
    return 0 < len(given) <= _MAX_DIFFERENT and all(any(_is(one, right) for right in accepted) for one in given)


def _is(answer: str, right: str) -> bool:
    """Return whether two answers are equal by text or number, or, in mathematics, by Math-Verify."""
    if equal(answer, right):
        return True
    if len(answer) > _MAX_ANSWER:
        return False
    one, other = _read(answer), _read(right)
    exact = one.number is not None and other.number is not None
    both = one.plain + other.plain
    mathematical = ("," in both or _FORMULA.search(both)) and not isinstance(other.key, tuple)
    return bool(mathematical and not exact) and verified(one.plain, other.plain)


# ------------------------------------------------------------------------------------------------- comparing

_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit|mbox|textit|emph|boldsymbol|operatorname)\s?\{([^{}]*)\}")
_COSMETIC = re.compile(
    r"\\(?:left|right|displaystyle|quad)(?![A-Za-z])|\\[!,;: ()\[\]]|~|\\?\$|\^\s?(?:\{\s?\\circ\s?\}|\\circ)|°"
)
_SPELLINGS = (
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\cdot|\\times|[·×∗⋅]"), "*"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"√"), r"\\sqrt"),
    (re.compile(r"π"), r"\\pi "),
    (re.compile(r"∞"), r"\\infty "),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\s+"), " "),
)
_NAMED = re.compile(r"[A-Za-z]\s?=\s?(?=[^=<>]*\Z)")
_BRACED = re.compile(r"\{([^{}]*)\}")
_SPACE = re.compile(r"(?<!\d) | (?!\d)")  # but not between two numbers
_SHORT = re.compile(r"(?<!\\)\{(\w)\}")
_CHOICE = re.compile(r"\(?([A-Za-z])\)?[.:)]?")
_FORMULA = re.compile(r"[\\^_=+*/<>|{}()\[\]?]")
_NAME = re.compile(r"[^\W\d_]{2,}")
_FRACTION = re.compile(r"\\frac\s?(?:\{\s?([-+]?[\d.]+)\s?\}|(\d))\s?(?:\{\s?([\d.]+)\s?\}|(\d))")
_NUMBER = re.compile(
    r"(?P<sign>[-+]?) ?(?:(?P<whole>\d+) (?=\d+/))?(?P<top>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)"
    r"(?: ?/ ?(?P<bottom>\d+(?:\.\d+)?))?(?: ?(?P<percent>\\?%)| (?P<unit>[^\W\d_]{2,}(?:/[^\W\d_]+)?))?"
)
_PER_CENT = Fraction(1, 100)
_MAX_NUMBER = 100  # characters of a number
_ARTICLES = frozenset(("a", "an", "the"))


class _Read(NamedTuple):
    """An answer: without cosmetics, what of it is compared as text, and as a number, and whether it has a unit."""

    plain: str
    key: str | tuple[str, ...]
    number: Fraction | None = None
    percent: bool = False
    unit: str = ""


def equal(answer: str, right: str) -> bool:
    r"""Return whether a bare answer is `right`, as text or as an exact number; a unit of `right` may be left out.

    >>> equal(r"\dfrac12", "0.5"), equal("1,912", "1912"), equal("the  lantern.", "Lantern"), equal("87", "87 km")
    (True, True, True, True)
    >>> equal("0.333", "1/3"), equal("87 miles", "87 km"), equal("5 or 7", "5"), equal("5?", "5")
    (False, False, False, False)
    """
    if answer == right:
        return bool(answer)
    if max(len(answer), len(right)) > _MAX_ANSWER:
        return False
    one, other = _read(answer), _read(right)
    if one.number is not None and other.number is not None and one.unit in ("", other.unit):
        size = one.number * (_PER_CENT if one.percent else 1)
        wanted = other.number * (_PER_CENT if other.percent else 1)
        if one.number == other.number or (one.percent is not other.percent and size == wanted):
            return True
    return bool(one.key) and one.key == other.key


equal_cached = functools.lru_cache(maxsize=65_536)(equal)
"""`equal` with a cache: votes compare the same few answers again and again."""


@functools.lru_cache(maxsize=8_192)
def _read(text: str) -> _Read:
    plain = _plain(text)
    if len(plain) <= _MAX_NUMBER and (found := _NUMBER.fullmatch(_FRACTION.sub(_as_slash, plain))):
        top, bottom = Fraction(found["top"].replace(",", "").rstrip(".")), Fraction(found["bottom"] or 1)
        if bottom:
            size = int(found["whole"] or 0) + top / bottom
            number = -size if found["sign"] == "-" else size
            return _Read(plain, plain, number, bool(found["percent"]), (found["unit"] or "").casefold())
    if choice := _CHOICE.fullmatch(plain):
        return _Read(plain, choice[1].casefold())
    if _NAME.search(plain) and not _FORMULA.search(plain):
        return _Read(plain, tuple(word for word in tokens(plain) if word not in _ARTICLES))
    return _Read(plain, _SHORT.sub(r"\1", _SPACE.sub("", plain)).casefold())


def _as_slash(fraction: re.Match[str]) -> str:
    top, bottom = fraction[1] or fraction[2], fraction[3] or fraction[4]
    before = " " if fraction.start() and fraction.string[fraction.start() - 1].isdecimal() else ""
    return f"{before}{top}/{bottom}"


def _plain(text: str) -> str:
    """Return an answer without cosmetics: commands for fonts and spaces, marks around it, a full stop."""
    text = _COSMETIC.sub(" ", _TEXT.sub(r" \1 ", plain_digits(text)))
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = text.strip().strip("*`\"“”'").strip()
    if found := _BRACED.fullmatch(text):
        text = found[1].strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip()
    return _NAMED.sub("", text, count=1) if _NAMED.match(text) else text


# ---------------------------------------------------------------------------------------------------- voting


def group_equal(items: Iterable[T], same: Callable[[T, T], bool]) -> list[list[T]]:
    """Return items in groups; an item joins the first group for whose first item `same(item, first)` is true.

    >>> group_equal(["1/2", "2", "0.5"], equal)
    [['1/2', '0.5'], ['2']]
    """
    groups: list[list[T]] = []
    for item in items:
        group = next((group for group in groups if same(item, group[0])), None)
        if group is None:
            groups.append(group := [])
        group.append(item)
    return groups


def count_votes(answers: Iterable[str]) -> list[tuple[str, int]]:
    r"""Return the different answers, each as it was first given, and how many equal it; empty ones are left out.

    >>> count_votes([r"\frac{1}{2}", "2", "", "0.5"])
    [('\\frac{1}{2}', 2), ('2', 1)]
    """
    return [(group[0], len(group)) for group in group_equal(filter(None, answers), equal_cached)]
