from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest

from examples.exchange import main as exchange
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.task import read_tasks


def test_tasks_go_out_and_come_back_to_be_played(
    mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exchange(["export", str(mini_folder), str(tmp_path / "theirs.json"), "--split", "train"]) == 0
    count = len(load_domain(mini_folder).tasks("train"))
    assert f"{count} tasks of mini written to" in capsys.readouterr().out
    assert exchange(["import", str(tmp_path / "theirs.json"), str(mini_folder), "--out", str(tmp_path / "mine")]) == 0
    assert f"{count} tasks (train {count}) fit mini" in capsys.readouterr().out
    domain = load_domain(tmp_path / "mine")
    assert domain.tasks() == load_domain(mini_folder).tasks("train")
    env = gym.make("ToolOrchestra-Custom-v0", domain=str(tmp_path / "mine"))
    env.reset(seed=1)
    env.close()


def test_imported_tasks_may_be_one_file(mini_folder: Path, tmp_path: Path) -> None:
    assert exchange(["export", str(mini_folder), str(tmp_path / "theirs"), "--format", "datasets"]) == 0
    out = tmp_path / "mine" / "tasks.jsonl"
    assert exchange(["import", str(tmp_path / "theirs"), str(mini_folder), "--out", str(out)]) == 0
    assert len(read_tasks(out)) == len(load_domain(mini_folder).tasks())


def test_a_file_of_generated_tasks_is_exported_as_well(
    mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exchange(["export", str(mini_folder), str(tmp_path / "some.jsonl"), "--split", "test"]) == 0
    command = ["export", str(mini_folder), str(tmp_path / "again.json"), "--tasks", str(tmp_path / "some.jsonl")]
    assert exchange(command) == 0
    assert len(json.loads((tmp_path / "again.json").read_text())) == len(load_domain(mini_folder).tasks("test"))
    assert exchange([*command, "--split", "test_intents"]) == 2
    assert "There is no task to export." in capsys.readouterr().err


def test_a_folder_with_a_domain_is_left_alone(
    mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exchange(["export", str(mini_folder), str(tmp_path / "theirs.json")]) == 0
    assert exchange(["import", str(tmp_path / "theirs.json"), str(mini_folder), "--out", str(mini_folder)]) == 2
    assert "holds a domain already" in capsys.readouterr().err


def test_what_does_not_fit_is_reported(mini_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "theirs.json"
    assert exchange(["export", str(mini_folder), str(file)]) == 0
    file.write_text(file.read_text().replace('"name": "get_order"', '"name": "fetch_order"'))
    assert exchange(["import", str(file), str(mini_folder), "--out", str(tmp_path / "mine")]) == 2
    assert "Unknown tool 'fetch_order'" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
