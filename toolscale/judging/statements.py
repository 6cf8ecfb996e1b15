"""What an answer states: its tokens, and which of them stand in statements that are denied, doubted, or asked.

The reading is by rules: sentences, clauses, the reach of a negator, and cues listed in ``cues.yaml``. It is about the
form of an answer only; `toolorchestra.toolscale.judging.judge` compares it with what had to be said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from toolorchestra.toolscale.mentions import tokens
from toolorchestra.toolscale.yaml_reader import read_yaml

_CUES = read_yaml(Path(__file__).with_name("cues.yaml"))
NEGATORS = frozenset(_CUES["negators"])
NEGATIVES = NEGATORS | frozenset(_CUES["negatives"])
STOPWORDS = frozenset(_CUES["stopwords"])
COPULAS = frozenset(_CUES["copulas"])
CONTRASTS = frozenset(_CUES["contrasts"])
JOINERS = frozenset(_CUES["joiners"])
_FILLERS = frozenset((*_CUES["fillers"], *_CUES["stopwords"], *_CUES["copulas"]))
NEUTRAL = frozenset(_CUES["neutral"])
MARKED = NEGATIVES | CONTRASTS | frozenset((*_CUES["conditions"], "or", "either"))
BREAKERS = frozenset(_CUES["breakers"])
_LINKS = frozenset(_CUES["links"])
_VERBAL = frozenset(("not", "t", "never", "cannot"))
_STARTERS = frozenset(_CUES["starters"])
_CONDITIONS = frozenset(_CUES["conditions"])
_TURNS = NEGATORS | BREAKERS | _CONDITIONS
_OPENING = re.compile(_CUES["opening_denial"])
_DENIAL = re.compile(rf"\b(?:{'|'.join(_CUES['denials'])})")
PROMISE = re.compile(_CUES["promises"], re.IGNORECASE)
REFUSAL = re.compile(_CUES["refusals"], re.IGNORECASE)
ACTION_CLAIM = re.compile(_CUES["action_claims"].replace("OBSERVED", "|".join(_CUES["observed"])), re.IGNORECASE)
REPORT = re.compile(_CUES["reports"], re.IGNORECASE)
RESUMPTIONS = frozenset(_CUES["resumptions"])
RESTRICTIONS = frozenset((*_CUES["restrictions"], *_CUES["conditions"]))
_HEDGE = re.compile(rf"\b(?:{'|'.join(_CUES['hedges'])})")
_DASHES = ("-", "–", "—")
_PRONOUNS = ("nothing", "none", "nobody")
_NEAR = 3  # tokens between a negator and what it denies
_NO_WORDS = frozenset[str]()
_REACH = 8  # tokens that a negator reaches
_ABBREVIATIONS = "".join(rf"(?<!\b{re.escape(word)})" for word in _CUES["abbreviations"])
_FIRST_WORDS = "|".join(_CUES["first_words"])  # an abbreviation before one of these ends a sentence
_BOUNDARY = re.compile(
    rf"""
    (?=[.!?;:|,()\s])(?:
      (?P<sentence>
          (?<=[a-z])\.(?=\s(?:{_FIRST_WORDS})\b)
        | (?=[.!?;]){_ABBREVIATIONS}(?!(?<=\bno)\.\s\d)[.!?;]{{1,32}}(?=[\s*_"'”)\]|]|\Z)
        | \n+
      )
    | (?P<colon>:(?=\s)|\s[-–—]+\s|\|)
    | (?P<clause>,(?=\s)(?!\s*\d{{4}}\b)|[()])
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SENTENCE_ENDS = ".!?;\n"
_MARKUP = re.compile(r"[*_`#>]+|^[ \t]*(?:[-+•]|\d{1,2}[.)])[ \t]+", re.MULTILINE)
_MARKS = re.compile(r"[*_`#>\n]")  # a text without any, which begins with a letter, has no markup
_MAX_CLAUSE = 400  # characters of the clause that claims a deed
_MAX_SUM = 80  # characters of a sum
_AMOUNT = r"[$€£(]*\d++(?:[.,]\d++)*+%?\)?"
_SUM = re.compile(rf"(?<![\w.,$€£(]){_AMOUNT}(?:\s*[-+−*/×·÷]\s*{_AMOUNT})+\s*\Z")
_DATA = re.compile(r"""[{,\[]\s*(["'])[\w .-]+\1\s*:|\[\s*[{"\[]""")


class Statements(msgspec.Struct, frozen=True):
    """An answer as read.

    Attributes:
        tokens: Its tokens in order, each in its one spelling (see `toolorchestra.toolscale.mentions.tokens`).
        sentences: For each token the number of its sentence.
        negated: For each token whether a negator before it, in its clause, reaches it.
        open: Numbers of the sentences that are questions or conditions, and state nothing.
        words: The tokens of each sentence.
        doubled: Numbers of the sentences in which a negator negates another.
        bracketed: Positions at which brackets with more than one token open.
        vocabulary: All its tokens.
        clauses: For each token the number of its clause.
        clause_words: The tokens of each clause.
    """

    tokens: list[str]
    sentences: list[int]
    negated: list[bool]
    open: frozenset[int]
    words: list[frozenset[str]]
    doubled: frozenset[int]
    bracketed: frozenset[int]
    vocabulary: frozenset[str]
    clauses: list[int]
    clause_words: list[frozenset[str]]

    def clause(self, position: int) -> frozenset[str]:
        """Return the tokens of the clause in which a token stands."""
        return self.clause_words[self.clauses[position]]

    def sentence(self, position: int) -> frozenset[str]:
        """Return the tokens of the sentence in which a token stands."""
        return self.words[self.sentences[position]]


def read_statements(text: str) -> Statements:
    """Return what an answer states.

    >>> found = read_statements("No, it is not $12.50. It costs 21 dollars, delivery included.")
    >>> found.tokens[:7], found.negated[:7]
    (['no', 'it', 'is', 'not', '#12.5', 'it', 'costs'], [False, False, False, False, True, False, False])
    """
    text = _plain(text)
    reader = _Reader()
    for _ in reader.parts(text):
        pass
    return Statements(
        reader.tokens,
        reader.sentences,
        reader.negated,
        frozenset(reader.open),
        reader.words,
        frozenset(reader.doubled),
        frozenset(reader.bracketed),
        frozenset(reader.tokens),
        reader.clauses,
        reader.clause_words,
    )


def first_clause(text: str, start: int = 0) -> frozenset[str]:
    """Return the tokens of the first clause from a position on; no more of the text is read than that.

    >>> sorted(first_clause("I booked nothing, since the table is taken."))
    ['booked', 'i', 'nothing']
    """
    reader = _Reader()
    for _ in reader.parts(_plain(text[start : start + _MAX_CLAUSE])):
        if reader.clause_words:
            break
    return reader.clause_words[0] if reader.clause_words else _NO_WORDS


def _plain(text: str) -> str:
    """Return a text without markup, with sums as what they come to."""
    if "=" in text:
        text = _without_sums(text)
    return _MARKUP.sub(" ", text) if not text[:1].isalpha() or _MARKS.search(text) else text


def _without_sums(text: str) -> str:
    """Return a text in which a sum stands as what it comes to: "31 + 14 = 45" as "45"."""
    *parts, last = text.split("=")
    for position, part in enumerate(parts):
        sum_before = _SUM.search(part, len(part) - min(len(part), _MAX_SUM))
        parts[position] = part[: sum_before.start()] if sum_before else f"{part}="
    return "".join((*parts, last))


def state_of(text: Statements, place: int, size: int) -> Literal["asserted", "denied", "neither"]:
    """Return how a text has what stands at a place: asserted, denied, or in the reach of a negator farther away."""
    found, own, end = text.tokens, text.sentences[place], place + size
    after = [found[i] for i in range(end, min(end + 3, len(found))) if text.sentences[i] == own]
    after = [
        token for token, i in zip(after, range(end, end + 3), strict=False) if text.clauses[i] == text.clauses[place]
    ]
    if after and after[0] == "cannot":
        return "denied"
    if len(after) > 1 and (
        (after[1] in NEGATORS and after[0] in COPULAS) or (after[1] == "t" and after[0][-1:] == "n")
    ):
        return "denied"
    before = [found[i] for i in range(max(0, place - _NEAR), place) if text.sentences[i] == own]
    if not text.negated[place]:
        return "neither" if "than" in before or ("of" in before and "instead" in before) else "asserted"
    return "denied" if NEGATORS & set(found[max(0, place - _NEAR) : place]) else "neither"


def around(answer: Statements, place: int, size: int) -> tuple[list[str], list[str]]:
    """Return the three tokens before and after what stands at a place, within its sentence."""
    found, end, own = answer.tokens, place + size, answer.sentences[place]
    before = [found[i] for i in range(max(0, place - 3), place) if answer.sentences[i] == own]
    return before, [found[i] for i in range(end, min(end + 3, len(found))) if answer.sentences[i] == own]


class _Reader:
    """The state of reading an answer clause by clause."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.sentences: list[int] = []
        self.negated: list[bool] = []
        self.open: set[int] = set()
        self.words: list[frozenset[str]] = []
        self.doubled: set[int] = set()
        self.bracketed: set[int] = set()
        self.clauses: list[int] = []
        self.clause_words: list[frozenset[str]] = []
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._clause = 0
        self._last_begin = 0
        self._negators = 0
        self._opened = 0
        self._begin = 0
        self._number = 0
        self._negated = False
        self._reach = 0

    def parts(self, text: str) -> Iterator[None]:
        """Read a text, and stop after each part that a boundary ends."""
        last = 0
        for boundary in _BOUNDARY.finditer(text):
            self.add(text[last : boundary.start()])
            sign = boundary[0]
            if sign[0] in _SENTENCE_ENDS:
                self.end_sentence("?" in sign)
            else:
                self.bracket(sign)
            last = boundary.end()
            yield
        self.add(text[last:])
        self.end_sentence(False)

    def add(self, clause: str) -> None:
        """Read the tokens of a clause."""
        found = tokens(clause)
        if not found:
            return
        if found[0] in _STARTERS:
            self._negated = False
        if not self._negated and _TURNS.isdisjoint(found):  # nothing is negated before, in and after it
            self.tokens += found
            self.sentences += [self._number] * len(found)
            self.negated += [False] * len(found)
            self.clauses += [len(self.clause_words)] * len(found)
            self._reach -= len(found)
            return
        for token in found:
            if token in BREAKERS:
                self._negated = False
                if token not in _LINKS:
                    self._end_clause()
            elif token in _CONDITIONS:
                self.open.add(self._number)
            self.tokens.append(token)
            self.sentences.append(self._number)
            self.negated.append(self._negated)
            self.clauses.append(len(self.clause_words))
            self._reach -= 1
            if self._reach <= 0:
                self._negated = False
            if token in NEGATORS:  # two of them cancel each other
                self._reach = _REACH
                if token != "nor" and (self._negated or (self._negators and token in _VERBAL)):
                    self.doubled.add(self._number)
                self._negators += 1
                self._negated = token == "nor" or not self._negated
        if len(found) == 1:  # "No, it is …"
            self._negated = False

    def bracket(self, sign: str) -> None:
        """Note an opening bracket, and close a clause at any other sign."""
        self._end_clause()
        if sign == "(":
            self._opened = len(self.tokens)
            return
        if sign == ")" and len(self.tokens) - self._opened > 1:
            self.bracketed.add(self._opened)
        last = self.tokens[-1] if self.tokens else ""
        if sign.strip() in _DASHES or last in _PRONOUNS:  # "I packed nothing: …"
            self._negated = False
        self._pause()

    def _end_clause(self) -> None:
        """Begin another clause."""
        if len(self.tokens) > self._clause:
            self.clause_words.append(self._set(self._clause))
            self._last_begin, self._clause = self._clause, len(self.tokens)
        self._negators = 0

    def _set(self, begin: int) -> frozenset[str]:
        """Return the tokens from a position on.

        Equal sets are one: the garbage collector visits each set that there is again and again, and what says the same
        a hundred thousand times must not take longer for that.
        """
        found = frozenset(self.tokens[begin:])
        return self._sets.setdefault(found, found)

    def _pause(self) -> None:
        """End what a negator reaches, if it has reached a word with a meaning (it has not in "not, in fact, 21")."""
        after = self.tokens[len(self.tokens) - (_REACH - self._reach) :] if self._reach < _REACH else []
        if any(token not in _FILLERS and token not in NEGATORS for token in after):
            self._negated = False

    def end_sentence(self, question: bool) -> None:
        """Begin another sentence."""
        if question:
            self.open.add(self._number)
        self._end_clause()
        if self._begin == len(self.tokens):
            words = _NO_WORDS
        elif self._begin == self._last_begin:
            words = self.clause_words[-1]
        else:
            words = self._set(self._begin)
        self.words.append(words)
        self._begin = len(self.tokens)
        self._number += 1
        self._negated = False


def denials(text: str) -> list[str]:
    """Return the words by which an answer denies or doubts as a whole what it states.

    >>> denials("It is NOT true that the dish costs $21. I do not know.")
    ['not true', 'do not know']
    """
    lower = spelled_out(text)
    opening = _OPENING.match(lower)
    return [*([opening[0]] if opening else ()), *_DENIAL.findall(lower), *_HEDGE.findall(lower)]


def spelled_out(text: str) -> str:
    """Return a text in lower case, with "not" for "n't"."""
    return text.lower().replace("’", "'").replace("can't", "cannot").replace("n't", " not")


def holds_data(text: str) -> bool:
    """Return whether a text holds JSON or the like, which is no answer to a user."""
    return _DATA.search(text) is not None
