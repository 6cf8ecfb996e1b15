"""A scripted orchestrator of experts: it asks several and stops when enough agree or the budget is spent.

It is a version of ParaManager's strategies without learning: the same question to different models and tools, in
parallel or in turn, then reviews. Ablations of the protocol (one call a round, one model, other budgets) use it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import msgspec

from toolorchestra.agents.messages.text_parts import answer_in
from toolorchestra.agents.policies.base import Info, Policy, write_calls
from toolorchestra.toolscale.answers.answers import count_votes
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call

SOLVERS = ("standard_reasoner", "code_reasoner")
REVIEWER = "critical_reviewer"


class ConsensusPolicy(Policy):
    """Asks in waves of parallel calls until the most frequent answer leads by enough, or the budget is spent.

    Calls cycle through the solvers and, after the first four calls, the reviewer, and through the models.

    Args:
        seed: See `Policy`.
        width: Maximum number of calls of a wave.
        budget: Cost units of an episode, one of which is for the summary.
        lead: Votes by which the first answer must lead the second to stop.
        solvers: Roles that solve; those of `SOLVERS` by default.
        wave: Calls after which the votes are counted; as many as `width` by default. With a width of 1 and a wave of 4
            it makes the calls of four at a time one after the other.
        reviews: Whether the reviewer takes part.
    """

    def __init__(
        self,
        seed: int = 0,
        width: int = 4,
        budget: int = 8,
        lead: int = 2,
        solvers: Sequence[str] = SOLVERS,
        wave: int | None = None,
        *,
        reviews: bool = True,
    ) -> None:
        super().__init__(seed)
        wave = width if wave is None else wave
        if min(width, lead, wave) < 1 or budget < 2:
            raise OptionError(
                "Expected a width, a wave and a lead of at least 1, and a budget of at least 2 (a call, the summary), "
                f"got {width}, {wave}, {lead} and {budget}."
            )
        self.width, self.budget, self.lead, self.solvers = width, budget, lead, tuple(solvers)
        self.wave, self.reviews = wave, reviews
        self._models: Sequence[str] = ()
        self._start = self._made = 0

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: list the roles and models."""
        super().reset(env, observation, info)
        models = {
            tool["function"]["name"]: tool["function"]["parameters"]["properties"].get("model_id", {}).get("enum", [])
            for tool in info["tools"]
        }
        if missing := [name for name in (*self.solvers, REVIEWER, "final_answer") if name not in models]:
            raise OptionError(f"There is no tool {missing[0]!r} here. Play a ParaManager environment.")
        self._made = 0
        self._models = models[self.solvers[0]]
        self._start = self.rng.randrange(len(self._models))

    def _call(self, number: int) -> Call:
        """Return the episode's call of this number; successive calls differ in role and model."""
        roles = self.solvers if number < 4 or not self.reviews else (*self.solvers, REVIEWER)
        count = len(self._models)
        # roles shift by one after each cycle of the models, so that every pairing comes up
        role = roles[(number + number // count) % len(roles)]
        return Call(role, {"model_id": self._models[(self._start + number) % count]})

    def act(self, observation: str, info: Info) -> str:
        """Return the next wave, or the call for the summary."""
        counting = self._made % self.wave == 0
        left = min(self.width, self.wave - self._made % self.wave, self.budget - 1 - self._made)
        if left < 1 or (counting and self._agreed(info)):
            return write_calls([Call("final_answer", {})], "<reasoning>Enough was asked.</reasoning>\n")
        wave = [self._call(self._made + place) for place in range(left)]
        self._made += left
        return write_calls(wave, f"<reasoning>Ask {left} and compare what they say.</reasoning>\n")

    def _agreed(self, info: Info) -> bool:
        shown = [msgspec.json.decode(m["content"]).get("result") for m in info["messages"] if m["role"] == "tool"]
        answers = [answer_in(text) for text in shown if isinstance(text, str)]
        votes = sorted((votes for _, votes in count_votes(answers)), reverse=True)
        return bool(votes) and votes[0] - sum(votes[1:2]) >= self.lead
