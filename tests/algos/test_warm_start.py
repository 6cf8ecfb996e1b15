from __future__ import annotations

import random
import re

import pytest

from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import multi_agent_trainer
from toolorchestra.algos.data.warm_start import staged_rows, teacher_demonstrations
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainTMATR
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.teachers import teacher_of
from toolorchestra.toolscale.common.errors import OptionError


@pytest.fixture(scope="module")
def env() -> MultiAgentEnv:
    return TrainMSARL().make_env()


def test_the_rows_teach_all_roles(env: MultiAgentEnv) -> None:
    config = TrainMSARL()
    starts = multi_agent_trainer.known_tasks(config, env, "train")
    words = teacher_demonstrations(env, teacher_of(env), starts, 0.0, random.Random(0))
    policy = builtin_text_policy([one.messages for one in words])
    rows = staged_rows(config.make_env, starts, policy, rows=60, error=0.0, rng=random.Random(0))
    assert len(rows) == 60
    texts = [policy.tokenizer.decode([i for i, label in zip(*row, strict=True) if label != -100]) for row in rows]
    assert any("print" in text for text in texts)
    assert any("boxed" in text for text in texts)
    assert any("print" not in text and "boxed" not in text for text in texts)


def test_a_teacher_with_injected_errors_fails(env: MultiAgentEnv) -> None:
    starts = multi_agent_trainer.known_tasks(TrainMSARL(), env, "test")
    good = teacher_demonstrations(env, teacher_of(env), starts, 0.0, random.Random(0))
    bad = teacher_demonstrations(env, teacher_of(env), starts, 1.0, random.Random(0))
    assert all(one.solved for one in good)
    assert sum(one.solved for one in bad) < 0.3 * len(bad)


def test_each_side_of_an_episode_ends_with_a_message_of_its_own(env: MultiAgentEnv) -> None:
    starts = multi_agent_trainer.known_tasks(TrainMSARL(), env, "test")[:3]
    demonstrations = teacher_demonstrations(env, teacher_of(env), starts, 0.0, random.Random(0))
    assert len(demonstrations) == 3 * 2
    assert {one.messages[-1]["role"] for one in demonstrations} == {"assistant"}


def test_constants_of_a_formula_stay_though_they_stand_in_observations() -> None:
    config = TrainTMATR(kinds=("chord_length", "committee"))  # turn 2 is reached in all episodes but the committee's
    env = config.make_env()
    starts = multi_agent_trainer.known_tasks(config, env, "train")
    words = teacher_demonstrations(env, teacher_of(env), starts, 0.0, random.Random(0))
    policy = builtin_text_policy([one.messages for one in words])
    starts = [s for s in starts if "chord" in str(s)] * 2 + [s for s in starts if "committee" in str(s)][:1]
    rows = staged_rows(config.make_env, starts, policy, rows=300, error=0.0, rng=random.Random(0))
    texts = [policy.tokenizer.decode([i for i, label in zip(*row, strict=True) if label != -100]) for row in rows]
    formulas = [text for text in texts if "sqrt (" in text]
    assert formulas
    for formula in formulas:
        assert re.findall(r"\^ (\d+)", formula) == ["2", "2"]
    assert len({re.findall(r"\( (\d+)", formula)[0] for formula in formulas}) > 20  # radii are of all sizes


def test_an_environment_without_a_teacher_cannot_be_taught() -> None:
    class Bare:
        home, protocol = "toolorchestra.envs.multiagent", "Bare"

    with pytest.raises(OptionError, match="no teacher"):
        teacher_of(Bare())  # type: ignore[arg-type]  # as much of one as is looked at


def test_one_of_a_module_without_a_teacher_is_taught_by_that_of_its_protocol(
    env: MultiAgentEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = teacher_of(env)
    monkeypatch.setattr(env, "home", "toolorchestra.envs.multiagent")
    assert teacher_of(env) is taught
