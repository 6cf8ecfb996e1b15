"""Text of others: what a terminal or viewer would obey is written out, and nothing else changes."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.common.visible import visible


def test_what_would_be_obeyed_is_written_out() -> None:
    osc = "\x1b]52;c;cm0=\x07"  # writes to the clipboard
    assert visible(osc) == r"\u001b]52;c;cm0=\u0007"
    assert visible("\x9b2J\x7f\x90q\x9c") == r"\u009b2J\u007f\u0090q\u009c"
    assert visible("a\u202eb\u2066c\u200e\u061c\u2028") == r"a\u202eb\u2066c\u200e\u061c\u2028"
    assert visible("over\rwritten\b") == r"over\rwritten\b"
    assert visible("\ud800") == r"\ud800"


@pytest.mark.parametrize("text", ["plain", "a\tb\nc\r\nd", "飲み物 ☃ Crème", "👩\u200d🔬", "שלום", r"\u001b"])
def test_what_is_only_shown_stays(text: str) -> None:
    assert visible(text) == text


@given(st.text())
def test_nothing_invisible_is_left(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in shown if letter not in "\t\n\r")
    assert not any(unicodedata.bidirectional(letter) in ("LRE", "RLE", "LRO", "RLO", "PDF") for letter in shown)
    assert visible(shown) == shown


@given(st.text())
def test_json_stays_the_same_json(text: str) -> None:
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text
