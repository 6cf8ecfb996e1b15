from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.messages.token_counts import json_size, message_size, text_size, tokens_of, written_size


@given(st.text(max_size=30))
def test_a_token_is_four_bytes_or_what_is_left_of_them(text: str) -> None:
    assert text_size(text) == len(text.encode())
    assert 4 * (tokens_of(text_size(text)) - 1) < text_size(text) <= 4 * tokens_of(text_size(text))


def test_no_text_has_no_tokens() -> None:
    assert tokens_of(text_size("")) == 0


def test_a_lone_surrogate_is_counted_as_it_is_recorded() -> None:
    assert text_size("a\ud800") == 2


def test_white_space_around_a_text_counts_when_there_is_more_of_it_than_of_the_text() -> None:
    assert written_size("\n7 apples\n") == written_size("7 apples") == 8
    assert written_size("7" + 100_000 * " ") == 100_000


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc é", max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text("abcé", min_size=1), values, max_size=4))
def test_json_has_the_same_size_however_it_is_laid_out_and_escaped(arguments: dict[str, object]) -> None:
    shortest = msgspec.json.encode(arguments)
    for written in (
        json.dumps(arguments),
        json.dumps(arguments, ensure_ascii=False),
        json.dumps(arguments, ensure_ascii=False, separators=(",", ":")),
    ):
        assert json_size(written.replace("\\u007f", "\x7f").encode()) == json_size(shortest)


@pytest.mark.parametrize("text", ['{"a": "\\\\u00e9"}', '{"a": "\\\\\\\\u00e9"}'])
def test_a_backslash_before_a_u_need_not_begin_an_escaped_character(text: str) -> None:
    assert json_size(text.encode()) == len(text) - 1


def test_white_space_that_lays_out_calls_has_no_size_but_that_of_the_text_has() -> None:
    call = '<tool_call>{"name":"stop"}</tool_call>'
    assert message_size(call, "") == message_size(f"\n{call}\n", "\n\n") == len(call)
    assert message_size(f"One moment. {call}", "One moment. ") == len("One moment.") + len(call)
    assert message_size(call + 1_000 * " ", 1_000 * " ") == 1_000
