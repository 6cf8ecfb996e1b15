"""Router-R1: a router thinks and asks a model in turn, round after round, before it answers; GRPO trains it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import gymnasium
import numpy as np

from toolorchestra.agents.policies.base import Info, LearnedPolicy, play_episode
from toolorchestra.agents.policies.baselines import Baseline, Script
from toolorchestra.agents.policies.expert_roles import ExpertRole, Proposal, plurality, proposal, same_proposal, slug
from toolorchestra.agents.policies.published.agent_head import AgentHead, given_head, state_features
from toolorchestra.agents.policies.published.question_vectors import Floats
from toolorchestra.toolscale.errors import OptionError

ANSWER = "answer"
"""The action that asks no further model, and answers."""
_DELTA = 1e-4  # added to deviations, as in `toolorchestra.algos.advantages`


class Choice(NamedTuple):
    """A choice: what was seen, which actions were possible, the action, and its log-probability when it was drawn."""

    features: Floats
    possible: tuple[bool, ...]
    action: int
    logp: float


class RouterR1(Baseline, LearnedPolicy):
    """A router interleaves thinking and asking models of its choice, and aggregates what they say (arXiv:2506.09033).

    Every message has the paper's form: a thought in ``<think>``, then ``<search>MODEL: QUERY</search>`` beside the
    call, whose result comes back as information that later rounds see; in the end the answer. `fit` trains it by
    GRPO: the rollouts of one task are compared with each other, by a reward of ``(1 - α) · outcome + α · cost
    reward``, and the importance ratio of each choice is clipped, as in `toolorchestra.algos.losses`.

    Simplified: the router is a softmax in a few features of the state, where the paper trains a language model of 3
    billion parameters, so thoughts are worded by a template, queries are the user's request, and formats are never
    wrong (the reward for format is left out); answers are aggregated by their plurality.

    Args:
        seed: See `Policy`.
        head: What was learnt, an `AgentHead` or the file of one.
        rounds: Maximum number of models that are asked about one step (4 in the paper).
        sample: Whether models are drawn by their probabilities, as in training.
    """

    def __init__(
        self, seed: int = 0, head: AgentHead | Path | str | None = None, rounds: int = 4, *, sample: bool = False
    ) -> None:
        super().__init__(seed)
        if rounds < 1:
            raise OptionError(f"Expected to ask at least one model, got rounds={rounds}.")
        self.head, self.rounds, self.sample = given_head(head, "RouterR1"), rounds, sample
        self.choices: list[Choice] = []
        """The choices of the episode so far."""

    @classmethod
    def fit(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        split: str = "train",
        seed: int = 0,
        steps: int = 12,
        tasks: int = 8,
        group: int = 8,
        epochs: int = 2,
        rate: float = 1.0,
        clip: float = 0.2,
        cost_weight: float = 0.02,
        scale: bool = False,
        **options: Any,
    ) -> Self:
        """Return a router trained by GRPO.

        Args:
            env: See `LearnedPolicy.fit`, as `split` and `seed`.
            split: Split of the tasks.
            seed: Of the episodes.
            steps: How often rollouts are played.
            tasks: Tasks of a step.
            group: Rollouts of a task.
            epochs: Steps along the gradient for the rollouts of a step.
            rate: Length of a step along the gradient.
            clip: How far the importance ratio counts from one.
            cost_weight: α, the weight of the cost reward: one less the cost as a share of twice the mean cost at first.
            scale: Whether advantages are divided by their group's deviation. Where all rollouts of a task come to the
                same, cost alone would count in full then, however small its weight.
            options: Further arguments of the policy.
        """
        if min(steps, tasks, epochs) < 1 or group < 2 or not (rate > 0 < clip) or not 0 <= cost_weight <= 1:
            raise OptionError(
                "Expected positive numbers, groups of at least 2 and a cost weight in [0, 1], got "
                f"{steps=}, {tasks=}, {group=}, {epochs=}, {rate=}, {clip=} and {cost_weight=}."
            )
        _, info = env.reset(seed=seed, options={"split": split})
        untrained = cls(seed, AgentHead.of([ANSWER], np.zeros((1, 1))), **options)
        untrained.reset(env, "", info)
        actions = [ANSWER, *dict.fromkeys(slug(role.expert) for role in untrained.roles("answer"))]
        weights = np.zeros((len(actions), len(_features("", (), Counter(), actions, 1))))
        usual: float | None = None
        for step in range(steps):
            policy = cls(seed, AgentHead.of(actions, weights), sample=True, **options)
            groups = []
            for place in range(step * tasks, (step + 1) * tasks):
                env.reset(seed=seed + place, options={"split": split})
                task = env.unwrapped.task.id  # type: ignore[attr-defined]  # every environment of the library has it
                groups.append(_rollouts(env, policy, task, (seed + place) * group, group))
            played = [one for rollouts in groups for one in rollouts]
            if not played:
                continue
            if usual is None:
                usual = sum(cost for _, cost, _ in played) / len(played) or 1.0
            rows: list[tuple[list[Choice], float]] = []
            for rollouts in groups:
                saved = [1 - min(1.0, cost / (2 * usual)) for _, cost, _ in rollouts]
                rewards = [
                    (1 - cost_weight) * solved + cost_weight * less
                    for (solved, *_), less in zip(rollouts, saved, strict=True)
                ]
                advantages = group_advantages(rewards, scale=scale)
                rows += [(choices, a) for (*_, choices), a in zip(rollouts, advantages, strict=True)]
            for _ in range(epochs):
                gradient = surrogate_gradient(weights, rows, clip)
                weights = weights + rate * gradient / (np.linalg.norm(gradient) or 1.0)
        return cls(seed, AgentHead.of(actions, weights), **options)

    def learnt(self) -> dict[str, Any]:
        """Return the head."""
        return {"head": self.head, "rounds": self.rounds}

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        self.choices = []

    def propose(self) -> Script:
        """Think and ask, round after round, until the router answers."""
        able = {slug(role.expert): role for role in reversed(self.roles("answer"))}
        proposals: list[Proposal] = []
        asked: Counter[str] = Counter()
        for _ in range(self.rounds):
            chosen = self._next(able, proposals, asked)
            if chosen is None:
                break
            asked[slug(chosen.expert)] += 1
            self.note = f"{_thought(proposals, chosen)}<search>{chosen.expert}: {self.request}</search>"
            (reply,) = yield [chosen.call()]
            if (found := proposal(reply)) is not None:
                proposals.append(found)
        return plurality(proposals)

    def _next(
        self, able: dict[str, ExpertRole], proposals: Sequence[Proposal], asked: Counter[str]
    ) -> ExpertRole | None:
        """Return the model to ask next; None to answer, which is possible once there is information."""
        actions = self.head.actions
        features = _features(self.request, proposals, asked, actions, self.rounds)
        possible = tuple(bool(proposals) if name == ANSWER else name in able for name in actions)
        if not any(possible):
            return self.role("answer")  # trained with other models
        logps = log_chances(np.array(self.head.weights), features, possible)
        if self.sample:
            (action,) = self.rng.choices(range(len(actions)), np.exp(logps).tolist())
        else:
            action = int(logps.argmax())
        self.choices.append(Choice(features, possible, action, float(logps[action])))
        return None if actions[action] == ANSWER else able[actions[action]]


def log_chances(weights: Floats, features: Floats, possible: Sequence[bool]) -> Floats:
    """Return the log-probability of each action, shape ``(actions,)``; those that are not possible have -inf."""
    scores = np.where(possible, weights @ features, -math.inf)
    scores = scores - scores.max()
    return np.asarray(scores - math.log(np.exp(scores).sum()))


def group_advantages(rewards: Sequence[float], *, scale: bool) -> list[float]:
    """Return the advantages of the rollouts of one task: rewards less their mean; `scale`: over their deviation."""
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    values = np.array(rewards)
    deviation = values.std(ddof=1) + _DELTA if scale else 1.0
    return [float(one) for one in (values - values.mean()) / deviation]


def surrogate_gradient(weights: Floats, rows: Sequence[tuple[Sequence[Choice], float]], clip: float) -> Floats:
    """Return the gradient of GRPO's clipped surrogate, the mean over rollouts of their means over choices.

    Args:
        weights: Shape ``(actions, features)``.
        rows: Choices and advantage of each rollout.
        clip: A choice counts no more once its ratio has gone further from one than this, in its advantage's direction.
    """
    total = np.zeros_like(weights)
    for choices, advantage in rows:
        for choice in choices:
            logps = log_chances(weights, choice.features, choice.possible)
            ratio = math.exp(logps[choice.action] - choice.logp)
            if (ratio > 1 + clip and advantage > 0) or (ratio < 1 - clip and advantage < 0):
                continue
            slope = np.eye(len(weights))[choice.action] - np.exp(logps)
            total += advantage * ratio / len(choices) * np.outer(slope, choice.features)
    return total / max(1, len(rows))


def _rollouts(
    env: gymnasium.Env[Any, Any], policy: RouterR1, task: str, seed: int, group: int
) -> list[tuple[bool, float, list[Choice]]]:
    """Return whether each rollout of a task was solved, its cost and its choices; without those that nobody judged."""
    found = []
    for number in range(group):
        ended = play_episode(env, policy, seed=seed + number, options={"task_id": task})
        if ended["outcome"] in ("solved", "failed") and policy.choices:
            found.append((ended["outcome"] == "solved", ended["cost"], policy.choices))
    return found


def _features(
    request: str, proposals: Sequence[Proposal], asked: Counter[str], actions: Sequence[str], rounds: int
) -> Floats:
    """Return the features of a state: the request, how far the information agrees, and how often each was asked."""
    counts = [min(asked[name], 2) / 2 for name in actions[1:]]
    return np.concatenate([state_features(request, proposals, rounds), counts])


def _thought(proposals: Sequence[Proposal], chosen: ExpertRole) -> str:
    """Return what the router thinks before it asks."""
    if not proposals:
        return f"<think>Nothing is known yet. I ask {chosen.expert}.</think>"
    most = max(sum(same_proposal(one, other) for other in proposals) for one in proposals)
    return f"<think>{most} of {len(proposals)} answers agree, which is not enough. I ask {chosen.expert}.</think>"
