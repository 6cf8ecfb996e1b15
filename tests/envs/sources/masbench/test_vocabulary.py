"""The vocabulary is large, and every word of it can be read off a sentence."""

from __future__ import annotations

import re

from toolorchestra.envs.sources.masbench.vocabulary import knowledge, vocabulary


def test_there_are_enough_hierarchies_and_names():
    hierarchies = vocabulary().hierarchies
    assert len(hierarchies) >= 40
    assert sum(len(names) for hierarchy in hierarchies for names in hierarchy.values()) >= 2_000
    assert all(len(hierarchy) == 4 for hierarchy in hierarchies)


def test_a_name_stands_in_one_category_only():
    hierarchies = vocabulary().hierarchies
    names = [name for hierarchy in hierarchies for level in hierarchy.values() for name in level]
    categories = [category for hierarchy in hierarchies for category in hierarchy]
    assert len(set(names)) == len(names)
    assert len(set(categories)) == len(categories)
    assert not set(names) & set(categories)


def test_no_name_has_words_of_the_sentences():
    words = r"\b(and|each|equals|more|times|sum|difference|does|have|that|has|is)\b"
    for name in [*knowledge().category, *knowledge().category.values()]:
        assert re.fullmatch(r"[A-Z][A-Za-z-]*( [A-Za-z-]+)*", name)
        assert not re.search(words, name)


def test_a_reader_knows_the_category_of_a_name_and_the_one_above():
    known = knowledge()
    assert known.category["Ketch"] == "Vessel"
    assert known.above["Vessel"] == "Harbour"
    assert "Harbour" not in known.above


def test_needles_have_words_enough():
    needles = vocabulary().needles
    for words in (needles.first, needles.second):
        assert len(set(words)) == len(words) >= 64
        assert all(re.fullmatch("[a-z]+", word) for word in words)
