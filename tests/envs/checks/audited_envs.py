"""Environments of text that an audit is tried on: a sound one, and one for each fault."""

from __future__ import annotations

import random
import re
import socket
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.spaces import Discrete

from toolorchestra.envs.spaces import UnicodeText


class Sums(gymnasium.Env[str, str]):
    """Asks for a sum of two numbers of which there are many, once.

    Args:
        fault: What is wrong with it; nothing by default.
    """

    played = 0  # by all environments of the process, which a sound one does not look at

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.observation_space = UnicodeText(5 if fault == "small space" else 10_000)
        self.action_space = UnicodeText(100_000)
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Ask."""
        super().reset(seed=seed)
        Sums.played += 1
        self._turns = 0
        rng = random.Random() if self.fault == "no seed" else random.Random(seed)
        self._right = rng.randint(10_000, 99_999) + rng.randint(10_000, 99_999)
        asked = f"What is {self._right - 10_000} + 10000?"
        if self.fault == "shared state":
            asked += f" This is question {Sums.played}."
        return asked, {"answer": self._right} if self.fault == "leak" else {}

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Judge."""
        self._turns += 1
        right = action == str(self._right)
        reward: Any = float(right)
        if self.fault == "pays nothing said" and not action:
            reward = 1.0
        if self.fault == "pays length":
            reward = max(reward, float(len(action) > 30))
        if self.fault == "pays the words of a grader":
            reward = max(reward, float("orrect" in action))
        if self.fault == "pays a constant" and action == "10000":
            reward = 1.0
        if self.fault == "not a number" and not right:
            reward = float("nan")
        if self.fault == "beyond the range":
            reward = 5 * reward
        if self.fault == "half for the right answer":
            reward = reward / 2
        if self.fault == "raises" and action.startswith("{"):
            raise ValueError("no JSON, please")
        if self.fault == "verdict by chance":
            reward = float(random.random() < 0.5)
        if self.fault == "writes a file":
            Path(tempfile.gettempdir(), "toolorchestra_audit_test").write_text(action)
        if self.fault == "connects":
            with socket.socket() as one:
                one.connect_ex(("127.0.0.1", 9))
        over = right or self.fault != "no end"
        return ("Right." if right else "Wrong."), reward, over, False, {}


def oracle(observation: str, info: dict[str, Any]) -> str:
    """Return the sum."""
    return str(sum(map(int, re.findall(r"\d+", observation.split("?")[0]))))


def numbers() -> gymnasium.Env[Any, Any]:
    """Return an environment that reads no text."""
    env = Sums()
    env.action_space = Discrete(2)  # type: ignore[assignment]
    return env


def nothing() -> str:
    """Return what is no environment."""
    return ""
