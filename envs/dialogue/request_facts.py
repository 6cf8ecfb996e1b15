"""The facts that a user knows: those in its request, found by the columns and choices of the domain's tools.

A fact is a value that an orchestrator needs from the user: an id, a name, a date, a time, a number. Facts are found in
the instruction alone, by the columns and choices that the tools' parameters name. The reference trajectory is not read:
its values depend on how the task comes out, which a blank must not give away. Plain words ("dinner", "cash") are left
in the request. Words by which facts are labelled and asked for are in `request_words.yaml`.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.database.sql import primary_key, quote
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.naming import in_words, singular

_WORDS = read_yaml(Path(__file__).with_name("request_words.yaml"))
ORDINALS = tuple(_WORDS["ordinals"])
_MAX_DATE = 4
_MAX_FIGURE = 24
_RUN = re.compile(r"\S+")
_EDGES = re.compile(r"""[(\["'“‘–—-]*(.*?)(?:['’]s)?[)\]"'”’.,;:!?…\s–—-]*$""")
_KINDS = {"@": "date", "~": "time", "#": "number"}
_MONEY = re.compile(r"[$€£]")


class RequestFact(msgspec.Struct, frozen=True):
    """Something that a user knows and can be asked for.

    Attributes:
        label: What it is, unique among the facts of a request: "date", "second chef".
        value: As the instruction has it.
        noun: The label without "first", "second" and so on.
        words: Phrases by which it can be asked for, `noun` among them.
    """

    label: str
    value: str
    noun: str
    words: tuple[str, ...]


class Span(NamedTuple):
    """A value in a text: where it stands, and the noun for it."""

    start: int
    end: int
    value: str
    noun: str


class FactVocabulary:
    """The values that the tools of a domain speak of, and the nouns for them.

    Attributes:
        nouns: The noun of each value.
    """

    def __init__(self, domain: Domain) -> None:
        self._keys = {name: primary_key(spec) for name, spec in domain.spec.tables.items()}
        self._domain = domain
        self.nouns: dict[str, str] = {}
        for tool in domain.tools.values():
            for name, spec in tool.parameters.items():
                noun = self._noun(name, spec)
                for value in self._values(spec):
                    if _is_proper(value):
                        self.nouns.setdefault(value, noun)
        self._reach = _reach(self.nouns)

    def spans(self, text: str) -> list[Span]:
        """Return the values in a text, from left to right; of those that overlap the longest."""
        return list(_scan(text, self._reach, self._named))

    def _named(self, value: str) -> str | None:
        kind = _kind(value)
        return kind if kind in ("date", "time") else self.nouns.get(value) or kind

    def _values(self, spec: ParameterSpec) -> Sequence[str]:
        if spec.enum:
            return [value for value in spec.enum if isinstance(value, str)]
        if not spec.column or spec.type not in ("string", "array"):
            return []
        table, column = map(quote, spec.column.split("."))
        sql = f"SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'text' ORDER BY 1"
        return [row[0] for row in self._domain.database.base.execute(sql)]

    def _noun(self, parameter: str, spec: ParameterSpec) -> str:
        """Return what a value of a parameter is called: "order" for a key, "customer name" for what is none."""
        if not spec.column:
            return in_words(parameter)
        table, _, column = spec.column.partition(".")
        references = self._domain.spec.tables[table].columns[column].references
        if references is not None:
            table, _, column = references.partition(".")
        thing, whole = in_words(singular(table)), in_words(column)
        if self._keys[table] == (column,) or whole == thing:
            return thing
        return whole if whole.startswith(thing) else f"{thing} {whole}"


vocabulary_of = functools.lru_cache(maxsize=32)(FactVocabulary)
"""Returns the vocabulary of a domain, made once."""


def facts_in(text: str, vocabulary: FactVocabulary) -> tuple[RequestFact, ...]:
    """Return the facts of a request, in the order in which they stand there; one that stands twice is one."""
    found: dict[tuple[str, ...], tuple[Span, list[str]]] = {}
    for span in vocabulary.spans(text):
        _, beside = found.setdefault(tuple(tokens(span.value)), (span, []))
        if span.noun == "number":  # "4 guests", "line 2": what is counted stands beside it
            beside += _beside(text, span)
    counts = Counter(span.noun for span, _ in found.values())
    seen: Counter[str] = Counter()
    facts = []
    for span, beside in found.values():
        number = seen[span.noun]
        seen[span.noun] += 1
        if number >= len(ORDINALS):
            continue
        label = f"{ORDINALS[number]} {span.noun}" if counts[span.noun] > 1 else span.noun
        facts.append(RequestFact(label, span.value, span.noun, _phrases(span.noun, beside)))
    return tuple(facts)


def with_blanks(text: str, facts: Sequence[RequestFact]) -> str:
    """Return a request in which every value of `facts`, however it is written, is left open: "a table on [date]"."""
    blanks = {tuple(tokens(fact.value)): f"[{fact.label}]" for fact in facts}
    reach = _reach(fact.value for fact in facts)
    spans = list(_scan(text, reach, lambda value: blanks.get(tuple(tokens(value)))))
    for start, end, _, blank in reversed(spans):
        text = text[:start] + blank + text[end:]
    return text


def _reach(values: Iterable[str]) -> dict[str, int]:
    """Return, by their first words, how many words values have at most."""
    reach: dict[str, int] = {}
    for value in values:
        words = value.split()
        reach[words[0]] = max(len(words), reach.get(words[0], 0))
    return reach


def _scan(text: str, reach: Mapping[str, int], read: Callable[[str], str | None]) -> Iterator[Span]:
    """Yield the runs of words of which `read` makes a noun; the longest run at each place counts."""
    words = list(_RUN.finditer(text))
    first = 0
    while first < len(words):
        start, word = words[first].start(), _inner(words[first][0])
        most = max(reach.get(word[2], 1), 1 if word[2].islower() else _MAX_DATE)
        for last in range(min(first + most, len(words)), first, -1):
            before, after, inner = _inner(text[start : words[last - 1].end()])
            if inner and (found := read(inner)) is not None:
                yield Span(start + before, start + after, inner, found)
                first = last
                break
        else:
            first += 1


def _inner(run: str) -> tuple[int, int, str]:
    """Return a run of words without the punctuation around it, and where that begins and ends."""
    match = _EDGES.match(run)
    return (0, len(run), run) if match is None else (match.start(1), match.end(1), match[1])


def _is_proper(value: str) -> bool:
    """Return whether a value is more than a plain word, which a request may have in passing."""
    return value != value.lower() or any(c.isdigit() for c in value) or len(value.split()) > 1


def _kind(value: str) -> str | None:
    """Return what a value is that is written in figures: a date, a time, an amount of money, a number."""
    if len(value) > _MAX_FIGURE or not any(c.isdigit() for c in value):
        return None
    kinds = {_KINDS.get(token[0]) for token in tokens(value)}
    if len(kinds) != 1 or None in kinds:
        return None
    (kind,) = kinds
    return "amount" if kind == "number" and _MONEY.search(value) else kind


def _beside(text: str, span: Span) -> list[str]:
    before = re.findall(r"[^\W\d_]{4,}(?=\W*$)", text[: span.start])
    after = re.match(r"\W{0,2}([^\W\d_]{4,})", text[span.end :])
    words = (word.lower() for word in (*before, *(after.groups() if after else ())))
    return [word for word in words if word not in _WORDS["small_words"]]


def _phrases(noun: str, beside: Sequence[str]) -> tuple[str, ...]:
    others = _WORDS["other_words"].get(noun, noun.split()[:1])
    return tuple(dict.fromkeys((noun, *others, *map(singular, beside))))
