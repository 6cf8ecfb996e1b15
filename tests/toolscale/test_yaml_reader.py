from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.common.yaml_reader import convert, dump_yaml, parse_yaml
from toolorchestra.toolscale.database.format import TableSpec

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=8,
)


@given(VALUES)
@example({"a": "one\x85two\n", "b": "\u2028\n", "c": "a\r\nb", "d": "yes", "e": "1e5", "f": "2025-07-23", "g": "<<"})
@example({"a": " lead\nx", "b": "trail \nx", "c": "\n", "d": "\n\n x\n\n", "e": "\ttab\n", "f": "null", "g": "0o7"})
def test_what_is_written_reads_back_as_the_same(value: Any) -> None:
    assert parse_yaml(dump_yaml(value), strict=True) == value


def test_words_dates_times_and_codes_stay_text_and_only_true_and_false_are_booleans() -> None:
    found = parse_yaml("[yes, no, on, Off, true, False, 2025-07-23, ~, 12:30, 0451, 1e3, 1.5, -2, 1.5e3, =]")
    assert found == [
        "yes",
        "no",
        "on",
        "Off",
        True,
        False,
        "2025-07-23",
        None,
        "12:30",
        "0451",
        "1e3",
        1.5,
        -2,
        1500.0,
        "=",
    ]


def test_files_of_a_person_may_use_anchors_and_strangers_may_not() -> None:
    text = "a: &row {x: 1}\nb: *row"
    assert parse_yaml(text) == {"a": {"x": 1}, "b": {"x": 1}}
    with pytest.raises(DomainError, match="Line 1: expected plain data, found an anchor or alias"):
        parse_yaml(text, strict=True)


def test_a_wrong_value_is_named_by_its_place() -> None:
    with pytest.raises(DomainError, match=r"^world\.tables\.a\.columns\.b\.type: Expected one of 'TEXT'"):
        convert({"a": {"columns": {"b": {"type": "BLOB"}}, "primary_key": "b"}}, dict[str, TableSpec], "world.tables")


def test_threads_may_use_a_type_for_the_first_time_at_once() -> None:
    code = """
import os, sys, threading
from toolorchestra.toolscale.database.format import ToolSpec
from toolorchestra.toolscale.common.yaml_reader import convert

def use():
    together.wait()
    convert({"description": "x", "guards": [{"require": "1", "error": "e"}], "statements": ["x"]}, ToolSpec)

for _ in range(100):
    if (child := os.fork()) == 0:
        sys.setswitchinterval(1e-6)
        together = threading.Barrier(4)
        threads = [threading.Thread(target=use) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
