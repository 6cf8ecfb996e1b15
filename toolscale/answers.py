r"""Final answers: extracting the answer from a text, and comparing it with the accepted ones.

A final answer stands in ``\boxed{…}`` or ``<answer>…</answer>``, or after "the answer is"
(`toolorchestra.toolscale.answer_reader`); a text with none of these is the answer as a whole, or says it in a sentence
(`toolorchestra.toolscale.answer_sentences`). Values are compared exactly (`toolorchestra.toolscale.symbolic`), in any
form, with their unit or without; everything else word by word, without articles. A reference answer of mathematics that
this library cannot read is compared by Math-Verify, if installed.

A text that gives several different answers, or takes its answer back, is wrong. However long or hostile it is, it is
judged within milliseconds, and no text raises. Not covered: partial credit and meaning.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import re
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from toolorchestra.toolscale.answer_reader import MAX_TEXT, spoken_end, stated, tag_contents
from toolorchestra.toolscale.answer_sentences import WORDS, asserts
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.numerals import number_of_words, plain_digits
from toolorchestra.toolscale.symbolic import UnreadableError, Value, ValueGroup, limited_work
from toolorchestra.toolscale.symbolic_reader import read_or_none

T = TypeVar("T")

_BOX = r"\boxed{"
_BRACE = re.compile(r"[{}]")
_NAMED = re.compile(r"(?:\banswer(?:\s+is|\s*:)|\banswer\s*=)\s*\**:?\s*(.+)", re.IGNORECASE)
_MATHEMATICAL = re.compile(r"[\\^_=+*/<>|{}]")
_COSMETIC = re.compile(r"\\left|\\right|\\displaystyle|\\[!,;: ]|[$\s]|\\text\b|\\mathrm\b|\\mbox\b|[{}]")
_PROSE = re.compile(r"(?<![\\A-Za-z])(?!(?:sin|cos|tan|log|ln|exp|sqrt|pi|mod|max|min)\b)[A-Za-z]{2,}")
_CHOICE = re.compile(r"\(?([A-Za-z])\)?[.:)]?", re.DOTALL)
_CHOSEN = re.compile(
    r"(?:(?i:option|choice|answer)\s)?\(?([A-Za-z])(?:\)?[.:)]|\)?\Z|(?=,?\s(?:because|since|as)\b))\s*(.*)", re.DOTALL
)
_OTHER_CHOICE = re.compile(r"(?:\A|\b(?:or|and)\b|[,/&;])\W*[A-Z](?![\w'’])", re.DOTALL)
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|textit|emph|boldsymbol)\s?\{([^{}]*)\}")
_DELIMITER = re.compile(r"\A\$+|\$+\Z|\\[()\[\]]")
_DECIMAL_COMMA = re.compile(r"([-−]?\d+),(\d{1,2}|\d{4,})")
_AND_OR = re.compile(r",?\s*(?:\\text\s?\{\s*(?:and|or)\s*\}|\b(?:and|or)\b)\s*")
_LEADING = re.compile(r"\A(?:[€£¥]|(?:US)?\\?\$|exactly\s|precisely\s|equal\sto\s|=)\s*", re.IGNORECASE)
_MINUS = re.compile(r"\A(?:minus|negative)\s(?=\d)", re.IGNORECASE)
_UNIT_WORD = re.compile(r"[^\W\d_]+")
_MEASURED = re.compile(
    r"([^A-Za-z]*[^A-Za-z\s,;:(]|[A-Za-z][A-Za-z -]{2,40}?)[\s~]*"
    r"((?:(?<=[\s~\d}])[^\W\d_]+[²³.]?[\s/]*){1,12}|[€£¥]|%)\s*"
)
_EACH_NAMED = re.compile(r"\b([a-z])\s*=\s*")
_NOUGHT, _NO_UNITS, _UNITS = frozenset(WORDS.nought), frozenset(WORDS.no_units), frozenset(WORDS.units)
_ARTICLES = frozenset(("a", "an", "the"))
_MAX_CHARACTERS = 2_000
_MAX_FORM = 200  # characters of an answer with words, a unit or a decimal comma
_LARGE = re.compile(
    r"\d{12}|!|\^\s*(?:\{[^{}]*|\([^()]*|\w{1,9}\s*)\^|\^\s*[{(]?\s*\d{4}|\\(?:binom|sum|prod|int|lim)\b"
)
_TIMEOUT = 5.0  # seconds that Math-Verify may take
_MAX_VERIFIED = 200  # characters of an answer that it is given


def final_answer(text: str) -> str:
    r"""Return what `text` gives as its final answer.

    >>> final_answer(r"Two cases remain, so the answer is \boxed{\frac{3}{4}}.")
    '\\frac{3}{4}'
    >>> final_answer("It stands in Brenholm.\nAnswer: Brenholm")
    'Brenholm'
    """
    end = text[-MAX_TEXT:]
    if (answer := boxed(end)) is not None:
        return answer.strip()
    if tagged := tag_contents(end):
        return tagged[-1]
    if named := _NAMED.findall(end):
        return str(named[-1]).strip().strip("*").strip()
    return text.strip()


def boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}`` whose braces match, or None if there is none.

    >>> boxed(r"First \boxed{1}, then \boxed{\frac{1}{2}}, and \boxed{ unfinished")
    '\\frac{1}{2}'
    """
    text = text[-MAX_TEXT:]
    start = text.rfind(_BOX)
    if start < 0:
        return None
    opened: list[int] = []
    closed: dict[int, int] = {}
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            closed[opened.pop()] = brace.start()
    while start >= 0:
        first = start + len(_BOX)
        if first - 1 in closed:
            return text[first : closed[first - 1]]
        start = text.rfind(_BOX, 0, start)
    return None


def is_right(text: str, accepted: Iterable[str], question: str = "", known: Iterable[str] = ()) -> bool:
    r"""Return whether the answer that a text gives is one of those accepted.

    All that it gives must be: several boxes are right if they hold the same answer. The question, and the answers of
    the steps before the last (`known`), tell what else a sentence around the answer may name.

    >>> is_right(r"\boxed{0.75}", [r"\frac{3}{4}"]), is_right("The Lantern Theatre", ["Lantern Theatre", "the Lantern"])
    (True, True)
    >>> is_right(r"\boxed{5} or \boxed{7}", ["5"]), is_right("It was completed in 1912.", ["1912"])
    (False, True)
    """
    accepted, known = tuple(accepted), tuple(known)
    with limited_work():  # for all that the text gives together
        return _is_right(text, accepted, question, known)


def _is_right(text: str, accepted: tuple[str, ...], question: str, known: tuple[str, ...]) -> bool:
    @functools.cache
    def same(answer: str) -> bool:
        return any(equal(answer, right, question) for right in accepted)

    found = stated(text)
    if found is None:
        return asserts(spoken_end(text), same, accepted, question, known)
    if found.withdrawn or not found.answers:
        return False
    return all(same(one) or asserts(one, same, accepted, question, known) for one in dict.fromkeys(found.answers))


def equal(answer: str, right: str, question: str = "") -> bool:
    """Return whether `answer` is the answer `right`, in any form; units may be words of the question."""
    answer, right = answer.strip(), right.strip()
    if not answer or len(answer) > _MAX_CHARACTERS:
        return False
    if answer == right:
        return True
    try:
        with limited_work():
            return _equal(_unwrapped(answer), right, question)
    except UnreadableError:
        return False


def _equal(answer: str, right: str, question: str) -> bool:
    if letter := _CHOICE.fullmatch(right):
        choice = _CHOSEN.fullmatch(answer)
        if choice and not _OTHER_CHOICE.search(choice[2]):
            return letter[1] == choice[1]
    measured = _MEASURED.fullmatch(right) if " " in right else None
    if measured and _singular(measured[2]) in _UNITS and (truth := _truth(measured[1])) is not None:
        given = _MEASURED.fullmatch(answer) if len(answer) <= _MAX_FORM else None
        if given is None or _singular(given[2]) == _singular(measured[2]):
            return _is_value(given[1] if given else answer, truth, "")
    if (truth := _truth(right)) is not None:
        return _is_value(answer, truth, question)
    if _MATHEMATICAL.search(right):
        return _COSMETIC.sub("", answer).casefold() == _COSMETIC.sub("", right).casefold() or _verified(answer, right)
    wanted = _words(right)
    if _words(answer) == wanted:
        return True
    last, comma, first = answer.partition(",")  # Rao, Anita
    return bool(comma) and len(wanted) > 1 and _words(f"{first} {last}") == wanted


def _unwrapped(text: str) -> str:
    """Return a text without marks around the whole of it: quotes, Markdown, delimiters of mathematics, a full stop."""
    for _ in range(4):
        shorter = _DELIMITER.sub("", text).strip().strip("*`\"“”'").strip()
        if len(shorter) > 1 and shorter[-1] == "." and not shorter.endswith(".."):
            shorter = shorter[:-1].strip()
        if found := _TEXT.fullmatch(shorter):
            shorter = found[1].strip()
        if shorter == text:
            break
        text = shorter
    return text


def _is_value(answer: str, truth: Value | ValueGroup, question: str) -> bool:
    """Return whether a text is a value, as it is, in words, with a decimal comma, or with a unit."""
    if "\n" in answer:  # lines are several answers
        return False
    found = read_or_none(answer)
    if found is not None and found == truth:
        return True
    if len(answer) > _MAX_FORM:
        return False
    if isinstance(truth, ValueGroup):
        listed = _AND_OR.sub(",", answer)
        if len(set(_EACH_NAMED.findall(listed))) == 1:
            listed = _EACH_NAMED.sub("", listed)
        return listed != answer and read_or_none(listed) == truth
    if answer.casefold() in _NOUGHT:
        return not truth.top
    if (number := number_of_words(answer)) is not None:
        return truth == number
    if comma := _DECIMAL_COMMA.fullmatch(plain_digits(answer)):
        return read_or_none(".".join(comma.groups())) == truth
    if (bare := _MINUS.sub("-", _LEADING.sub("", answer))) != answer:
        return _is_value(bare, truth, question)
    if given := _MEASURED.fullmatch(answer):
        asked = {_singular(word) for word in _UNIT_WORD.findall(question)}
        units = {_singular(word) for word in _UNIT_WORD.findall(given[2])}
        return units <= _UNITS | asked and not units & _NO_UNITS and _is_value(given[1], truth, "")
    return False


def _singular(words: str) -> str:
    """Return words without the endings of their plurals and without points: kms. and km are one unit."""
    return " ".join(word.removesuffix("s") for word in _UNIT_WORD.findall(words.casefold()))


equal_cached = functools.lru_cache(maxsize=65_536)(equal)
"""`equal` with a cache: votes compare the same few answers again and again."""


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


def majority(items: Iterable[T], same: Callable[[T, T], bool]) -> T | None:
    """Return the item that most others equal, the first one where there is a tie; None without items.

    >>> majority(["2", "1/2", "0.5"], equal), majority([], equal)
    ('1/2', None)
    """
    group = max(group_equal(items, same), key=len, default=None)
    return group[0] if group else None


def count_votes(answers: Iterable[str]) -> list[tuple[str, int]]:
    r"""Return the different answers, each as it was first given, and how many equal it; empty ones are left out.

    >>> count_votes([r"\frac{1}{2}", "2", "", "0.5"])
    [('\\frac{1}{2}', 2), ('2', 1)]
    """
    return [(group[0], len(group)) for group in group_equal(filter(None, answers), equal_cached)]


_truth = functools.lru_cache(maxsize=65_536)(read_or_none)
"""The value of a reference answer, which many answers are compared with."""


def _words(text: str) -> list[str]:
    return [word for word in tokens(text) if word not in _ARTICLES]


# ------------------------------------------------------------------------------------------------- Math-Verify


@functools.cache
def math_verify_installed() -> bool:
    """Return whether Math-Verify (the extra ``math``) is installed."""
    return importlib.util.find_spec("math_verify") is not None


def _verified(answer: str, right: str) -> bool:
    """Return whether Math-Verify finds two answers equal; without it, they are not, nor is what is prose or large."""
    if len(answer) > _MAX_VERIFIED or _LARGE.search(answer):
        return False
    prose = _PROSE.search(answer) or _PROSE.search(right)
    return not prose and math_verify_installed() and _VERIFIER.equal(answer, right)


_WORKER = r"""
import json, logging, sys
logging.disable(logging.CRITICAL)
from math_verify import LatexExtractionConfig, parse, verify
latex = [LatexExtractionConfig()]  # plain text would go through eval
verify(parse("$x^2+y^2=1$", latex), parse("$y^2+x^2=1$", latex))  # the first time takes seconds
for line in sys.stdin:
    answer, right = (parse("$" + text + "$", latex, parsing_timeout=3) for text in json.loads(line))
    found = bool(answer) and bool(right) and verify(right, answer, timeout_seconds=3)
    print(json.dumps(bool(found)), flush=True)
"""


class _MathVerify:
    """Math-Verify in a process of its own, which is ended when a hostile expression keeps it too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def equal(self, answer: str, right: str) -> bool:
        """Return whether Math-Verify reads both, in time, and finds them equal."""
        with self._lock:
            timeout = _TIMEOUT
            if self._process is None or self._process.poll() is not None:
                command = [sys.executable, "-c", _WORKER]
                pipe = subprocess.PIPE
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
                timeout *= 12  # it imports sympy first
            question, result = self._process.stdin, self._process.stdout
            assert question
            assert result
            with contextlib.suppress(BrokenPipeError):
                question.write(msgspec.json.encode((answer.replace("$", ""), right.replace("$", ""))) + b"\n")
                question.flush()
                if select.select([result], [], [], timeout)[0]:
                    return result.readline().strip() == b"true"
            self._end()
            return False

    def close(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


_VERIFIER = _MathVerify()
atexit.register(_VERIFIER.close)
