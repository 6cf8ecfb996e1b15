r"""Final answers: extracting the answer from a text, and comparing it with the accepted ones.

A final answer stands in ``\boxed{…}`` or ``<answer>…</answer>``, or after "the answer is"; a text with none of these
is the answer as a whole. Values are compared exactly (`toolorchestra.toolscale.symbolic`), in any form; everything
else word by word, without articles. Mathematics that this library cannot read is compared by Math-Verify, if installed.

Not covered: partial credit and meaning. A text that names several candidates is wrong.
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

from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.symbolic import UnreadableError, Value, ValueGroup
from toolorchestra.toolscale.symbolic_reader import read

T = TypeVar("T")

_BOX = r"\boxed{"
_BRACE = re.compile(r"[{}]")
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_NAMED = re.compile(r"(?:\banswer(?:\s+is|\s*:)|\banswer\s*=)\s*\**:?\s*(.+)", re.IGNORECASE)
_MATHEMATICAL = re.compile(r"[\\^_=+*/<>|{}]")
_COSMETIC = re.compile(r"\\left|\\right|\\displaystyle|\\[!,;: ]|[$\s]|\\text\b|\\mathrm\b|\\mbox\b|[{}]")
_PROSE = re.compile(r"(?<![\\A-Za-z])(?!(?:sin|cos|tan|log|ln|exp|sqrt|pi|mod|max|min)\b)[A-Za-z]{2,}")
_CHOICE = re.compile(r"\(?([A-Za-z])\)?[.:)]?", re.DOTALL)
_ARTICLES = frozenset(("a", "an", "the"))
_MAX_CHARACTERS = 2_000
_TIMEOUT = 5.0  # seconds that Math-Verify may take


def final_answer(text: str) -> str:
    r"""Return what `text` gives as its final answer.

    >>> final_answer(r"Two cases remain, so the answer is \boxed{\frac{3}{4}}.")
    '\\frac{3}{4}'
    >>> final_answer("It stands in Brenholm.\nAnswer: Brenholm")
    'Brenholm'
    """
    if (answer := boxed(text)) is not None:
        return answer.strip()
    if tagged := _TAGGED.findall(text):
        return str(tagged[-1]).strip()
    if named := _NAMED.findall(text):
        return str(named[-1]).strip().strip("*").strip()
    return text.strip()


def boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}`` whose braces match, or None if there is none.

    >>> boxed(r"First \boxed{1}, then \boxed{\frac{1}{2}}, and \boxed{ unfinished")
    '\\frac{1}{2}'
    """
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


def is_right(answer: str, accepted: Iterable[str]) -> bool:
    r"""Return whether the final answer of a text is one of those accepted.

    >>> is_right(r"\boxed{0.75}", [r"\frac{3}{4}"]), is_right("The Lantern Theatre", ["Lantern Theatre", "the Lantern"])
    (True, True)
    """
    answer = final_answer(answer)
    return any(equal(answer, right) for right in accepted)


def equal(answer: str, right: str) -> bool:
    """Return whether `answer` is the answer `right`, in any form."""
    answer, right = answer.strip(), right.strip()
    if not answer or len(answer) > _MAX_CHARACTERS:
        return False
    if answer == right:
        return True
    if (letter := _CHOICE.fullmatch(right)) and (choice := _CHOICE.fullmatch(answer)):
        return letter[1] == choice[1]
    if (truth := _truth(right)) is not None:
        try:
            return bool(read(answer) == truth)
        except UnreadableError:
            return _verified(answer, right)
    if _MATHEMATICAL.search(right):
        return _COSMETIC.sub("", answer).casefold() == _COSMETIC.sub("", right).casefold() or _verified(answer, right)
    return _words(answer) == _words(right)


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


@functools.lru_cache(maxsize=65_536)
def _truth(right: str) -> Value | ValueGroup | None:
    try:
        return read(right)
    except UnreadableError:
        return None


def _words(text: str) -> list[str]:
    return [word for word in tokens(text) if word not in _ARTICLES]


# ------------------------------------------------------------------------------------------------- Math-Verify


@functools.cache
def math_verify_installed() -> bool:
    """Return whether Math-Verify (the extra ``math``) is installed."""
    return importlib.util.find_spec("math_verify") is not None


def _verified(answer: str, right: str) -> bool:
    """Return whether Math-Verify finds two answers equal; without it, they are not, and nor is prose."""
    prose = _PROSE.search(answer) or _PROSE.search(right)
    return not prose and math_verify_installed() and _VERIFIER.equal(answer, right)


_WORKER = r"""
import json, logging, sys
logging.disable(logging.CRITICAL)
from math_verify import LatexExtractionConfig, parse, verify
latex = [LatexExtractionConfig()]  # plain text would go through eval
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
