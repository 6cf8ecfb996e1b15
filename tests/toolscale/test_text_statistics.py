"""Figures of texts: worked by hand on a few, and read from files of other benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.export.domain_card import BESIDE, statistics_page
from toolorchestra.toolscale.export.domain_statistics import statistics
from toolorchestra.toolscale.export.text_statistics import (
    TextStatistics,
    read_requests,
    reading_ease,
    segment_share,
    text_figures,
    text_statistics,
    trigrams,
)

TAU2 = {
    "user_scenario": {
        "instructions": {"reason_for_call": "You want tea.", "known_info": "You are Ada.", "domain": "retail"}
    }
}


def test_figures_are_those_worked_by_hand() -> None:
    found = text_statistics("some", ["Pay order T4001 now.", "Pay order 5 now."])
    assert (found.texts, found.words, found.id_shaped) == (2, 4, 0.5)
    assert found.type_token_1000 == 5 / 8
    assert found.nearest == 3 / 5


def test_trigrams_are_sequences_of_three_words() -> None:
    assert trigrams(["a", "b", "c", "d"]) == [("a", "b", "c"), ("b", "c", "d")]
    assert trigrams(["a", "b"]) == []
    assert segment_share([["a", "b", "c"], ["a", "b", "c"]], 3) == 3 / 4  # abc bca cab abc
    assert segment_share([[]], 3) == 0


def test_short_sentences_of_short_words_read_easily() -> None:
    # 4 words in 2 sentences, 4 syllables; 1 sentence of 3 words with 15 syllables
    assert reading_ease("Pay it. Do so.") == pytest.approx(206.835 - 1.015 * 2 - 84.6)
    hard = "Reconsider extraordinary impossibilities"
    assert reading_ease(hard) == pytest.approx(206.835 - 1.015 * 3 - 84.6 * 15 / 3)
    assert reading_ease("12 34") == 206.835


@pytest.mark.parametrize(
    ("text", "shaped"),
    [
        ("order #W2378156", 1),
        ("ticket T4001.", 1),
        ("yusuf_rossi_9620 asks", 1),
        ("item 1656367028", 1),
        ("July 23, 2025", 0),
        ("$123,456 or 123456.50 dollars", 0),
        ("the iPhone5 at 18:30", 0),
    ],
)
def test_words_shaped_like_ids(text: str, shaped: float) -> None:
    assert text_statistics("one", [text]).id_shaped == shaped


@pytest.mark.parametrize(
    "content",
    [json.dumps([{"instruction": "Make tea."}, TAU2]), '{"instruction": "Make tea."}\n\n' + json.dumps(TAU2) + "\n"],
)
def test_requests_are_read_from_json_and_from_json_lines(tmp_path: Path, content: str) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(content)
    assert read_requests(file) == ["Make tea.", "You want tea.\nYou are Ada."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "entry 1: expected an object with an `instruction`"),
        ('[{"instruction": " "}]', "entry 1: expected an object with an `instruction`"),
        ('{"user_scenario": {"instructions": 3}}', "entry 1: expected an object"),
        ("[]", "holds no request"),
        ("", "holds no request"),
        ("tea", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
    ],
)
def test_what_is_no_file_of_requests_is_refused(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(content)
    with pytest.raises(OptionError, match=message):
        read_requests(file)


def test_a_missing_or_huge_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="cannot be read"):
        read_requests(tmp_path / "none.json")
    monkeypatch.setattr("toolorchestra.toolscale.export.text_statistics.MAX_BYTES", 3)
    (tmp_path / "big.json").write_text('[{"instruction": "x"}]')
    with pytest.raises(OptionError, match="larger than 3 bytes"):
        read_requests(tmp_path / "big.json")


def test_no_text_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one text of none"):
        text_statistics("none", [])


def test_the_page_puts_other_requests_beside_ours(mini: Any) -> None:
    ours = text_statistics("mini", [task.instruction for task in mini.tasks()])
    recorded = msgspec.json.decode(BESIDE.read_bytes(), type=list[TextStatistics])
    page = statistics_page([statistics(mini)], [ours])
    assert [one.name for one in recorded] == ["τ²-bench retail"]
    assert "|  | mini | τ²-bench retail |" in page
    for name, value in text_figures(ours).items():
        assert f"| {name} | {value} | {text_figures(recorded[0])[name]} |" in page
    assert "|  | mini | other |" in statistics_page(
        [statistics(mini)], [ours], [msgspec.structs.replace(ours, name="other")]
    )
