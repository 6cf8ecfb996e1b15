"""Files with JSON that is nested deeply end in an error that names them, whatever reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

from examples.baselines.routing import EvaluationBank
from toolorchestra.agents.policies.human import _typed
from toolorchestra.cli.main import main
from toolorchestra.envs.judge.model_judge import read_reply
from toolorchestra.envs.starts import json_or_text
from toolorchestra.toolscale.common.append_only import AppendingError, read_appended
from toolorchestra.toolscale.common.errors import DomainError, OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl
from toolorchestra.toolscale.common.yaml_reader import parse_yaml
from toolorchestra.toolscale.database.format import ParameterSpec

DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of one line, nested deeply."""
    path = tmp_path / "deep.jsonl"
    path.write_text(DEEP + "\n")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("show", "--list"),
        ("show", "--json"),
        ("synth", "select"),
        ("rollout", "--env", "ToolOrchestra-Custom-v0", "--episodes", "1", "--env-options", "tasks"),
    ],
)
def test_commands(file: Path, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, str(file)]) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert len(printed.err) < 2_000


def test_an_episode_with_a_deep_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env: Any = gym.make("ToolOrchestra-Restaurant-v0")
    env.reset(seed=0)
    env.step("No.")
    record = json.loads(msgspec.json.encode(env.unwrapped.episode))
    file = tmp_path / "episodes.jsonl"
    for depth in (10, 300, 600, *range(900, 1_000, 5), 5_000):
        file.write_text(json.dumps(record).replace('"content":', '"x":' + "[" * depth + "]" * depth + ',"content":', 1))
        assert main(["show", str(file)]) in ((0, 2) if depth > 100 else (0,))
    assert "Traceback" not in capsys.readouterr().err


def test_readers(file: Path) -> None:
    with pytest.raises(OptionError, match=r"deep\.jsonl:1: expected a thing"):
        list(read_jsonl(file, dict[str, Any], "a thing"))
    with pytest.raises(AppendingError, match="line 1"):
        read_appended(file, dict[str, Any], "a thing")
    with pytest.raises(OptionError, match="expected the JSON list"):
        EvaluationBank.load(file.rename(file.with_suffix(".json")))
    with pytest.raises(DomainError):
        parse_yaml("[" * 5_000)
    assert json_or_text(DEEP) == DEEP
    assert _typed(DEEP, ParameterSpec(type="object", description="")) == DEEP
    assert read_reply('{"1": ' + "[" * 3_000 + "]}", (0,)) is None
