r"""Math-Verify (the extra ``math``): whether two answers in LaTeX that differ in form are equal.

It imports sympy, which takes a third of a second, and evaluates what it reads, so it runs in a process of its own,
which is ended when a hostile expression keeps it too long. Not covered: prose, and numbers, which need none of it.
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

import msgspec

_TIMEOUT = 5.0  # seconds that Math-Verify may take
_MAX_CHARACTERS = 200  # of an answer that it is given
_READABLE = re.compile(
    r"(?:[\w\s^{}()\[\],;.+\-*/=<>|!]|\\[{}]|\\(?:frac|sqrt|pi|infty|log|ln|exp|sin|cos|tan|cot|sec|csc|arc(?:sin|cos|tan)"
    r"|cdot|pm|cup|cap|setminus|in|leq?|geq?|neq?|circ|binom|alpha|beta|theta|[pbv]?matrix|mathbb)(?![A-Za-z]))*+"
)
_WORD = re.compile(r"(?<![\\A-Za-z])(?!(?:sin|cos|tan|log|ln|exp|pi)(?![A-Za-z]))[^\W\d_]{2,}")
_LARGE = re.compile(r"\d{12}|!|\^\s*(?:\{[^{}]*|\([^()]*|\w{1,9}\s*)\^|\^\s*[{(]?\s*\d{4}|\\binom")
_RELATION = re.compile(r"[=<>]|\\(?:leq?|geq?|neq?|in)(?![A-Za-z])")

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


@functools.cache
def math_verify_installed() -> bool:
    """Return whether Math-Verify (the extra ``math``) is installed."""
    return importlib.util.find_spec("math_verify") is not None


@functools.lru_cache(maxsize=8_192)
def verified(answer: str, right: str) -> bool:
    """Return whether Math-Verify finds two answers equal; without it, none are, nor what is prose or large."""
    for text in (answer, right):
        if len(text) > _MAX_CHARACTERS or not _READABLE.fullmatch(text) or _WORD.search(text) or _LARGE.search(text):
            return False
    if _RELATION.search(answer) and not _RELATION.search(right):  # to it, 7 = 5 is 5
        return False
    return math_verify_installed() and _VERIFIER.equal(answer, right)


class _MathVerify:
    """Math-Verify in a process of its own."""

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
                question.write(msgspec.json.encode((answer, right)) + b"\n")
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
