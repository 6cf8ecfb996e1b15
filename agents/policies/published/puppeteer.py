"""Puppeteer: a central policy, trained by REINFORCE, chooses which agent is asked next, and when to stop."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple, Self

import gymnasium
import numpy as np

from toolorchestra.agents.policies.base import Info, LearnedPolicy, play_episode
from toolorchestra.agents.policies.baselines import Baseline, Script
from toolorchestra.agents.policies.expert_roles import ExpertRole, Proposal, expert_roles, plurality, proposal
from toolorchestra.agents.policies.published.agent_head import AgentHead, agent_name, given_head, state_features
from toolorchestra.agents.policies.published.question_vectors import Floats
from toolorchestra.toolscale.errors import OptionError

STOP = "stop"
"""The action that asks nobody more, and follows the most frequent proposal."""


class _Choice(NamedTuple):
    """A choice: the features, the probabilities of all actions, and the action."""

    features: Floats
    chances: Floats
    action: int


class Puppeteer(Baseline, LearnedPolicy):
    """A policy chooses the next agent from the state of the work; REINFORCE trains it (arXiv:2505.19591).

    Agents are the experts in their roles. At each point the policy, a softmax over agents and stopping, sees the
    request and how far the proposals so far agree. `fit` plays training tasks and follows the gradient of the mean
    reward: 1 for a solved task, less ``cost_weight`` times the episode's cost as a share of what random choices cost
    . Afterwards the likeliest agent is asked.

    Simplified: the policy is linear in a few features, where the paper trains a reward model of 70 billion parameters;
    the cost of a step does not grow with its number. Proposals are aggregated by their plurality, as by the paper's
    vote.

    Args:
        seed: See `Policy`.
        head: What was learnt, an `AgentHead` or the file of one.
        steps: Maximum number of agents that are asked about one step.
        sample: Whether agents are drawn by their probabilities, as in training.
    """

    def __init__(
        self, seed: int = 0, head: AgentHead | Path | str | None = None, steps: int = 4, *, sample: bool = False
    ) -> None:
        super().__init__(seed)
        if steps < 1:
            raise OptionError(f"Expected to ask at least one agent, got steps={steps}.")
        self.head, self.steps, self.sample = given_head(head, "Puppeteer"), steps, sample
        self.choices: list[_Choice] = []
        """The choices of the episode so far."""

    @classmethod
    def fit(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        split: str = "train",
        seed: int = 0,
        episodes: int = 1024,
        batch: int = 32,
        rate: float = 1.0,
        cost_weight: float = 0.1,
        **options: Any,
    ) -> Self:
        """Return a policy trained by REINFORCE on so many episodes.

        Args:
            env: See `LearnedPolicy.fit`, as `split` and `seed`.
            split: Split of the tasks.
            seed: Of the episodes.
            episodes: How many are played.
            batch: Episodes of one step along the gradient, whose mean reward is the baseline.
            rate: Length of a step.
            cost_weight: Weight of the cost in the reward.
            options: Further arguments of the policy.
        """
        if min(episodes, batch) < 1 or not (rate > 0 <= cost_weight):
            raise OptionError(f"Expected positive numbers, got {episodes=}, {batch=}, {rate=} and {cost_weight=}.")
        _, info = env.reset(seed=seed, options={"split": split})
        actions = [STOP, *dict.fromkeys(agent_name(role) for role in expert_roles(info["tools"]))]
        size = len(state_features("", (), 1))
        weights = np.zeros((len(actions), size))
        usual: float | None = None  # cost of an episode of random choices
        for first in range(0, episodes, batch):
            policy = cls(seed, AgentHead.of(actions, weights), sample=True, **options)
            played: list[tuple[bool, float, list[_Choice]]] = []
            for number in range(first, min(first + batch, episodes)):
                ended = play_episode(env, policy, seed=seed + number, options={"split": split})
                if ended["outcome"] in ("solved", "failed"):
                    played.append((ended["outcome"] == "solved", ended["cost"], policy.choices))
            if not played:
                continue
            if usual is None:
                usual = sum(cost for _, cost, _ in played) / len(played) or 1.0
            rewards = np.array([solved - cost_weight * cost / usual for solved, cost, _ in played])
            gradient = np.zeros_like(weights)
            for advantage, (*_, choices) in zip(rewards - rewards.mean(), played, strict=True):
                for choice in choices:
                    gradient += advantage * np.outer(
                        np.eye(len(actions))[choice.action] - choice.chances, choice.features
                    )
            weights += rate * gradient / (np.linalg.norm(gradient) or 1.0)
        return cls(seed, AgentHead.of(actions, weights), **options)

    def learnt(self) -> dict[str, Any]:
        """Return the head."""
        return {"head": self.head, "steps": self.steps}

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        self.choices = []

    def propose(self) -> Script:
        """Ask one agent after the other until the policy stops."""
        able = {agent_name(role): role for role in self.experts}
        proposals: list[Proposal] = []
        for _ in range(self.steps):
            chosen = self._next(able, proposals)
            if chosen is None:
                break
            (reply,) = yield [chosen.call()]
            if (found := proposal(reply)) is not None:
                proposals.append(found)
        return plurality(proposals)

    def _next(self, able: dict[str, ExpertRole], proposals: list[Proposal]) -> ExpertRole | None:
        """Return the agent to ask next; None to stop, which is possible once there is a proposal."""
        features = state_features(self.request, proposals, self.steps)
        possible = [bool(proposals) if name == STOP else name in able for name in self.head.actions]
        if not any(possible):
            return self.role("answer")  # trained with other experts
        scores = np.where(possible, self.head.scores(features), -math.inf)
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        drawn = self.sample and self.rng.choices(range(len(chances)), chances.tolist())[0]
        action = int(drawn) if self.sample else int(chances.argmax())
        self.choices.append(_Choice(features, chances, action))
        name = self.head.actions[action]
        return None if name == STOP else able[name]
