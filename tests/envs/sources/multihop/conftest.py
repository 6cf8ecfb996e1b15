"""Questions about a small encyclopaedia, and a reader of its texts."""

from __future__ import annotations

import re

import pytest

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia
from toolorchestra.envs.encyclopaedia.world import WorldFact
from toolorchestra.envs.sources.multihop.source import MultiHopQASource
from toolorchestra.toolscale.tasks.task import Task

YEARS = ("born", "died", "founded", "completed", "departed")


class Reader:
    """Reads facts from texts alone: it knows the sentences and the names, not the facts."""

    def __init__(self, book: Encyclopaedia) -> None:
        self.words = book.words.book
        self.mentions = {entity.mention: entity.key for entity in book.entities.values()}
        self.titles = {entity.title: entity for entity in book.entities.values()}
        self.patterns: dict[str, list[re.Pattern[str]]] = {}
        for kind, parts in self.words.sentences.items():
            self.patterns[kind] = [self.pattern(wording) for wordings in parts for wording in wordings]

    @staticmethod
    def pattern(wording: str) -> re.Pattern[str]:
        pieces, seen = [], set()
        for piece in re.split(r"(\{\w+\})", wording):
            if not piece.startswith("{"):
                pieces.append(re.escape(piece))
                continue
            slot = piece[1:-1].lower()
            said = r"\d{3,4}" if slot in YEARS else ".+?"
            pieces.append(said if slot in seen else f"(?P<{slot}>{said})")
            seen.add(slot)
        return re.compile("".join(pieces), re.IGNORECASE)

    def value(self, said: str) -> str:
        lower = said[:1].lower() + said[1:]
        return self.mentions.get(said) or self.mentions.get(lower) or said

    def listed(self, said: str) -> list[str]:
        return re.split(r", (?=the )| and (?=the )", said)

    def facts(self, title: str, text: str) -> set[WorldFact]:
        subject = self.titles[title.removesuffix(": work and family")]
        kinds = {
            "person": ["career" if title.endswith(": work and family") else "life"],
            "work": ["work", f"work at {self.words.genres.get(subject.sort, ('', '', ''))[2]}"],
            "event": [subject.sort],
        }.get(subject.kind, [subject.kind])
        found: set[WorldFact] = set()
        for sentence in re.split(r"(?<=\.) ", text):
            if sentence in self.words.fillers:
                continue
            readings = [
                match
                for kind in kinds
                for pattern in self.patterns[kind]
                if (match := pattern.fullmatch(sentence))
                and (self.value(match["s"]) == subject.key or match["s"].lower() == subject.pronoun)
            ]
            assert len(readings) >= 1, sentence
            for relation, said in readings[0].groupdict().items():
                if relation in ("s", "made"):
                    continue
                if relation == "profession":
                    said = said.split(" ", 1)[1]
                if relation == "works":
                    for work in self.listed(said):
                        mention, year = re.fullmatch(r"(.+) \((\d+)\)", work).groups()  # type: ignore[union-attr]
                        key = self.value(mention)
                        found |= {WorldFact(subject.key, "works", key), WorldFact(key, "completed", year)}
                elif relation == "institutions":
                    found |= {WorldFact(subject.key, relation, self.value(one)) for one in self.listed(said)}
                else:
                    found.add(WorldFact(subject.key, relation, self.value(said)))
        return found


@pytest.fixture(scope="session")
def source() -> MultiHopQASource:
    """Questions about a world of 200 people."""
    return MultiHopQASource(seed=5, people=200, train=500, test=150, test_intents=100)


@pytest.fixture(scope="session", params=["first", "second"])
def book(source: MultiHopQASource, request: pytest.FixtureRequest) -> Encyclopaedia:
    """The encyclopaedia of a world."""
    return source.book if request.param == "first" else source.second_book


@pytest.fixture(scope="session")
def tasks(source: MultiHopQASource) -> list[Task]:
    """The questions."""
    return source.tasks("all")


@pytest.fixture(scope="session")
def asked(source: MultiHopQASource, book: Encyclopaedia) -> list[Task]:
    """The questions about the encyclopaedia of a world."""
    return [task for task in source.tasks("all") if source.book_of(task) is book]


@pytest.fixture(scope="session")
def reader(book: Encyclopaedia) -> Reader:
    """A reader of the encyclopaedia."""
    return Reader(book)
