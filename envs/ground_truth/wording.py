"""What the words of a question to an expert or sub-agent ask for, whatever the world it is asked in.

A text can ask for all of the request ("What comes next?", "Solve the problem.", or the request itself), for a sum
(``12 * 3.5``), or lie beside the subject ("What is the capital of France?"). Which part or step of the work it asks for
is for `toolorchestra.envs.ground_truth.questions` and `toolorchestra.envs.ground_truth.domain_steps`.
"""

from __future__ import annotations

import datetime
import functools
import re
import zlib
from collections.abc import Set as AbstractSet
from pathlib import Path

from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.experts.trades import MISPLACED, is_misplaced
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.toolscale.functions import calculator
from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.yaml_reader import read_yaml

BESIDE = (
    "That is a matter of general knowledge, and an encyclopaedia tells it best.",
    "Opinions on that differ from book to book.",
    "It is a fine subject for a library.",
    "That has a long history, and much has been written about it.",
)
"""Answers to questions that lie beside the subject: plausible, and right nowhere."""
UNKNOWN = "I could not find that out."
"""An answer that is right nowhere."""
UNCLEAR = "Which step do you mean? Say what is to be done, and with what."
"""The answer to a question that is about the subject and asks for nothing that can be done."""

MAX_CHARACTERS = 20_000
"""Characters of a text that are read; what comes after does not count."""
_COVERED = 0.85  # share of a request's words that a text must have to repeat it
_OF_NUMBER = 2  # what a number counts in a text that asks what comes next
_PER_OTHER = 2  # words of work for each other one, in a text that names nothing
_BESIDE_SUM = 2  # words of other things that may stand beside a sum

_WORDS: dict[str, str] = read_yaml(Path(__file__).with_name("words.yaml"))
_FUNCTION_WORDS = frozenset(_WORDS["function_words"].split())
_NEXT = re.compile(
    r"\b(?:what|which|how)\b[^.?!\n]{0,60}\bnext\b"
    r"|\bnext\s+(?:\w+\s+){0,2}(?:steps?|actions?|calls?|moves?|things?|operations?|tools?|tasks?)\b"
    r"|\bwhat\s+(?:now|then|else)\b|\b(?:used|called|done|made|do)\s+(?:first|now|next)\b"
    r"|\bwhat\s+(?:do|would)\s+you\s+(?:recommend|suggest|advise|propose)\b|\bwhat\s+(?:i|we)\s+(?:have|need|ought)\s+to\s+do\b"
    r"|\b(?:call|step|action|tool)\s+is\s+(?:due|required|needed|right|appropriate|best)\b"
    r"|\b(?:required|necessary|appropriate|right|best|suitable)\s+(?:\w+\s+)?(?:tool|step|action|call)\b"
    r"|\b(?:which|what)\s+(?:tool|step|action|call)\s+(?:\w+\s+){0,3}(?:call|make|take|use|do)\b"
    r"|\b(?:what|how|which\s+(?:tool|step|action|call))\s+(?:should|shall|must|do|can|would|ought|am|are)\s+"
    r"(?:to\s+)?(?:i|we|you|one|to)\b"
    r"[^.?!\n]{0,40}\b(?:do|call|proceed|continue|go\s+on|begin|start|handle|help|make|take|use)\b"
    r"|\bwhat\s+(?:comes|follows|remains|is\s+(?:left|missing|needed|required|due|to\s+be\s+done)"
    r"|is\s+there\s+(?:left\s+)?to\s+do|(?:still\s+)?(?:needs|has)\s+to\s+be\s+done)\b"
    r"|\b(?:how|where)\s+(?:do|should|shall|can)\s+(?:i|we)\s+(?:go\s+on|proceed|continue|begin|start)\b"
    r"|\b(?:first|following)\s+(?:step|action|call)\b"
    r"|\b(?:go\s+on|carry\s+on|continue|proceed)\b"
)
_FINAL = re.compile(
    r"\b(?:final|finished|closing)\s+(?:answer|reply|response|message|report)\b"
    r"|\b(?:tell|write|reply|report|say|answer|respond|summari[sz]e)\b[^.?!\n]{0,30}\b(?:to\s+)?the\s+"
    r"(?:user|customer|client|passenger|patient|guest|caller)\b"
    r"|\bword\s+the\s+answer\b|\bsummari[sz]e\b"
)
_DATE = re.compile(r"\b\d{4}[-/]\d{1,2}[-/]\d{1,2}\b|\b\d{1,2}/\d{1,2}/\d{4}\b")
_NUMBER = r"\({0,4}\d{1,15}(?:\.\d{1,10})?\){0,4}"
_SUM = re.compile(rf"{_NUMBER}(?:(?:\s{{0,3}}[+*/×÷]\s{{0,3}}|\s{{1,3}}[-−x]\s{{1,3}}){_NUMBER}){{1,40}}")
_SIGNS = str.maketrans({"×": "*", "x": "*", "÷": "/", "−": "-"})
_TODAY = datetime.date(2000, 1, 1)  # the calculator has no use for it


@functools.lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return a word without its ending, so that forms of one word agree; dates and numbers stay.

    >>> [stem(word) for word in ("dishes", "booked", "booking", "supplies", "bus", "#12")]
    ['dish', 'book', 'book', 'supply', 'bus', '#12']
    """
    if not word.isalpha() or len(word) < 4:
        return word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + instead
    if word[-1] == "s" and word[-2] not in "sui":
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            word = word[: -len(ending)]
            return word[:-1] if word[-1] == word[-2] and word[-1] not in "ls" else word
    return word[:-1] if word[-1] == "e" and len(word) > 4 else word


_WORK_STEMS = frozenset(map(stem, _WORDS["work_words"].split()))
_PEOPLE = frozenset(map(stem, ("customer", "client", "passenger", "patient", "guest", "caller", "student", "member")))
_ORDERS = frozenset(map(stem, ("answer", "check", "conclude", "continue", "help", "review", "solve", "verify")))


@functools.lru_cache(maxsize=16_384)
def content(text: str) -> frozenset[str]:
    """Return the stems of a text's words without function words.

    >>> sorted(content("What is the capital of France?"))
    ['capital', 'franc']
    """
    return frozenset(stem(word) for word in tokens(text[:MAX_CHARACTERS]) if word not in _FUNCTION_WORDS)


def repeats(text: str, request: str) -> bool:
    """Return whether a text has nearly all words of a request: it delegates the whole.

    >>> repeats("Please do this: cancel the order of Edgar!", "Cancel the order of Edgar.")
    True
    """
    wanted = content(request)
    if not wanted:
        return tokens(text[:MAX_CHARACTERS]) == tokens(request)
    return len(content(text) & wanted) >= _COVERED * len(wanted)


def asks_next(text: str) -> bool:
    """Return whether a text asks, in whatever words, what comes next.

    >>> asks_next("What should I do next?"), asks_next("Which tool should I call?"), asks_next("Who was Ada?")
    (True, True, False)
    """
    return _NEXT.search(text[:MAX_CHARACTERS].lower()) is not None


def asks_to_conclude(text: str) -> bool:
    """Return whether a text asks for the words of the final answer.

    >>> asks_to_conclude("What do I tell the user?"), asks_to_conclude("Go on.")
    (True, False)
    """
    return _FINAL.search(text[:MAX_CHARACTERS].lower()) is not None


class Balance:
    """How the words of a text are shared out.

    Attributes:
        known: The words that are of the subject.
        work: The words of working on anything ("solve", "step").
        foreign: The others.
    """

    def __init__(self, text: str, subject: AbstractSet[str]) -> None:
        words = content(text)
        self.known = words & subject
        self.work = (words & _WORK_STEMS) - self.known
        self.foreign = words - self.known - self.work

    @property
    def is_beside(self) -> bool:
        """Whether the text lies beside the subject: most of its words are of something else, or it has none."""
        near = len(self.known) + len(self.work)
        return not near or len(self.foreign) > near


def asks_for_all(text: str, request: str, subject: AbstractSet[str]) -> bool:
    """Return whether a text asks for the whole request: it repeats it, asks what is next, or names nothing at all.

    >>> asks_for_all("Solve the problem step by step.", "How many rivers cross Brenholm?", frozenset())
    True
    >>> asks_for_all("What is the weather in Paris?", "How many rivers cross Brenholm?", frozenset())
    False
    """
    if repeats(text, request):
        return True
    if asks_next(text):
        balance = Balance(text, subject)
        numbers = {word for word in content(text) - content(request) if word[0] == "#"}  # "what comes next, 1, 2, 4?"
        foreign = len(balance.foreign - numbers) + _OF_NUMBER * len(numbers)
        return foreign <= len((balance.known | balance.work) - numbers)
    words = content(text)
    work = words & _WORK_STEMS
    if len(words - work) * _PER_OTHER > len(work) or not words - work <= content(request) | _PEOPLE:
        return False
    return len(work) > 1 or not work.isdisjoint(_ORDERS)


def beside(key: str, text: str) -> Problem:
    """Return the problem of a question that lies beside the subject: its answer is right nowhere.

    `key` names the task; the same text has the same answer.
    """
    number = zlib.crc32(text.encode("utf-8", "replace"))
    first = number % len(BESIDE)
    answers = (*BESIDE[first:], *BESIDE[:first])
    return Problem(f"{key}?{number:08x}", "other", (Step(answers[0], answers[1:]),))


def asked_sum(text: str) -> str | None:
    """Return the arithmetic expression that a text asks to work out, or None if there is none that has a value.

    >>> asked_sum("What is 12 * 3.5 + 1?"), asked_sum("Book it for 2025-07-23."), asked_sum("1 / 0")
    ('12 * 3.5 + 1', None, None)
    """
    found = max(_SUM.findall(_DATE.sub(" ", text[:MAX_CHARACTERS])), key=len, default="")
    expression = found.strip().translate(_SIGNS)
    surplus = expression.count("(") - expression.count(")")
    expression = expression + ")" * surplus if surplus > 0 else expression
    if not expression:
        return None
    try:
        calculator(expression, _TODAY)
    except ValueError:
        return None
    return expression


def asks_for_sum(text: str) -> str | None:
    """Return the expression that a text asks to work out, if it asks for little else.

    >>> asks_for_sum("Please compute 21 + 25 + 24 dollars."), asks_for_sum("Ada had 2 + 3 red and 4 blue hats at home.")
    ('21 + 25 + 24', None)
    """
    words = [word for word in content(text) - _WORK_STEMS if not word.startswith("#")]
    return asked_sum(text) if len(words) <= _BESIDE_SUM else None


def sum_problem(key: str, expression: str, role: Role | None = None) -> Problem:
    """Return the problem of working out an expression, with a step for each operation.

    It is `MISPLACED` logits harder for a trade that it does not suit.
    """
    value = calculator(expression, _TODAY)
    operations = sum(expression.count(sign) for sign in "+-*/") or 1
    wrong = tuple(f"{other:.6g}" for other in (value + 1, value - 1, value * 10) if other != value)
    difficulty = MISPLACED if is_misplaced(role, "computation") else 0.0
    return Problem.chain(f"{key}={expression}", "math", operations, f"{value:.10g}", wrong, difficulty)
