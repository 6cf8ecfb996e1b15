"""Public data sets are named as sources on the command line and in training, with the files to read."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.cli.main import main
from toolorchestra.envs.ground_truth.known_answers import KnownAnswersWarning
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.task_source import make_source
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = [{"question": f"How much is {n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}"} for n in range(20)]
    found = tmp_path / "rows.jsonl"
    found.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return found


def test_tasks_of_a_named_set_are_listed(file: Path, capsys: pytest.CaptureFixture[str]):
    options = ["--source", "gsm8k", "--source-options", "files", str(file), "limit", "3"]
    assert main(["envs", "ToolOrchestra-Custom-v0", *options, "--json"]) == 0
    assert [task["id"] for task in json.loads(capsys.readouterr().out)] == [f"gsm8k/test/{n}" for n in range(3)]


@pytest.mark.parametrize("env", ["ToolOrchestra-Custom-v0", "MSARL-Custom-v0", "TMATR-Custom-v0"])
def test_episodes_of_a_named_set_are_played(env: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out.jsonl"
    command = ["rollout", env, "--source", "gsm8k", "--source-options", "files", str(file), "--policy", "null"]
    assert main([*command, "--episodes", "2", "--out", str(out)]) == 0
    episodes = [json.loads(line) for line in out.read_text().splitlines()]
    assert all(episode["task_id"].startswith("gsm8k/test/") for episode in episodes)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["ToolOrchestra-Math-v0", "--source", "gsm8k"], "expected an id like ToolOrchestra-Custom-v0"),
        (["ToolOrchestra-Custom-v0", "--source", "gsm9k"], "Did you mean 'gsm8k'"),
        (["ToolOrchestra-Custom-v0", "--source-options", "limit", "3"], "need its name"),
        (["ToolOrchestra-Custom-v0", "--source", "gsm8k", "--source-options", "size", "3"], "It takes files, limit"),
        (["ToolOrchestra-Custom-v0", "--source", "gsm8k", "--source-options", "limit", "few"], "Expected `int | null`"),
        (["ToolOrchestra-Custom-v0", "--source", "Math", "--source-options", "limit", "3"], "takes no options"),
    ],
)
def test_what_is_wrong_with_a_source_is_said(given: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(["envs", *given]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_names_of_sources_work_in_python_too():
    assert make_source("Math").name == "Math"
    env = make_multiagent("MSARL-Custom-v0", source="Math")
    assert env.source.name == "Math"
    with pytest.raises(UnknownNameError, match="Did you mean 'hotpotqa'"):
        gym.make("ToolOrchestra-Custom-v0", source="hotpotq")


def test_simulated_experts_warn_that_they_know_the_answers(file: Path, tmp_path: Path):
    command = ["rollout", "ParaManager-Custom-v0", "--source", "gsm8k", "--source-options", "files", str(file)]
    command += ["--policy", "null", "--episodes", "1", "--out"]
    with pytest.warns(KnownAnswersWarning, match="Of the questions of gsm8k only the answers are known"):
        main([*command, str(tmp_path / "a.jsonl")])
    assert main([*command, str(tmp_path / "b.jsonl"), "--env-options", "known_answers", "true"]) == 0


def test_learners_take_a_named_set(file: Path, tmp_path: Path):
    pytest.importorskip("trl", reason="comes with the extra `train`")
    from toolorchestra.algos import grpo, msarl, sft, tmatr

    given = {"source": "gsm8k", "source_options": {"files": str(file), "held_out": "0.25"}, "output": tmp_path}
    for config in (
        grpo.TrainGRPO(env="ParaManager-Custom-v0", model="org/model", **given),
        sft.TrainSFT(env="ToolOrchestra-Custom-v0", **given),
        msarl.TrainMSARL(env="MSARL-Custom-v0", reasoner="org/model", **given),
        tmatr.TrainTMATR(env="TMATR-Custom-v0", **given),
    ):
        source = config.environment_options["source"]
        counts = [len(source.tasks(split)) for split in ("train", "test")]
        assert sum(counts) == 20
        assert min(counts) > 0
    team = msarl.TrainMSARL(env="MSARL-Custom-v0", reasoner="org/model", difficulty=(2,), **given)
    assert team.make_env().source is source, "read once"
    with pytest.raises(OptionError, match="expected an id like MSARL-Custom-v0"):
        _ = msarl.TrainMSARL(env="MSARL-Math-v0", **given).environment_options
