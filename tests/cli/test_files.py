from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.exchange import main as exchange
from toolorchestra.cli.files import print_json, read_recorded, with_folder
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import read_tasks

Run = Callable[..., Any]


def test_a_folder_is_made_for_a_file(tmp_path: Path):
    file = tmp_path / "new" / "folder" / "text.txt"
    assert with_folder(file) == file
    file.touch()


def test_json_is_printed_with_indentation(capsys: pytest.CaptureFixture[str]):
    assert print_json({"a": [1], "b": None}) == 0
    assert capsys.readouterr().out == '{\n  "a": [\n    1\n  ],\n  "b": null\n}\n'


def test_a_file_without_episodes_is_refused(tmp_path: Path):
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    with pytest.raises(OptionError, match="holds no episode"):
        read_recorded(empty)
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        read_recorded(tmp_path / "none.jsonl")


# every command that writes a file makes its folder


def test_experts_ask_and_fit_write_into_new_folders(run: Run, tmp_path: Path):
    answers, entry = tmp_path / "asked" / "answers.jsonl", tmp_path / "fitted" / "here" / "entry.yaml"
    assert run("experts", "ask", "qwen3-8b", "--count", 140, "--out", answers).code == 0
    assert run("experts", "fit", answers, "--name", "qwen3-8b", "--out", entry).code == 0
    assert entry.read_text(encoding="utf-8").startswith("experts:\n  qwen3-8b:\n")


def test_what_is_played_is_recorded_in_a_new_folder(
    run: Run, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "new" / "mine.jsonl"
    lines = iter(["answer Nothing.", "12", "n", "n"])
    monkeypatch.setattr("builtins.input", lambda question="": next(lines))
    assert run("play", folder, "--record", file).code == 0
    (episode,) = read_episodes(file)
    assert episode.outcome == "failed"


def test_tasks_are_written_into_new_folders(run: Run, folder: str, tmp_path: Path):
    made, out, back = (tmp_path / name / "tasks.jsonl" for name in ("made", "out", "back"))
    assert run("synth", "masbench", "--depth", 2, "--count", 2, "--out", made).code == 0
    assert len(read_tasks(made)) == 2
    assert exchange(["export", folder, str(out)]) == 0
    assert exchange(["import", str(out), folder, "--out", str(back)]) == 0
    assert read_tasks(back) == read_tasks(out)


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_played(run: Run, folder: str, tmp_path: Path):
    (tmp_path / "file").touch()
    output = run("play", folder, "--record", tmp_path / "file" / "x.jsonl")
    assert output.code == 4
    problem = f"{tmp_path / 'file' / 'x.jsonl'} cannot be written: {tmp_path / 'file'} is a file, not a folder."
    assert output.err == f"error: {problem} Give another path.\n"
    assert output.out == ""
