"""The encyclopaedia agrees with itself and can be read; its questions need what they name, and have one answer."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec
import pytest

from toolorchestra.envs.ground_truth.parts import find_part, parts_of, problem_of
from toolorchestra.envs.sources.multihop.drafts import answer
from toolorchestra.envs.sources.multihop.encyclopaedia import Encyclopaedia, Facts
from toolorchestra.envs.sources.multihop.encyclopaedia_world import LAST_YEAR, WorldFact
from toolorchestra.envs.sources.multihop.source import MultiHopQASource, faults, make_questions
from toolorchestra.envs.sources.multihop.words import WORDS
from toolorchestra.envs.tools.search import LocalSearch
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import NO_CONTEXT


@pytest.fixture(scope="module")
def source() -> MultiHopQASource:
    """Questions about a world of 200 people."""
    return MultiHopQASource(seed=5, people=200, train=500, test=150, test_intents=100)


@pytest.fixture(scope="module")
def book(source: MultiHopQASource) -> Encyclopaedia:
    return source.book


@pytest.fixture(scope="module")
def tasks(source: MultiHopQASource) -> list[Task]:
    return source.tasks("all")


# -------------------------------------------------------------------------------------------- the world


def years(book: Encyclopaedia, relation: str) -> dict[str, int]:
    return {key: int(book.facts.values(key, relation)[0]) for key in book.entities if book.facts.values(key, relation)}


def related(book: Encyclopaedia, relation: str) -> Iterator[tuple[str, str]]:
    for key in book.entities:
        for value in book.facts.values(key, relation):
            yield key, value


@pytest.mark.parametrize("seed", range(3))
def test_all_dates_agree(seed: int):
    book = Encyclopaedia(seed, 150)
    born, founded, completed = years(book, "born"), years(book, "founded"), years(book, "completed")
    died = {key: years(book, "died").get(key, 9999) for key in born}
    assert all(40 < died[key] - born[key] <= 95 for key in born if died[key] < 9999)
    assert all(year + 95 > LAST_YEAR for key, year in born.items() if died[key] == 9999)
    for child, parent in related(book, "parent"):
        assert 20 <= born[child] - born[parent] <= 45
        assert born[child] <= died[parent]
        assert book.entities[child].name.split()[-1] == book.entities[parent].name.split()[-1]
    for pupil, teacher in related(book, "student_of"):
        assert 15 <= born[pupil] - born[teacher] <= 50
        assert died[teacher] >= born[pupil] + 22
    for one, other in related(book, "spouse"):
        assert book.facts.values(other, "spouse") == [one]
        assert abs(born[one] - born[other]) <= 12
        assert min(died[one], died[other]) >= max(born[one], born[other]) + 22
    for person, school in related(book, "studied_at"):
        assert founded[school] <= born[person] + 18
    for house, founder in related(book, "founder"):
        assert born[founder] + 25 <= founded[house] <= died[founder]
    for house, city in related(book, "located_in"):
        assert founded[city] < founded[house]
        assert house in book.facts.values(city, "institutions")
    for work, creator in related(book, "creator"):
        assert born[creator] + 20 <= completed[work] <= min(died[creator], LAST_YEAR)
        assert work in book.facts.values(creator, "works")
    for work, house in related(book, "home"):
        assert founded[house] <= completed[work]
        assert book.entities[house].sort == WORDS.genres[book.entities[work].sort][2]
    for work, model in related(book, "based_on"):
        assert completed[model] < completed[work]
        assert book.entities[work].name == book.entities[model].name
        assert book.facts.values(work, "creator") != book.facts.values(model, "creator")
    for event, winner in related(book, "winner"):
        (work,), year = book.facts.values(event, "honoured"), int(book.entities[event].name[-4:])
        assert book.facts.values(work, "creator") == [winner]
        assert completed[work] <= year <= min(died[winner], LAST_YEAR)
        assert founded[book.facts.values(event, "awarded_by")[0]] <= year
    departed = years(book, "departed")
    for event, leader in related(book, "leader"):
        assert born[leader] + 20 <= departed[event] <= died[leader]
    for country, capital in related(book, "capital"):
        assert book.facts.values(capital, "country") == [country]


def test_names_are_shared_but_mentions_and_titles_are_not(book: Encyclopaedia):
    for kind in ("person", "city", "work"):
        names = Counter(book.entities[key].name for key in book.keys(kind))
        assert max(names.values()) > 1, kind  # namesakes: distractors on purpose
    for label in ("mention", "title"):
        assert len({getattr(entity, label) for entity in book.entities.values()}) == len(book.entities)
    assert len({article.passage.title for article in book.articles.values()}) == len(book.articles)


def test_size_and_seed_decide_all():
    one, other = Encyclopaedia(1, 60), Encyclopaedia(1, 60)
    assert one.passages == other.passages
    assert make_questions(one, {"train": 40}) == make_questions(other, {"train": 40})
    assert Encyclopaedia(2, 60).passages != one.passages
    assert 3 * 60 < len(one.articles) < len(Encyclopaedia(1, 120).articles) < 6 * 120
    with pytest.raises(OptionError, match="between 40 and 50,000, got 39"):
        Encyclopaedia(0, 39)


# ------------------------------------------------------------------------------------------- the passages


YEARS = ("born", "died", "founded", "completed", "departed")


class Reader:
    """Reads facts from texts alone: it knows the sentences and the names, not the facts."""

    def __init__(self, book: Encyclopaedia) -> None:
        self.mentions = {entity.mention: entity.key for entity in book.entities.values()}
        self.titles = {entity.title: entity for entity in book.entities.values()}
        self.patterns: dict[str, list[re.Pattern[str]]] = {}
        for kind, parts in WORDS.sentences.items():
            self.patterns[kind] = [self.pattern(wording) for wordings in parts for wording in wordings]

    @staticmethod
    def pattern(wording: str) -> re.Pattern[str]:
        pieces, seen = [], set()
        for piece in re.split(r"(\{\w+\})", wording):
            if not piece.startswith("{"):
                pieces.append(re.escape(piece))
                continue
            slot = piece[1:-1].lower()
            phrase = r"\d{3,4}" if slot in YEARS else ".+?"
            pieces.append(phrase if slot in seen else f"(?P<{slot}>{phrase})")
            seen.add(slot)
        return re.compile("".join(pieces), re.IGNORECASE)

    def value(self, phrase: str) -> str:
        lower = phrase[:1].lower() + phrase[1:]
        return self.mentions.get(phrase) or self.mentions.get(lower) or phrase

    def listed(self, phrase: str) -> list[str]:
        return re.split(r", (?=the )| and (?=the )", phrase)

    def facts(self, title: str, text: str) -> set[WorldFact]:
        subject = self.titles[title.removesuffix(": work and family")]
        kinds = {
            "person": ["career" if title.endswith(": work and family") else "life"],
            "work": ["work", f"work at {WORDS.genres.get(subject.sort, ('', '', ''))[2]}"],
            "event": [subject.sort],
        }.get(subject.kind, [subject.kind])
        found: set[WorldFact] = set()
        for sentence in re.split(r"(?<=\.) ", text):
            if sentence in WORDS.fillers:
                continue
            readings = [
                match
                for kind in kinds
                for pattern in self.patterns[kind]
                if (match := pattern.fullmatch(sentence))
                and (self.value(match["s"]) == subject.key or match["s"].lower() == subject.pronoun)
            ]
            assert len(readings) >= 1, sentence
            for relation, phrase in readings[0].groupdict().items():
                if relation in ("s", "made"):
                    continue
                if relation == "profession":
                    phrase = phrase.split(" ", 1)[1]
                if relation == "works":
                    for work in self.listed(phrase):
                        mention, year = re.fullmatch(r"(.+) \((\d+)\)", work).groups()  # type: ignore[union-attr]
                        key = self.value(mention)
                        found |= {WorldFact(subject.key, "works", key), WorldFact(key, "completed", year)}
                elif relation == "institutions":
                    found |= {WorldFact(subject.key, relation, self.value(one)) for one in self.listed(phrase)}
                else:
                    found.add(WorldFact(subject.key, relation, self.value(phrase)))
        return found


def test_the_texts_state_the_facts_and_no_others(book: Encyclopaedia):
    reader = Reader(book)
    for article in book.articles.values():
        assert reader.facts(article.passage.title, article.passage.text) == set(article.facts), article.passage.text
    stated = {fact for article in book.articles.values() for fact in article.facts}
    every = {
        WorldFact(key, name, v) for key in book.entities for name in ALL_RELATIONS for v in book.facts.values(key, name)
    }
    assert stated == every


ALL_RELATIONS = {
    slot
    for parts in WORDS.sentences.values()
    for wordings in parts
    for wording in wordings
    for slot in re.findall(r"\{(\w+)\}", wording)
} - {"s", "S", "made"}


def test_every_sentence_is_used_in_all_its_wordings():
    book = Encyclopaedia(0, 600)
    text = " ".join(passage.text for passage in book.passages)
    for parts in WORDS.sentences.values():
        for wordings in parts:
            assert len(wordings) >= 3
            for wording in wordings:
                assert re.search(Reader.pattern(wording).pattern, text), wording


# ------------------------------------------------------------------------------------------ the questions


def test_every_question_is_answered_by_its_support_and_has_one_answer(book: Encyclopaedia, tasks: list[Task]):
    assert [fault for task in tasks for fault in faults(task, book)] == []


def test_it_is_so_for_a_reader_of_the_texts_alone(book: Encyclopaedia, tasks: list[Task]):
    reader = Reader(book)
    read = {key: reader.facts(one.passage.title, one.passage.text) for key, one in book.articles.items()}
    everything = Facts(fact for facts in read.values() for fact in sorted(facts, key=lambda fact: repr(fact)))
    for task in tasks:
        support = [passage for part in parts_of(task) for passage in part.support]
        facts = Facts(fact for passage in support for fact in sorted(read[passage], key=lambda fact: repr(fact)))
        for known in (facts, everything):
            (value,) = answer(task.bindings["program"], known)
            assert book.mention(value) in task.communicate[0]


def test_no_part_of_the_support_can_be_left_out(book: Encyclopaedia, tasks: list[Task]):
    for task in tasks:
        if not task.intent.startswith("bridge"):
            continue
        support = list(dict.fromkeys(passage for part in parts_of(task) for passage in part.support))
        for missing in support:
            facts = book.facts_in(passage for passage in support if passage != missing)
            others = [passage for passage in support if passage != missing]
            stated = {fact for passage in others for fact in book.articles[passage].facts}
            needed = set(book.articles[missing].facts) - stated
            assert needed
            if answer(task.bindings["program"], facts):  # only if others say the same of it
                assert set(answer(task.bindings["program"], facts)) == {task.bindings["value"]}


def test_a_fault_is_found(book: Encyclopaedia, tasks: list[Task]):
    task = next(task for task in tasks if task.intent.startswith("bridge") and task.difficulty == 3)
    parts = [msgspec.to_builtins(part) for part in parts_of(task)]
    parts[1]["support"] = []
    broken = msgspec.structs.replace(task, bindings={**task.bindings, "parts": parts})
    assert any("its supporting passages give no answer" in fault for fault in faults(broken, book))
    wrong = msgspec.structs.replace(task, communicate=(("somebody else",),))
    assert any("accepts" in fault for fault in faults(wrong, book))


def test_kinds_and_hops_are_all_there(tasks: list[Task]):
    kinds: dict[str, Counter[int]] = defaultdict(Counter)
    for task in tasks:
        kinds[task.intent.split("-")[0]][task.difficulty] += 1
    assert set(kinds) == {"bridge", "comparison", "intersection", "count"}
    assert all(kinds["bridge"][hops] >= 15 for hops in range(1, 6)), kinds
    assert all(sum(found.values()) >= 15 for found in kinds.values()), kinds
    levels = Counter(task.difficulty for task in tasks if task.split == "train")
    assert set(levels.values()) == {100}
    for task in tasks:
        assert task.difficulty == min(5, len(parts_of(task)))


def test_counts_are_not_always_the_same(tasks: list[Task]):
    counts = Counter(task.communicate[0][0] for task in tasks if task.intent.startswith("count"))
    assert len(counts) >= 3
    assert max(counts.values()) < 0.7 * sum(counts.values())


def test_splits_share_no_instance(tasks: list[Task]):
    kinds = {
        split: {task.intent for task in tasks if task.split == split} for split in ("train", "test", "test_intents")
    }
    assert not kinds["test_intents"] & (kinds["train"] | kinds["test"])
    programs = Counter(repr(task.bindings["program"]) for task in tasks)
    assert max(programs.values()) == 1
    assert len({task.instruction for task in tasks}) == len(tasks)


def test_parts_follow_one_another(book: Encyclopaedia, tasks: list[Task]):
    for task in tasks:
        parts = parts_of(task)
        assert parts[-1].answer in task.communicate[0] or parts[-1].answer == book.mention(task.bindings["value"])
        for position, part in enumerate(parts):
            assert all(0 <= needed < position for needed in part.needs)
            assert part.answer not in part.wrong
            assert bool(part.support) == (part.subject is None)
        whole = problem_of(task)
        assert (whole.subject, len(whole.steps)) == ("search", len(parts))


def test_sub_questions_are_found_by_their_words(tasks: list[Task]):
    count = hit = 0
    for task in tasks:
        for position, part in enumerate(parts_of(task)):
            if task.difficulty > 1:
                count += 1
                hit += find_part(task, part.question) == position
    assert hit > 0.97 * count


def test_the_reference_searches_find_the_support(source: MultiHopQASource, tasks: list[Task]):
    search = source.world(tasks[0]).tools["search"]
    assert isinstance(search, LocalSearch)
    wanted = missed = 0
    for task in tasks:
        found = set()
        for call in task.reference_calls:
            result = search.run(search.decode(msgspec.json.encode(call.arguments)), NO_CONTEXT)
            found |= {hit["id"] for query in result.value for hit in query["passages"]}
        support = {passage for part in parts_of(task) for passage in part.support}
        wanted += len(support)
        missed += len(support - found)
    assert missed < 0.01 * wanted


def test_sizes_must_make_sense():
    with pytest.raises(OptionError, match="at least 0"):
        MultiHopQASource(people=40, train=-1)
    small = MultiHopQASource(people=40, train=50, test=10, test_intents=5)
    assert len(small.tasks("train")) >= 40
