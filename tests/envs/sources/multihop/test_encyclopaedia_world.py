"""The world agrees with itself: dates, families, and names that only titles tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia
from toolorchestra.envs.encyclopaedia.world import LAST_YEAR


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
        assert book.entities[house].sort == book.words.book.genres[book.entities[work].sort][2]
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
