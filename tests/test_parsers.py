"""No parser takes more than linear time in what a model writes. `benchmarks/parsers.py` tries longer texts and more."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.long  # ratios of processor time, for an idle machine: what benchmarks/parsers.py measures
FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The benchmark script as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        return importlib.import_module("parsers")


def test_time_is_linear_in_the_length_of_hostile_texts(script: ModuleType) -> None:
    found = script.attack(sizes=[(4_096, 16_384)], every=15, start=3)
    assert found.tried > 300
    assert found.faults == []


@pytest.mark.parametrize(
    ("parser", "unit"),
    [
        ("message: parse", "<tool_call>"),
        ("message: result", "<tool_response>"),
        ("sub-agent: answer", "<think>"),
        ("grader: 5", "<answer>"),
        ("design: questions", "? "),
        ("design: questions", "Note: verify "),
        ("design: questions listed", "the number of x that "),
        ("design: renderer", "<agent>"),
        ("design: renderer", "<agent><agent_id>"),
        ("design: renderer", "<from>a</from><to>"),
        ("judge: repeat_dinner_without_chef", "I booked one hundred and "),
    ],
)
def test_what_took_quadratic_time_is_linear(script: ModuleType, parser: str, unit: str) -> None:
    short, long = ((unit * size)[:size] for size in (16_384, 65_536))
    _, fault = script.fault_of(script.parsers()[parser], short, long)
    assert fault is None


def test_a_quadratic_parser_is_found(script: ModuleType) -> None:
    import re

    _, fault = script.fault_of(re.compile("<a>.*?</a>").findall, "<a>" * 1_000, "<a>" * 4_000)
    assert fault is not None
    assert "per KB" in fault
