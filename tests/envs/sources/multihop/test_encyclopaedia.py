"""The articles state the facts and no others, in all wordings, and follow from seed and size."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia
from toolorchestra.envs.encyclopaedia.words import FIRST, SECOND, WorldWords
from toolorchestra.envs.encyclopaedia.world import WorldFact
from toolorchestra.envs.sources.multihop.source import make_questions
from toolorchestra.toolscale.common.errors import OptionError

ALL_RELATIONS = {
    slot
    for parts in FIRST.book.sentences.values()
    for wordings in parts
    for wording in wordings
    for slot in re.findall(r"\{(\w+)\}", wording)
} - {"s", "S", "made"}


def test_size_and_seed_decide_all():
    one, other = Encyclopaedia(1, 60), Encyclopaedia(1, 60)
    assert one.passages == other.passages
    assert make_questions(one, {"train": 40}) == make_questions(other, {"train": 40})
    assert Encyclopaedia(2, 60).passages != one.passages
    assert 3 * 60 < len(one.articles) < len(Encyclopaedia(1, 120).articles) < 6 * 120
    with pytest.raises(OptionError, match="between 40 and 50,000, got 39"):
        Encyclopaedia(0, 39)


def test_the_texts_state_the_facts_and_no_others(book: Encyclopaedia, reader: Any):
    for article in book.articles.values():
        assert reader.facts(article.passage.title, article.passage.text) == set(article.facts), article.passage.text
    stated = {fact for article in book.articles.values() for fact in article.facts}
    every = {
        WorldFact(key, name, v) for key in book.entities for name in ALL_RELATIONS for v in book.facts.values(key, name)
    }
    assert stated == every


@pytest.mark.parametrize("words", [FIRST, SECOND])
@pytest.mark.parametrize("book", ["first"], indirect=True)
def test_every_sentence_is_used_in_all_its_wordings(words: WorldWords, reader: Any):
    book = Encyclopaedia(0, 600, words)
    text = " ".join(passage.text for passage in book.passages)
    for parts in words.book.sentences.values():
        for wordings in parts:
            assert len(wordings) >= 3
            for wording in wordings:
                assert re.search(reader.pattern(wording).pattern, text), wording
