"""Policies that choose which agent is asked next: Puppeteer, trained by REINFORCE, and Router-R1, by GRPO."""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium
import msgspec
import numpy as np

from examples.baselines.fitting import Floats, LearnedPolicy, reinforced, unit
from toolorchestra.agents.policies.base import Info, play_episode
from toolorchestra.agents.policies.baselines import Baseline, Script
from toolorchestra.agents.policies.expert_roles import (
    ExpertRole,
    Proposal,
    expert_roles,
    plurality,
    proposal,
    same_proposal,
    slug,
)
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import write_whole

WORDS = 12
"""Number of counts that the words of a request are hashed into."""
STOP = "stop"
"""Puppeteer's action that asks nobody more, and follows the most frequent proposal."""
ANSWER = "answer"
"""Router-R1's action that asks no further model, and answers."""
_DELTA = 1e-4  # added to deviations, as in `toolorchestra.algos.loss.advantages`


class AgentHead(msgspec.Struct, frozen=True):
    """Weights learnt, with the names of what they choose among.

    Attributes:
        actions: Names of the actions, one for each row.
        weights: A row of weights for each action, with one for each feature.
        texts: Texts whose words the encoder of the state knows, where a model encodes it.
    """

    actions: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, actions: Sequence[str], weights: Floats, texts: Sequence[str] = ()) -> AgentHead:
        """Return the head of an array of weights."""
        return cls(tuple(actions), tuple(tuple(map(float, row)) for row in weights), tuple(texts))

    def scores(self, features: Floats) -> Floats:
        """Return the score of each action."""
        return np.array(self.weights) @ features

    def save(self, file: Path) -> None:
        """Write the head as JSON."""
        write_whole(file, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @classmethod
    def load(cls, file: Path) -> AgentHead:
        """Read a head that `save` wrote; else raise `OptionError`."""
        try:
            found = msgspec.json.decode(file.read_bytes(), type=cls)
        except OSError as error:
            raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise OptionError(f"{file}: expected the JSON of a head that `save` writes: {error}.") from None
        if len(found.weights) != len(found.actions) or len({len(row) for row in found.weights}) != 1:
            raise OptionError(f"{file}: expected a row of weights, all of one length, for each of the actions.")
        return found


def given_head(head: AgentHead | Path | str | None, policy: str) -> AgentHead:
    """Return a head, read from a file if it is one; `OptionError` that says how to get one where there is none."""
    if head is None:
        raise OptionError(f"{policy} learns which agent to ask: use {policy}.fit(env), or give the file of a head.")
    return head if isinstance(head, AgentHead) else AgentHead.load(Path(head))


def agent_name(role: ExpertRole) -> str:
    """Return the name of an expert in a role, such as ``code:gpt_5``."""
    return f"{role.job}:{slug(role.expert)}"


def state_features(request: str, proposals: Sequence[Proposal], steps: int) -> Floats:
    """Return the features of a state: the request's words, and how far experts agree.

    They are a constant, the request's length, counts of its hashed words, the share of the steps taken, whether
    anything was proposed, and the share of the proposals that agree with the most frequent one, with their number.
    """
    words = list(tokens(request))
    counts = np.zeros(WORDS)
    for word in words:
        counts[zlib.crc32(word.encode()) % WORDS] += 1
    most = max((sum(same_proposal(one, other) for other in proposals) for one in proposals), default=0)
    share = most / len(proposals) if proposals else 0.0
    state = (1.0, min(len(words), 100) / 100, len(proposals) / steps, bool(proposals), share, min(most, 3) / 3)
    return np.array([*state, *np.minimum(counts, 4) / 4], dtype=np.float64)


class Choice(NamedTuple):
    """A choice: what was seen, which actions were possible, the action, and its log-probability when it was drawn."""

    features: Floats
    possible: tuple[bool, ...]
    action: int
    logp: float

    def slope(self, weights: Floats) -> Floats:
        """Return the gradient of the action's log-probability under weights."""
        chances = np.exp(log_chances(weights, self.features, self.possible))
        return np.outer(np.eye(len(weights))[self.action] - chances, self.features)


class NextAgent(Baseline, LearnedPolicy):
    """Asks one agent after the other, as a linear head chooses, and follows the most frequent proposal.

    Args:
        seed: See `Policy`.
        head: What was learnt, an `AgentHead` or the file of one.
        rounds: Maximum number of agents that are asked about one step.
        sample: Whether agents are drawn by their probabilities, as in training.
    """

    last: ClassVar[str]
    """The action that asks nobody more."""

    def __init__(
        self, seed: int = 0, head: AgentHead | Path | str | None = None, rounds: int = 4, *, sample: bool = False
    ) -> None:
        super().__init__(seed)
        if rounds < 1:
            raise OptionError(f"Expected to ask at least one agent, got rounds={rounds}.")
        self.head, self.rounds, self.sample = given_head(head, type(self).__name__), rounds, sample
        self.choices: list[Choice] = []
        """The choices of the episode so far."""

    def learnt(self) -> dict[str, Any]:
        """Return the head."""
        return {"head": self.head, "rounds": self.rounds}

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        self.choices = []

    def played(self, env: gymnasium.Env[Any, Any], **reset: Any) -> tuple[bool, float, list[Choice]] | None:
        """Play an episode; return whether it was solved, its cost and its choices, or None if nobody judged it."""
        ended = play_episode(env, self, **reset)
        judged = ended["outcome"] in ("solved", "failed")
        return (ended["outcome"] == "solved", ended["cost"], self.choices) if judged else None

    @abstractmethod
    def able(self) -> dict[str, ExpertRole]:
        """Return the agents that can be asked, by the names of the actions that ask them."""

    def features(self, proposals: Sequence[Proposal], asked: Counter[str]) -> Floats:
        """Return what the head sees: proposals so far, and how often each agent was asked."""
        return state_features(self.request, proposals, self.rounds)

    def thought(self, proposals: Sequence[Proposal], chosen: ExpertRole) -> str:
        """Return what is said beside the question to an agent."""
        return ""

    def propose(self) -> Script:
        """Ask agent after agent until the head ends it."""
        able, asked = self.able(), Counter[str]()
        proposals: list[Proposal] = []
        for _ in range(self.rounds):
            name = self._next(able, proposals, asked)
            if name == self.last:
                break
            chosen = self.role("answer") if name is None else able[name]
            asked[slug(chosen.expert)] += 1
            self.note = self.thought(proposals, chosen)
            (reply,) = yield [chosen.call()]
            if (found := proposal(reply)) is not None:
                proposals.append(found)
        return plurality(proposals)

    def _next(self, able: dict[str, ExpertRole], proposals: list[Proposal], asked: Counter[str]) -> str | None:
        """Return the next action, `last` only once there is a proposal; None if the head knows none of these agents."""
        actions = self.head.actions
        possible = tuple(bool(proposals) if name == self.last else name in able for name in actions)
        if not any(possible):
            return None
        features = self.features(proposals, asked)
        logps = log_chances(np.array(self.head.weights), features, possible)
        drawn = self.sample and self.rng.choices(range(len(actions)), np.exp(logps).tolist())[0]
        action = int(drawn) if self.sample else int(logps.argmax())
        self.choices.append(Choice(features, possible, action, float(logps[action])))
        return actions[action]


class Puppeteer(NextAgent):
    """A policy chooses the next agent from the state of the work; REINFORCE trains it (arXiv:2505.19591).

    Agents are the experts in their roles. At each point the policy, a softmax over agents and stopping, sees the
    request and how far the proposals so far agree. `fit` plays training tasks and follows the gradient of the mean
    reward: 1 for a solved task, less ``cost_weight`` times the episode's cost as a share of what random choices cost.
    Afterwards the likeliest agent is asked.

    Simplified: the policy is linear in a few features, where the paper trains a reward model of 70 billion parameters;
    the cost of a step does not grow with its number. Proposals are aggregated by their plurality, as by the paper's
    vote.
    """

    last = STOP

    def able(self) -> dict[str, ExpertRole]:
        """Return all experts in all their roles."""
        return {agent_name(role): role for role in self.experts}

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
        start = np.zeros((len(actions), len(state_features("", (), 1))))

        def play(weights: Floats, number: int) -> tuple[bool, float, list[Choice]] | None:
            policy = cls(seed, AgentHead.of(actions, weights), sample=True, **options)
            return policy.played(env, seed=seed + number, options={"split": split})

        sizes: dict[str, Any] = {"episodes": episodes, "batch": batch, "rate": rate, "cost_weight": cost_weight}
        weights = reinforced(
            start, play, lambda choices, now: sum((one.slope(now) for one in choices), np.zeros_like(now)), **sizes
        )
        return cls(seed, AgentHead.of(actions, weights), **options)


class RouterR1(NextAgent):
    """A router interleaves thinking and asking models of its choice, and aggregates what they say (arXiv:2506.09033).

    Every message has the paper's form: a thought in ``<think>``, then ``<search>MODEL: QUERY</search>`` beside the
    call, whose result comes back as information that later rounds see; in the end the answer. `fit` trains it by
    GRPO: the rollouts of one task are compared with each other, by a reward of ``(1 - α) · outcome + α · cost
    reward``, and the importance ratio of each choice is clipped, as in `toolorchestra.algos.loss.losses`.

    Simplified: the router is a softmax in a few features of the state, where the paper trains a language model of 3
    billion parameters, so thoughts are worded by a template, queries are the user's request, and formats are never
    wrong (the reward for format is left out); answers are aggregated by their plurality.
    """

    last = ANSWER

    def able(self) -> dict[str, ExpertRole]:
        """Return the experts that answer."""
        return {slug(role.expert): role for role in reversed(self.roles("answer"))}

    def features(self, proposals: Sequence[Proposal], asked: Counter[str]) -> Floats:
        """Return the features of a state: the request, how far the information agrees, how often each was asked."""
        counts = [min(asked[name], 2) / 2 for name in self.head.actions[1:]]
        return np.concatenate([super().features(proposals, asked), counts])

    def thought(self, proposals: Sequence[Proposal], chosen: ExpertRole) -> str:
        """Return the router's thought and its question, in the paper's form."""
        return f"{_thought(proposals, chosen)}<search>{chosen.expert}: {self.request}</search>"

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
        weights = np.zeros((len(actions), len(state_features("", (), 1)) + len(actions) - 1))
        usual: float | None = None
        for step in range(steps):
            policy = cls(seed, AgentHead.of(actions, weights), sample=True, **options)
            groups: list[list[tuple[bool, float, list[Choice]]]] = []
            for place in range(step * tasks, (step + 1) * tasks):
                env.reset(seed=seed + place, options={"split": split})
                task = env.unwrapped.task.id  # type: ignore[attr-defined]  # every environment of the library has it
                numbers = range((seed + place) * group, (seed + place + 1) * group)
                rollouts = [policy.played(env, seed=number, options={"task_id": task}) for number in numbers]
                groups.append([one for one in rollouts if one is not None and one[2]])
            played = [one for group_played in groups for one in group_played]
            if not played:
                continue
            if usual is None:
                usual = sum(cost for _, cost, _ in played) / len(played) or 1.0
            rows: list[tuple[list[Choice], float]] = []
            for one in groups:
                rewards = [
                    (1 - cost_weight) * solved + cost_weight * (1 - min(1.0, cost / (2 * usual)))
                    for solved, cost, _ in one
                ]
                advantages = group_advantages(rewards, scale=scale)
                rows += [(choices, a) for (*_, choices), a in zip(one, advantages, strict=True)]
            for _ in range(epochs):
                weights = weights + rate * unit(surrogate_gradient(weights, rows, clip))
        return cls(seed, AgentHead.of(actions, weights), **options)


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
            ratio = math.exp(log_chances(weights, choice.features, choice.possible)[choice.action] - choice.logp)
            if (ratio > 1 + clip and advantage > 0) or (ratio < 1 - clip and advantage < 0):
                continue
            total += advantage * ratio / len(choices) * choice.slope(weights)
    return total / max(1, len(rows))


def _thought(proposals: Sequence[Proposal], chosen: ExpertRole) -> str:
    """Return what the router thinks before it asks."""
    if not proposals:
        return f"<think>Nothing is known yet. I ask {chosen.expert}.</think>"
    most = max(sum(same_proposal(one, other) for other in proposals) for one in proposals)
    return f"<think>{most} of {len(proposals)} answers agree, which is not enough. I ask {chosen.expert}.</think>"
