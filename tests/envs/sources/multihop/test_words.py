"""The words of the encyclopaedia and of its questions fit together."""

from __future__ import annotations

import re

from toolorchestra.envs.sources.multihop.words import QUESTION_WORDS, WORDS, relations_of


def test_relations_are_found_by_the_kinds_of_their_subjects():
    assert relations_of("city") == ["founded", "country", "river"]  # `founded` is of institutions too
    assert relations_of("institution") == ["located_in", "founded", "founder"]
    assert relations_of("year") == []


def test_every_phrase_and_question_names_its_subject_and_only_slots_that_are_filled():
    for name, relation in QUESTION_WORDS.relations.items():
        slots = {"x"} | ({"maker", "made"} if name == "creator" else {"home"} if name == "home" else set())
        for wording in (*relation.phrases, *relation.asks):
            found = set(re.findall(r"\{(\w+)\}", wording))
            assert "x" in found, wording
            assert found <= slots, wording
        assert len(relation.asks) >= 2, name
        assert bool(relation.phrases) == (relation.target not in ("year", "word")), name


def test_every_genre_has_a_maker_a_verb_and_a_home_that_has_words():
    for genre, words in WORDS.genres.items():
        _, _, house = words
        assert house in QUESTION_WORDS.homes, genre
        assert f"work at {house}" in WORDS.sentences, genre
