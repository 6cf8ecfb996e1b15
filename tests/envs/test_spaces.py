from __future__ import annotations

import copy
import pickle

import pytest
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from hypothesis import given, strategies as st

from toolorchestra.envs.spaces import UnicodeText


@given(st.text(max_size=50))
def test_any_text_that_fits_is_in_the_space(text: str) -> None:
    assert UnicodeText(50).contains(text)
    assert text in UnicodeText(50)


@pytest.mark.parametrize("thing", ["x" * 51, "\ud800", 3, None, b"x", ["x"]])
def test_nothing_else_is(thing: object) -> None:
    assert not UnicodeText(50).contains(thing)


def test_samples_are_in_the_space_and_follow_the_seed() -> None:
    one, other = UnicodeText(50, seed=3), UnicodeText(50)
    other.seed(3)
    samples = [one.sample() for _ in range(20)]
    assert samples == [other.sample() for _ in range(20)]
    assert all(one.contains(sample) for sample in samples)
    assert len(set(samples)) > 10


def test_a_space_survives_copying_and_pickling() -> None:
    space = UnicodeText(50, seed=3)
    space.sample()
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space)), copy.copy(space)):
        assert twin == space
        assert twin.contains("飲み物")
        assert repr(twin) == "UnicodeText(50)"
    twin = pickle.loads(pickle.dumps(space))
    assert twin.sample() == space.sample()


def test_spaces_are_equal_by_length() -> None:
    assert UnicodeText(50) == UnicodeText(50)
    assert UnicodeText(50) != UnicodeText(51)
    assert UnicodeText(50) != "UnicodeText(50)"


@given(st.lists(st.text(max_size=9), min_size=1, max_size=4))
def test_texts_survive_shared_memory(texts: list[str]) -> None:
    space = UnicodeText(9)
    memory = create_shared_memory(space, n=len(texts))
    for _ in range(2):
        for index, text in enumerate(texts):
            write_to_shared_memory(space, index, text, memory)
        read = read_from_shared_memory(space, memory, n=len(texts))
        assert list(read) == texts
        assert copy.deepcopy(read) == tuple(texts)
        texts = texts[::-1]
