"""The words of two fictional worlds and of the questions about them, which the YAML files list and explain.

The worlds share no name, and their articles and questions are worded differently.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TypeVar

import msgspec

from toolorchestra.toolscale.common.yaml_reader import read_yaml

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
    leaders: tuple[str, ...]
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


class RelationWording(msgspec.Struct, frozen=True):
    """How the value of one relation or of several in a row is called within a question, and asked for."""

    phrases: tuple[str, ...]
    asks: tuple[str, ...]

    def filled(self, **slots: str) -> RelationWording:
        """Return the wording with some of its slots filled; the others stay."""
        kept = {"x": "{x}", "housed": "{housed}", **slots}
        phrases, asks = ([text.format(**kept) for text in texts] for texts in (self.phrases, self.asks))
        return RelationWording(tuple(phrases), tuple(asks))


class Elisions(msgspec.Struct, frozen=True):
    """Wordings of several relations in a row that mention nothing between subject and value; see the YAML file."""

    places: dict[str, str]
    of_places: dict[str, RelationWording]
    attributes: dict[str, str]
    links: dict[str, tuple[str, ...]]
    linked: RelationWording
    others: dict[str, RelationWording]

    def by_path(self) -> dict[tuple[str, ...], RelationWording]:
        """Return the wordings by the names of the relations, from the subject on."""
        found = dict(self.others)
        for link, (clause, *attributes) in self.links.items():
            for name in attributes:
                found[f"{link}-{name}"] = self.linked.filled(noun=self.attributes[name], link=clause)
        for place, clause in self.places.items():
            for name, wording in self.of_places.items():
                if name or "-" in place:  # a city alone is found by a single relation, which has its own wordings
                    found[f"{place}-{name}".strip("-")] = wording.filled(where=clause)
        return {tuple(path.split("-")): wording for path, wording in found.items()}


class Counted(msgspec.Struct, frozen=True):
    """How things are counted: what they are called, the question, and its parts."""

    owned: str
    before: str
    after: str
    members: str
    one: str


class QuestionWords(msgspec.Struct, frozen=True):
    """The relations that can be asked for, and words for conditions, comparisons and counts."""

    relations: dict[str, Relation]
    homes: dict[str, str]
    housed: dict[str, str]
    elisions: Elisions
    years: dict[str, str]
    older: dict[str, tuple[str, str]]
    conditions: dict[str, str]
    studied_in: str
    counts: dict[str, Counted]


class WorldWords(msgspec.Struct, frozen=True):
    """The words of a world: of its encyclopaedia and of the questions about it.

    Attributes:
        elided: The wordings of several relations in a row, by their names from the subject on.
    """

    name: str
    book: EncyclopaediaWords
    questions: QuestionWords
    elided: dict[tuple[str, ...], RelationWording]


def _read(name: str, kind: type[T]) -> T:
    return msgspec.convert(read_yaml(Path(__file__).with_name(name)), kind)


def _world(name: str, book: str, questions: str) -> WorldWords:
    asked = _read(questions, QuestionWords)
    return WorldWords(name, _read(book, EncyclopaediaWords), asked, asked.elisions.by_path())


FIRST = _world("first", "encyclopaedia_words.yaml", "question_words.yaml")
SECOND = _world("second", "second_world_words.yaml", "second_question_words.yaml")
RELATIONS = FIRST.questions.relations
"""The relations, which are the same in both worlds; their wordings are the first's."""


@functools.cache
def relations_of(kind: str) -> list[str]:
    """Return the names of the relations of a kind of entity."""
    return [name for name, relation in RELATIONS.items() if kind in relation.kind.split()]
