"""Every environment with a scripted teacher can be learnt by SFT: by the built-in model, and by a given one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolorchestra.algos import sft
from toolorchestra.algos.multi_agent_trainer import load_policies
from toolorchestra.algos.options.smoke import make_tiny_model
from toolorchestra.envs import make_multiagent
from toolorchestra.toolscale.common.errors import OptionError

ONE = (
    "MSARLSingle-Math-v0",
    "TMATRSingle-Math-v0",
    "DialogueSingle-Restaurant-v0",
    "ToolOrchestra-MultiHopQA-v0",
    "ParaManager-Restaurant-v0",
    "ParaManager-MultiHopQA-v0",
    "MASOrchestra-Low-MASBenchDepth-v0",
    "MASOrchestra-High-MultiHopQA-v0",
)
SEVERAL = ("MSARL-Math-v0", "TMATR-Math-v0", "Dialogue-Restaurant-v0")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_tiny_model(tmp_path_factory.mktemp("model") / "tiny"))


def settings(env: str, folder: Path, **changes: Any) -> sft.TrainSFT:
    options: dict[str, Any] = {"steps": 1, "batch": 2, "replays": 1, "threads": 1, "save_every": 0, "difficulty": (1,)}
    if env.startswith(("MSARL", "TMATR")):
        options["env_options"] = {"python": "simulated"}
    return sft.TrainSFT(env=env, output=folder, **(options | changes))


@pytest.mark.slow
@pytest.mark.parametrize("env", ONE)
def test_a_given_model_learns_from_the_teacher_of_any_environment(env: str, model: str, tmp_path: Path) -> None:
    losses: list[float] = []
    sft.teach(settings(env, tmp_path, model=model), lambda step, metrics: losses.append(metrics["loss"]))
    assert len(losses) == 1
    assert losses[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("env", ["MSARLSingle-Math-v0", "DialogueSingle-Restaurant-v0", "ParaManager-Restaurant-v0"])
def test_a_built_in_model_learns_what_is_written_as_text_too(env: str, tmp_path: Path) -> None:
    losses: list[float] = []
    sft.teach(settings(env, tmp_path), lambda step, metrics: losses.append(metrics["loss"]))
    assert losses[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("env", SEVERAL)
def test_a_team_without_recordings_learns_from_its_teacher(env: str, model: str, tmp_path: Path) -> None:
    sft.train(settings(env, tmp_path / "given", model=model))
    agents = make_multiagent(env).possible_agents
    assert list(load_policies(agents, tmp_path / "given" / "final")) == list(agents)


@pytest.mark.slow
def test_a_built_in_team_without_recordings_learns_from_its_teacher(tmp_path: Path) -> None:
    sft.train(settings("MSARL-Math-v0", tmp_path, share=True))
    assert load_policies(["shared"], tmp_path / "final")


def test_a_team_whose_teacher_knows_no_task_is_refused_with_a_remedy(model: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"teacher of MSARL knows none of \d+ tasks .*`difficulty`"):
        sft.train(settings("MSARL-Math-v0", tmp_path, model=model, difficulty=(9,)))
