from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.toolscale.common.errors import OptionError

skyrl_gym = pytest.importorskip("skyrl_gym", reason="pip install 'toolorchestra[skyrl]'")

from toolorchestra.envs.bridges.skyrl import rows  # noqa: E402 - after the check for SkyRL-Gym

ENV = "ToolOrchestra-Restaurant-v0"


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    skyrl_gym.register(id="toolorchestra", entry_point="toolorchestra.envs.bridges.skyrl:SkyRLEnv")
    yield
    del skyrl_gym.envs.registration.registry["toolorchestra"]


def made(row: dict[str, Any], **config: Any) -> Any:
    """Make an environment as SkyRL's generator does."""
    extras = {name: value for name, value in row.items() if name not in ("prompt", "env_class")}
    return skyrl_gym.make(row["env_class"], env_config=config, extras=extras)


def test_episodes_have_the_rewards_of_gymnasium(reference: Any) -> None:
    for row in rows(ENV, 6):
        messages, reward = reference(row["seed"])
        env = made(row)
        chat, _ = env.init(row["prompt"])
        steps = [env.step(message) for message in messages]
        assert sum(one["reward"] for one in steps) == reward == 1.0
        assert [one["done"] for one in steps] == [False] * (len(steps) - 1) + [True]
        assert [one["role"] for one in chat] == ["system", "user"]
        assert chat[0]["content"].startswith("<tools>\n{")
        assert env.get_metrics()["solved"] == 1.0
        env.init(row["prompt"])
        assert env.step("I cannot help.")["reward"] == 0.0
        env.close()


def test_observations_are_those_of_gymnasium(reference: Any) -> None:
    messages, _ = reference(3)
    env, own = made(rows(ENV, 1, seed=3)[0]), gym.make(ENV)
    env.init([])
    own.reset(seed=3)
    for message in messages[:-1]:
        assert env.step(message)["observations"] == [{"role": "user", "content": own.step(message)[0]}]


def test_several_agents_are_played_by_one_model() -> None:
    env = made(rows("MSARL-Math-v0", 1)[0])
    env.init([])
    steps = [env.step("```python\nprint(2 ** 10)\n```") for _ in range(2)]
    assert [one["metadata"]["agent"] for one in steps] == ["helper", "reasoner"]


def test_turns_are_limited_by_the_configuration_or_else_by_the_environment() -> None:
    (row,) = rows(ENV, 1)
    assert made(row).max_turns == 50
    env = made(row, max_turns=2)
    env.init([])
    call = '<tool_call>{"name": "list_menu", "arguments": {}}</tool_call>'
    assert [env.step(call)["done"] for _ in range(2)] == [False, True]


def test_an_infrastructure_error_fails_the_trajectory(monkeypatch: pytest.MonkeyPatch) -> None:
    env = made(rows(ENV, 1)[0])
    env.init([])

    def fail(*_: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(env._game.env.unwrapped.play, "_on_message", fail)
    with pytest.raises(RuntimeError, match="infra_error"):
        env.step("Hello.")


def test_what_is_missing_in_a_row_is_said() -> None:
    with pytest.raises(OptionError, match="Name an environment"):
        made({"env_class": "toolorchestra", "seed": 0})
    with pytest.raises(OptionError, match="`seed` or a `task_id`"):
        made({"env_class": "toolorchestra", "env": ENV})


def test_metrics_are_averaged_by_skyrl(reference: Any) -> None:
    found = []
    for row in rows(ENV, 2):
        env = made(row)
        env.init([])
        for message in reference(row["seed"])[0] if row["seed"] else ["No."]:
            env.step(message)
        found.append(env.get_metrics())
    assert type(env).aggregate_metrics(found)["solved"] == 0.5
