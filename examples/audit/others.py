"""Text environments of other libraries, as an audit plays them.

    python -m venv audited
    audited/bin/pip install toolorchestra textworld textworld-express   # the second needs Java
    audited/bin/pip install --no-deps gem-llm reasoning-gym             # GEM pins an older msgspec than ours
    cd examples/audit
    ../../audited/bin/toolorchestra validate others:guess_the_number

GEM also imports the packages that `reasoning-gym` lists. Each function makes an environment with the interface of
Gymnasium as it is now: text in and out, `reset(seed=…)`, five values from `step`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from toolorchestra.agents.policies.base import Policy

TURNS = 30


def guess_the_number() -> Any:
    """GEM's game: a number from 1 to 10 in four guesses, with hints."""
    import gem

    return gem.make("game:GuessTheNumber-v0-easy")


def letter_counting() -> Any:
    """GEM's environment of reasoning-gym's task: how often does a letter stand in a text?"""
    import gem

    return gem.make("rg:letter_counting")


class TextWorldGame:
    """A game of TextWorld with three rooms; rewards are the points that an action earns."""

    def __init__(self) -> None:
        import textworld
        import textworld.gym

        options = textworld.GameOptions()
        options.seeds, options.nb_rooms, options.nb_objects, options.quest_length = 7, 3, 4, 3
        options.path = str(Path(tempfile.gettempdir(), "toolorchestra_textworld", "game.z8"))
        options.force_recompile = not Path(options.path).exists()
        file = options.path if not options.force_recompile else textworld.make(options)[0]
        self._env = textworld.gym.make(textworld.gym.register_game(file, max_episode_steps=TURNS))
        self._points = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        """Begin the game."""
        self._env.seed(seed)
        self._points = 0
        observation, info = self._env.reset()
        return observation, info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a command."""
        observation, points, done, info = self._env.step(action)
        reward, self._points = points - self._points, points
        return observation, float(reward), bool(done), False, info

    def close(self) -> None:
        """End the game's process."""
        self._env.close()


class CoinCollector:
    """TextWorldExpress' search for a coin; the score is from 0 to 1, and rewards are its differences."""

    def __init__(self) -> None:
        from textworld_express import TextWorldExpressEnv

        self._env = TextWorldExpressEnv(envStepLimit=TURNS)
        self._env.load(gameName="coin", gameParams="numLocations=5,includeDoors=0,numDistractorItems=0")
        self._score, self._turns = 0.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        """Hide the coin."""
        observation, _ = self._env.reset(seed=seed, gameFold="train", generateGoldPath=True)
        self._score, self._turns = 0.0, 0
        return f"{self._env.getTaskDescription()}\n{observation}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take a command."""
        observation, _, done, infos = self._env.step(action)
        self._turns += 1
        reward, self._score = infos["score"] - self._score, infos["score"]
        return observation, float(reward), bool(done), self._turns >= TURNS, {}

    def solution(self) -> list[str]:
        """Return the commands of the shortest way."""
        return list(self._env.getGoldActionSequence())


class CoinOracle(Policy):
    """Takes the shortest way."""

    privileged = True

    def reset(self, env: Any, observation: str, info: Any) -> None:
        """Look it up."""
        self._left = env.solution()

    def act(self, observation: str, info: Any) -> str:
        """Return the next command."""
        return self._left.pop(0) if self._left else "look around"
