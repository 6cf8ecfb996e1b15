from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolorchestra.algos import msarl, multi_agent_trainer
from toolorchestra.algos.options.several_agents import TrainMSARL
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError


@pytest.fixture(scope="module")
def env() -> MultiAgentEnv:
    return TrainMSARL().make_env()


def test_agents_have_policies_of_their_own_unless_they_share(env: MultiAgentEnv) -> None:
    assert TrainMSARL().policies(env) == ("reasoner", "helper")
    assert TrainMSARL(share=True).policies(env) == ("shared",)
    several = TrainMSARL(env_options={"helpers": "per_tool"})
    assert several.policies(several.make_env()) == ("reasoner", "helper")


def test_options_of_the_environment_are_read_as_json() -> None:
    config = TrainMSARL(env_options={"python": "none", "max_cycles": "9", "domain": "[x"})
    assert config.given_options() == {"python": "none", "max_cycles": 9, "domain": "[x"}


def test_tasks_that_no_teacher_knows_are_refused_with_those_that_there_are(env: MultiAgentEnv) -> None:
    with pytest.raises(OptionError, match=r"difficulty \[9\] that a built-in model can be taught; it has"):
        multi_agent_trainer.known_tasks(TrainMSARL(difficulty=(9,)), env, "train")


def test_tasks_can_be_of_some_kinds_only(env: MultiAgentEnv) -> None:
    found = multi_agent_trainer.known_tasks(TrainMSARL(kinds=("other_number",)), env, "train")
    assert {env.source.task(dict(start.options)["task_id"]).intent for start in found} == {"other_number"}
    with pytest.raises(UnknownNameError, match="other_number"):
        multi_agent_trainer.known_tasks(TrainMSARL(kinds=("other_numbr",)), env, "train")


def test_a_folder_without_the_policies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'helper'"):
        multi_agent_trainer.load_policies(["helper"], tmp_path)


def test_a_run_is_resumed_with_the_steps_it_began_with(tmp_path: Path) -> None:
    run = multi_agent_trainer.MultiAgentTrainer(TrainMSARL(output=tmp_path), lambda *_: pytest.fail("made"), "msarl")
    with pytest.raises(OptionError, match="step 4"):
        run.recall(4)


def test_there_is_no_going_on_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No checkpoint"):
        msarl.train(TrainMSARL(output=tmp_path, resume=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "`temperature`"),
        ({"in_flight": 0}, "`in_flight`"),
        ({"sft_error": 1.5}, "`sft_error`"),
        ({"start": Path("x"), "reasoner": "y"}, "`start`"),
        ({"resume": True, "save_every": 0}, "`resume`"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        TrainMSARL(**options)
