from __future__ import annotations

from pathlib import Path

import pytest

from toolorchestra.cli.main import main
from toolorchestra.toolscale.tasks.task import read_tasks


def test_synth_tasks_writes_a_file_of_tasks_that_can_be_listed(
    mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tasks.jsonl"
    assert main(["synth", "tasks", str(mini_folder), "--count", "120", "--out", str(file), "--workers", "1"]) == 0
    output = capsys.readouterr().out
    assert "120 verified tasks" in output
    assert "evolved: constraint" in output
    assert len(read_tasks(file)) == 120


def test_synth_tasks_refuses_what_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", "tasks", "restorant", "--out", str(tmp_path / "x")]) == 2
    assert "Did you mean 'restaurant'?" in capsys.readouterr().err
