"""The words of the synthetic encyclopaedia and of the questions about it, which the YAML files list and explain."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TypeVar

import msgspec

from toolorchestra.toolscale.yaml_reader import read_yaml

T = TypeVar("T")


class EncyclopaediaWords(msgspec.Struct, frozen=True):
    """What names are made of, and the sentences that state facts."""

    given: dict[str, tuple[str, ...]]
    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    middles: tuple[str, ...]
    codas: tuple[str, ...]
    city_endings: tuple[str, ...]
    country_endings: tuple[str, ...]
    language_endings: tuple[str, ...]
    family_endings: tuple[str, ...]
    coins: tuple[str, ...]
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    genres: dict[str, tuple[str, ...]]
    professions: dict[str, tuple[str, ...]]
    institutions: tuple[str, ...]
    schools: tuple[str, ...]
    sentences: dict[str, tuple[tuple[str, ...], ...]]
    fillers: tuple[str, ...]


class Relation(msgspec.Struct, frozen=True):
    """How a relation with one value is asked for, and what its value is called within a longer question.

    Attributes:
        kind: Kinds of its subjects.
        target: Kind of its value; ``year`` and ``word`` are no entities.
        phrases: What its value is called; ``{x}`` is the subject. The first or second ends in it.
        asks: Questions for the value.
    """

    kind: str
    target: str
    phrases: tuple[str, ...]
    asks: tuple[str, ...]


class QuestionWords(msgspec.Struct, frozen=True):
    """The relations that can be asked for, and words for conditions and comparisons."""

    relations: dict[str, Relation]
    homes: dict[str, str]
    years: dict[str, str]
    older: dict[str, tuple[str, str]]
    conditions: dict[str, str]


def _read(name: str, kind: type[T]) -> T:
    return msgspec.convert(read_yaml(Path(__file__).with_name(name)), kind)


WORDS = _read("encyclopaedia_words.yaml", EncyclopaediaWords)
QUESTION_WORDS = _read("question_words.yaml", QuestionWords)


@functools.cache
def relations_of(kind: str) -> list[str]:
    """Return the names of the relations of a kind of entity."""
    return [name for name, relation in QUESTION_WORDS.relations.items() if kind in relation.kind.split()]
