"""The command that searches for workflows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.searches.__main__ import main
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.parser import parse_design


def test_a_search_is_recorded_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, record = tmp_path / "best.txt", tmp_path / "search.jsonl"
    command = ["--method", "tree", "--questions", "4", "--model", "qwen2.5-7b"]
    command += ["--out", str(record), "--best", str(found)]
    assert main([*command, "--candidates", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"] == 3
    assert main([*command, "--candidates", "5"]) == 0
    assert "best of 5 workflows" in capsys.readouterr().out
    assert isinstance(parse_design(found.read_text()), Design)
    assert len(record.read_text().splitlines()) == 6
    assert main([*command, "--candidates", "5", "--seed", "1"]) == 2
    assert "another search" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["aflow", "gptswarm"])
def test_the_searches_are_on_any_source(method: str, tmp_path: Path) -> None:
    command = ["--source", "MASBenchDepth", "--questions", "3", "--candidates", "4", "--json"]
    assert main([*command, "--method", method, "--out", str(tmp_path / "search.jsonl")]) == 0


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "search.jsonl"
    assert main(["--candidates", "1", "--questions", "1", "--out", str(out)]) == 4
    told = f"error: {out} cannot be written: {tmp_path / 'file'} is a file, not a folder. Give another path.\n"
    assert capsys.readouterr().err == told
