"""How multi-hop questions are worded, which ``question_words.yaml`` lists and explains."""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from toolorchestra.toolscale.yaml_reader import parse_yaml


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


QUESTION_WORDS = msgspec.convert(
    parse_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")), QuestionWords
)
"""The words of questions."""


@functools.cache
def relations_of(kind: str) -> list[str]:
    """Return the names of the relations of a kind of entity."""
    return [name for name, relation in QUESTION_WORDS.relations.items() if kind in relation.kind.split()]
