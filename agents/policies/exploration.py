"""Policies that call experts at random, as demonstrations of valid calls for a warm start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import msgspec

from toolorchestra.agents.policies.base import Info, Policy, write_calls
from toolorchestra.agents.policies.expert_roles import REQUEST, ExpertRole, expert_roles, proposal
from toolorchestra.agents.policies.reference import NoisyOraclePolicy
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call

_SUMMARISER = "final_answer"


class ExplorerPolicy(Policy):
    """Asks random experts the whole question, several at once, for some turns; then gives or calls for the answer.

    Args:
        seed: See `Policy`.
        turns: Maximum number of turns before the answer.
        calls: Maximum number of calls of a turn.
    """

    def __init__(self, seed: int = 0, turns: int = 2, calls: int = 2) -> None:
        super().__init__(seed)
        if min(turns, calls) < 1:
            raise OptionError(f"Expected at least one turn of one call, got {turns} of {calls}.")
        self.turns, self.calls = turns, calls
        self._roles: list[tuple[str, tuple[str, ...], bool]] = []
        self._summarised, self._left = False, 0
        self._env: Any = None

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: list the experts among the tools."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        parameters = {tool["function"]["name"]: tool["function"]["parameters"] for tool in info["tools"]}
        self._summarised = _SUMMARISER in parameters
        self._roles = [
            (name, tuple(found["properties"].get("model_id", {}).get("enum", ())), "context" in found["properties"])
            for name, found in parameters.items()
            if not found["required"] and name != _SUMMARISER
        ]
        if not self._roles:
            raise OptionError(
                "There is no expert to ask: no available tool can be called without arguments. Play a ParaManager "
                "environment, or make this one with tools='full'."
            )
        self._left = self.rng.randint(1, self.turns)

    def act(self, observation: str, info: Info) -> Any:
        """Return random calls, or the end."""
        if self._left:
            self._left -= 1
            return write_calls(self._calls(), self._env.preface)
        if self._summarised:
            return write_calls([Call(_SUMMARISER, {})], self._env.preface)
        results = [msgspec.json.decode(m["content"]).get("result") for m in info["messages"] if m["role"] == "tool"]
        answers = [found for value in results if isinstance(found := proposal(value), str)]
        return self._env.final(self.rng.choice(answers) if answers else "I do not know.")

    def _calls(self) -> Iterator[Call]:
        for _ in range(self.rng.randint(1, self.calls)):
            name, models, shown = self.rng.choice(self._roles)
            arguments = {"model_id": self.rng.choice(models)} if models else {}
            yield Call(name, arguments | ({"context": [REQUEST]} if shown else {}))


class QueryingOraclePolicy(NoisyOraclePolicy):
    """A noisy oracle that sometimes asks a random expert what to do next, and does it.

    Args:
        seed: See `Policy`.
        error: Probability of a mistake in a turn in which it does not ask.
        ask: Probability of asking in a turn.
    """

    def __init__(self, seed: int = 0, error: float = 0.2, ask: float = 0.4) -> None:
        super().__init__(seed, error)
        if not 0.0 <= ask <= 1.0:
            raise OptionError(f"The probability `ask` must lie in [0, 1], got {ask!r}.")
        self.ask = ask
        self._roles: list[ExpertRole] = []
        self._awaits_reply = False

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: list the experts among the tools."""
        super().reset(env, observation, info)
        self._roles = expert_roles(info["tools"])
        self._awaits_reply = False

    def act(self, observation: str, info: Info) -> Any:
        """Return a question, the proposed step, or a noisy oracle's action."""
        if self._awaits_reply:
            self._awaits_reply = False
            if (followed := self._follow(info)) is not None:
                return followed
        elif self._roles and self.rng.random() < self.ask:
            self._awaits_reply = True
            return write_calls([self.rng.choice(self._roles).shown(info["messages"]).call()], self._env.preface)
        return super().act(observation, info)

    def _follow(self, info: Info) -> Any:
        """Return the action that was proposed, if one was."""
        proposed = proposal(info["calls"][0].value)
        if isinstance(proposed, Call):
            self._script = [rest for stage in self._script if (rest := [c for c in stage if not _same(c, proposed)])]
            return write_calls([proposed], self._env.preface)
        return None if proposed is None else self._env.final(proposed)


def _same(one: Call, other: Call) -> bool:
    return one.name == other.name and one.arguments == other.arguments
