from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from toolorchestra import environment_ids
from toolorchestra.envs.msarl import raw_env, single_env
from toolorchestra.envs.multiagent.views import SingleAgentEnv
from toolorchestra.toolscale.common.errors import OptionError

CODE = "```python\nprint(6 * 7)\n```"


def repeat(observation: str, info: dict[str, Any]) -> str:
    """A helper that hands on what it read."""
    return observation.split("Output:\n")[-1]


def test_the_reasoner_with_a_helper_that_repeats_is_one_agent_with_code() -> None:
    env = SingleAgentEnv(raw_env("Math", python="simulated"), "reasoner", {"helper": repeat})
    observation, info = env.reset(seed=0)
    assert env.multi_agent_env.task.instruction in observation
    assert info["tools"] == []
    observation, reward, terminated, truncated, info = env.step(CODE)
    assert observation == "<interpretation>\n42\n</interpretation>"
    assert (reward, terminated, truncated) == (0.0, False, False)
    observation, reward, terminated, truncated, info = env.step(env.multi_agent_env.task.answer)
    assert (reward, terminated, truncated, info["outcome"]) == (1.0, True, False, "solved")


def test_one_agent_with_code_reads_raw_output_and_one_without_runs_nothing() -> None:
    env = single_env("Math", python="simulated", noise=2)
    env.reset(seed=0)
    assert len(env.step(CODE)[0].splitlines()) == 2 + 3
    env = single_env("Math", python="simulated", max_calls=0)
    env.reset(seed=0)
    assert "not run" in env.step(CODE)[0]


def test_the_helper_acts_after_the_reasoner() -> None:
    script = iter([CODE, r"\boxed{0.5}"])
    env = SingleAgentEnv(raw_env("Math", python="simulated"), "helper", {"reasoner": lambda *_: next(script)})
    observation, _ = env.reset(seed=0)
    assert observation.endswith("Output:\n42")
    assert env.step("42")[2]


def test_an_episode_that_ends_before_the_agent_acts_is_over_at_its_first_step() -> None:
    env = SingleAgentEnv(raw_env("Math", python="simulated"), "helper", {"reasoner": lambda *_: r"\boxed{-12345}"})
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("anything")
    assert (reward, terminated, info["outcome"]) == (0.0, True, "failed")


def test_a_branch_of_the_view_is_one_of_the_environment() -> None:
    env = SingleAgentEnv(raw_env("Math", python="simulated"), "reasoner", {"helper": repeat})
    env.reset(seed=0)
    branch = env.snapshot()
    first = env.step(CODE)
    env.restore(branch)
    assert env.step(CODE) == first


def test_every_other_agent_needs_a_partner() -> None:
    game = raw_env("Math", python="simulated")
    with pytest.raises(OptionError, match="give a partner"):
        SingleAgentEnv(game, "reasoner", {})
    with pytest.raises(OptionError, match="Did you mean 'reasoner'"):
        SingleAgentEnv(game, "reasonr", {})


@pytest.mark.filterwarnings("ignore")  # the checker advises against spaces of text
def test_the_view_passes_gymnasiums_checker() -> None:
    check_env(
        SingleAgentEnv(raw_env("Math", python="simulated"), "reasoner", {"helper": repeat}), skip_render_check=True
    )


def test_one_agent_with_code_has_a_gymnasium_id_of_its_own() -> None:
    env = gym.make("toolorchestra.envs.msarl:MSARLSingle-Math-v0", python="simulated", disable_env_checker=True)
    assert "```python" in env.reset(seed=0)[0]
    assert not [env_id for env_id in environment_ids() if "Single" in env_id]  # it is no environment of its own


def test_an_option_that_the_view_itself_sets_is_refused() -> None:
    with pytest.raises(TypeError, match="'helpers'"):
        single_env("Math", helpers="one")
