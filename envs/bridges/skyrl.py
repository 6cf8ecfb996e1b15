"""SkyRL-Gym: an environment as a `BaseTextEnv`, for SkyRL's trainers.

    import skyrl_gym

    skyrl_gym.register(id="toolorchestra", entry_point="toolorchestra.envs.bridges.skyrl:SkyRLEnv")

A row of the data set has a ``prompt`` (which is replaced by the task's), ``env_class: "toolorchestra"``, and what
begins its episode: ``env`` (else that of the environment's configuration), ``seed`` or ``task_id``, and other choices
at a reset; `rows` makes them. All trajectories of a row are of its task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv

from toolorchestra.envs.bridges.served import CHOICES, Observed, Served, seeded_rows, with_tools
from toolorchestra.envs.records.unjudged import no_answer_after
from toolorchestra.toolscale.common.errors import OptionError


class SkyRLEnv(BaseTextEnv):  # type: ignore[misc]  # there are no types where SkyRL-Gym is not installed
    """One episode.

    Args:
        env_config: ``env`` and ``options`` of the environment, where rows name none, and ``max_turns``.
        extras: The row: ``env``, ``options``, ``seed``, and choices at the reset; other columns are not used.

    Raises:
        OptionError: There is no ``env``, or neither ``seed`` nor ``task_id``.
    """

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        row, config = dict(extras or {}), dict(env_config or {})
        name = row.get("env") or config.get("env")
        if not name:
            raise OptionError("Name an environment: `env` in the row or in the environment's configuration.")
        self._seed = row.get("seed")
        self._chosen = {choice: row[choice] for choice in CHOICES if row.get(choice) is not None}
        if self._seed is None and "task_id" not in self._chosen:
            raise OptionError(
                "A row needs a `seed` or a `task_id`, since all its trajectories are of one task; "
                "`toolorchestra.envs.bridges.skyrl.rows(env, count)` makes such rows."
            )
        self._game = Served(str(name), {**(config.get("options") or {}), **(row.get("options") or {})})
        self.max_turns = row.get("max_turns") or config.get("max_turns") or self._turns()

    def _turns(self) -> int:
        """Return after how many messages the environment itself ends an episode."""
        inner = self._game.env.unwrapped
        turns: int = getattr(inner, "multi_agent_env", inner).limits.turns
        return turns

    def init(self, prompt: Any) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Begin the episode and return its first messages, the schemas of the tools in the first one."""
        told = self._game.reset(self._seed, **self._chosen)
        messages = [{"role": one["role"], "content": str(one["content"])} for one in told.messages]
        messages[0]["content"] = with_tools(messages[0]["content"], told.tools)
        return messages, dict(told.info)

    def step(self, action: str) -> dict[str, Any]:
        """Take a message.

        Raises:
            RuntimeError: An infrastructure error ended the episode: SkyRL leaves out a trajectory that fails.
        """
        self.turns += 1
        told: Observed = self._game.step(action)
        if not told.done and self.turns >= self.max_turns:
            told = self._game.stop(no_answer_after(self.turns))
        if told.done and told.reward is None:
            raise RuntimeError(f"The episode ended by an {told.info['outcome']}: {self._game.episode.why}")
        observations = [] if told.done else [{"role": "user", "content": told.text}]
        return {
            "observations": observations,
            "reward": told.reward or 0.0,
            "done": told.done,
            "metadata": dict(told.info),
        }

    def get_metrics(self) -> dict[str, Any]:
        """Return what the episode came to: SkyRL averages it."""
        episode = self._game.episode
        return {
            "solved": float(episode.outcome == "solved"),
            "cost": episode.cost,
            "clock": episode.clock,
            "messages": len(episode.turns),
        }

    def close(self) -> None:
        """Release the databases."""
        self._game.close()


def rows(env: str, count: int, seed: int = 0, **chosen: Any) -> list[dict[str, Any]]:
    """Return rows of a data set, each with a seed of its own.

    Args:
        env: Name of the environment.
        count: Number of rows.
        seed: Seed of the first one.
        chosen: Choices at each reset, such as ``split="train"``.
    """
    return seeded_rows(count, seed, env_class="toolorchestra", env=env, **chosen)
