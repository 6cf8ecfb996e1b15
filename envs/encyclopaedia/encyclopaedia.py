"""A synthetic encyclopaedia: passages about a fictional world, and what each of them states.

The world (`toolorchestra.envs.encyclopaedia.world`) comes first, and its facts agree with each other.
The articles are made of the facts alone, in varied wording, and each knows which facts it states, so that it can be
checked what a question needs. Distractors are part of the world: people and places of one name, works that have
the title of the work they are based on, editions of one prize, and near misses in plenty. All follows from the seed
and the size.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from toolorchestra.envs.encyclopaedia.words import FIRST, WorldWords
from toolorchestra.envs.encyclopaedia.world import Entity, FictionalWorld, WorldFact
from toolorchestra.envs.tools.search.search import Passage
from toolorchestra.toolscale.common.errors import OptionError

_SLOT = re.compile(r"\{(\w+)\}")
_FILLED = 0.4  # share of articles with a sentence that states nothing


class Article(msgspec.Struct, frozen=True):
    """A passage, whom it is about, and the facts that it states."""

    passage: Passage
    subject: str
    facts: tuple[WorldFact, ...]


class Facts:
    """Facts by subject and relation, and by relation and value."""

    def __init__(self, facts: Iterable[WorldFact]) -> None:
        self._values: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._subjects: dict[tuple[str, str], list[str]] = defaultdict(list)
        for fact in dict.fromkeys(facts):
            self._values[fact.subject, fact.relation].append(fact.value)
            self._subjects[fact.relation, fact.value].append(fact.subject)

    def values(self, subject: str, relation: str) -> list[str]:
        """Return what a subject is related to."""
        return self._values.get((subject, relation), [])

    def subjects(self, relation: str, value: str) -> list[str]:
        """Return what is related to a value."""
        return self._subjects.get((relation, value), [])


class Encyclopaedia:
    """A fictional world and the articles about it; all follows from the seed, the number of people and the words.

    There are about four articles for each person.

    Attributes:
        words: The words that it is made of.
        entities: Everything that has an article, by key.
        facts: All that is true.
        articles: The articles, by the ids of their passages.

    Raises:
        OptionError: The number of people is not within 40 to 50,000.

    >>> book = Encyclopaedia(seed=1, people=40)
    >>> book.articles["p00001"].passage == Encyclopaedia(seed=1, people=40).articles["p00001"].passage
    True
    """

    def __init__(self, seed: int = 0, people: int = 240, words: WorldWords = FIRST) -> None:
        if not 40 <= people <= 50_000:
            raise OptionError(f"`people` must lie between 40 and 50,000, got {people}.")
        rng = random.Random(f"encyclopaedia:{seed}:{people}{'' if words is FIRST else f':{words.name}'}")
        self.words = words
        world = FictionalWorld(rng, people, words.book)
        self.entities = world.entities
        self.facts = Facts(world.facts)
        self._keys: dict[str, list[str]] = defaultdict(list)
        self._values: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = defaultdict(list)
        for entity in self.entities.values():
            self._names[entity.name].append(entity.key)
            self._keys[entity.kind].append(entity.key)
            self._keys[""].append(entity.key)
        articles = [article for entity in self.entities.values() for article in self._write(entity, rng)]
        rng.shuffle(articles)  # a passage's id says nothing about its subject
        self.articles: dict[str, Article] = {}
        self._passages: dict[WorldFact, str] = {}
        for number, (title, subject, text, facts) in enumerate(articles, 1):
            passage = Passage(f"p{number:05d}", title, text)
            self.articles[passage.id] = Article(passage, subject, facts)
            for fact in facts:
                if fact.subject == subject or fact not in self._passages:
                    self._passages[fact] = passage.id

    @property
    def passages(self) -> list[Passage]:
        """All passages, in the order of their ids."""
        return [article.passage for article in self.articles.values()]

    def keys(self, kind: str = "") -> list[str]:
        """Return the keys of all entities, or of those of a kind: always the same list, not to be changed."""
        return self._keys[kind]

    def values(self, relation: str) -> list[str]:
        """Return all that anything is related to by a relation: always the same list, not to be changed."""
        if relation not in self._values:
            found = (value for key in self.entities for value in self.facts.values(key, relation))
            self._values[relation] = list(dict.fromkeys(found))
        return self._values[relation]

    def namesakes(self, name: str) -> list[str]:
        """Return the keys of all entities of one name."""
        return self._names[name]

    def passage_of(self, fact: WorldFact) -> str:
        """Return the id of the passage that states a fact: its subject's own, if it is in one of these."""
        return self._passages[fact]

    def facts_in(self, passage_ids: Iterable[str]) -> Facts:
        """Return all that some passages state."""
        return Facts(fact for passage_id in passage_ids for fact in self.articles[passage_id].facts)

    def mention(self, value: str) -> str:
        """Return what texts call a value: an entity's mention, or the words themselves."""
        entity = self.entities.get(value)
        return entity.mention if entity else value

    def aliases(self, value: str) -> tuple[str, ...]:
        """Return all ways to give a value as an answer, the plainest first."""
        entity = self.entities.get(value)
        if entity is None:
            return (value,)
        found = [entity.name, entity.mention, entity.title]
        if entity.kind == "city":
            land = self.mention(self.facts.values(entity.key, "country")[0])
            found += [f"{entity.name}, {land}", f"{entity.name} in {land}", f"the city of {entity.name}"]
        if entity.kind == "person":
            found.append(f"the {entity.sort} {entity.name}")
        return tuple(dict.fromkeys(found))

    # ------------------------------------------------------------------------------------------- articles

    def _write(self, entity: Entity, rng: random.Random) -> Iterator[tuple[str, str, str, tuple[WorldFact, ...]]]:
        """Yield title, subject, text and facts of an entity's articles."""
        for kind, title in self._articles(entity):
            sentences: list[str] = []
            facts: list[WorldFact] = []
            for wordings in kind:
                if stated := self._sentence(entity, rng.choice(wordings), first=not sentences):
                    sentences.append(stated[0])
                    facts += stated[1]
            if not facts:
                continue
            if rng.random() < _FILLED:
                sentences.insert(rng.randint(1, len(sentences)), rng.choice(self.words.book.fillers))
            yield title, entity.key, " ".join(sentences), tuple(facts)

    def _sentence(self, entity: Entity, wording: str, *, first: bool) -> tuple[str, list[WorldFact]] | None:
        """Return a sentence about an entity and its facts, or None if one of them is not there."""
        filled: dict[str, str] = {"s": entity.mention if first else entity.pronoun}
        filled["S"] = _capital(filled["s"])
        facts: list[WorldFact] = []
        for slot in _SLOT.findall(wording):
            if slot in filled:
                continue
            if slot == "made":
                filled[slot] = self.words.book.genres[entity.sort][1]
                continue
            if not (values := self.facts.values(entity.key, slot)):
                return None
            facts += [WorldFact(entity.key, slot, value) for value in values]
            mentions = [self.mention(value) for value in values]
            if slot == "works":
                years = [self.facts.values(work, "completed")[0] for work in values]
                facts += [WorldFact(work, "completed", year) for work, year in zip(values, years, strict=True)]
                mentions = [f"{work} ({year})" for work, year in zip(mentions, years, strict=True)]
            elif slot == "profession":
                mentions = [f"{'an' if mentions[0][0] in 'aeiou' else 'a'} {mentions[0]}"]
            filled[slot] = listed(mentions)
        return _capital(wording.format_map(filled)), facts

    def _articles(self, entity: Entity) -> Sequence[tuple[Sequence[Sequence[str]], str]]:
        """Return the parts and the title of each article about an entity."""
        parts = self.words.book.sentences
        if entity.kind == "person":
            return (parts["life"], entity.title), (parts["career"], f"{entity.title}: work and family")
        if entity.kind == "work":
            made, based = parts["work"]
            return (((made, *parts[f"work at {self.words.book.genres[entity.sort][2]}"], based), entity.title),)
        return ((parts[entity.sort if entity.kind == "event" else entity.kind], entity.title),)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str]) -> str:
    """Return names in a row: ``A, B and C``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
