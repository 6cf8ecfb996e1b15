"""The words of the encyclopaedia and of its questions fit together."""

from __future__ import annotations

import itertools
import re

import pytest

from toolorchestra.envs.encyclopaedia.words import FIRST, RELATIONS, SECOND, WorldWords, relations_of

WORLDS = pytest.mark.parametrize("words", [FIRST, SECOND])


def test_relations_are_found_by_the_kinds_of_their_subjects():
    assert relations_of("city") == ["founded", "country", "river"]  # `founded` is of institutions too
    assert relations_of("institution") == ["located_in", "founded", "founder"]
    assert relations_of("year") == []


@WORLDS
def test_every_phrase_and_question_names_its_subject_and_only_slots_that_are_filled(words: WorldWords):
    assert words.questions.relations.keys() == RELATIONS.keys()
    for name, relation in words.questions.relations.items():
        assert (relation.kind, relation.target) == (RELATIONS[name].kind, RELATIONS[name].target)
        slots = {"x"} | ({"maker", "made"} if name == "creator" else {"home"} if name == "home" else set())
        for wording in (*relation.phrases, *relation.asks):
            found = set(re.findall(r"\{(\w+)\}", wording))
            assert "x" in found, wording
            assert found <= slots, wording
        assert len(relation.asks) >= 2, name
        assert bool(relation.phrases) == (relation.target not in ("year", "word")), name


@WORLDS
def test_every_genre_has_a_maker_a_verb_and_a_home_that_has_words(words: WorldWords):
    for genre, (_, _, house) in words.book.genres.items():
        assert house in words.questions.homes, genre
        assert house in words.questions.housed, genre
        assert f"work at {house}" in words.book.sentences, genre


@WORLDS
def test_relations_in_a_row_that_have_one_wording_lead_from_one_to_the_next(words: WorldWords):
    assert words.elided.keys() == FIRST.elided.keys()
    for path, wording in words.elided.items():
        for one, following in itertools.pairwise(path):
            assert RELATIONS[one].target in RELATIONS[following].kind.split(), path
        assert wording.phrases or RELATIONS[path[-1]].target in ("year", "word"), path
        for text in (*wording.phrases, *wording.asks):
            assert set(re.findall(r"\{(\w+)\}", text)) in ({"x"}, {"x", "housed"}), text
