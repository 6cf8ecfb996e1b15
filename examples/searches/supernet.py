"""An agentic supernet: a distribution over workflows, from which one is drawn for each question; two ways to learn it.

`MaAS` learns it by REINFORCE on success less cost, `ScoreFlow` by direct preference optimisation on pairs of workflows
with their scores. Both play MAS-Orchestra's environments of a high degree, on any source.
"""

from __future__ import annotations

import itertools
import math
import random
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import gymnasium
import msgspec
import numpy as np

from examples.baselines.fitting import Floats, LearnedPolicy, reinforced, softmax, unit
from examples.searches.workflows import INSTRUCTIONS, WorkflowNode, workflow_of
from toolorchestra.agents.policies.base import Info, play_episode
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.orchestrators import Orchestrator
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import OptionError

EXIT = "exit"
"""The operator that ends the workflow before its last layer."""
_WORDS = 8  # counts that the words of a question are hashed into
_COMPARE = INSTRUCTIONS[5]
_OPERATORS = (INSTRUCTIONS[0], INSTRUCTIONS[2], INSTRUCTIONS[4])  # by which agents of one kind differ


class Supernet(msgspec.Struct, frozen=True):
    """The weights of a controller: for each layer a row for each operator, with one weight for each feature.

    Attributes:
        operators: Kind and instruction of each operator; the last one is `EXIT`.
        weights: By layer, operator and feature.
    """

    operators: tuple[tuple[str, str], ...]
    weights: tuple[tuple[tuple[float, ...], ...], ...]

    @classmethod
    def untrained(cls, kinds: Sequence[str], layers: int) -> Supernet:
        """Return the one by which every operator is equally likely."""
        operators = [(kind, instruction) for kind in kinds for instruction in _OPERATORS]
        return cls.of([*operators, (EXIT, "")], np.zeros((layers, len(operators) + 1, 2 + _WORDS)))

    @classmethod
    def of(cls, operators: Sequence[tuple[str, str]], weights: Floats) -> Supernet:
        """Return the one with an array of weights."""
        rows = tuple(tuple(tuple(map(float, row)) for row in layer) for layer in weights)
        return cls(tuple(operators), rows)


class Drawn(NamedTuple):
    """A workflow as it was drawn: the question's features, and of each choice the layer, who was left, and who won."""

    features: Floats
    choices: tuple[tuple[int, tuple[int, ...], int], ...]

    def gradient(self, weights: Floats) -> tuple[float, Floats]:
        """Return the log-probability of these choices under weights, and its gradient."""
        total, gradient = 0.0, np.zeros_like(weights)
        for layer, able, won in self.choices:
            chances = softmax(weights[layer, list(able)] @ self.features)
            place = able.index(won)
            total += math.log(chances[place])
            gradient[layer, list(able)] -= np.outer(chances, self.features)
            gradient[layer, won] += self.features
        return total, gradient


class MaAS(Orchestrator, LearnedPolicy):
    """A controller draws a workflow for each question, layer by layer, and may end it early (arXiv:2502.04180).

    In each layer operators, agents of a kind with an instruction, are taken by their probability given the question
    until those taken together reach `threshold`; they read the layer before. The operator `EXIT` ends the
    workflow. `fit` draws workflows for training questions and follows the gradient of success less ``cost_weight``
    times cost. Afterwards the likeliest operators are taken.

    Simplified: the controller is linear in counts of the question's words, where the paper's reads an embedding and the
    layers before; operators' prompts are fixed, where the paper also rewrites them by textual gradients.

    Args:
        seed: See `Policy`.
        supernet: What was learnt.
        threshold: Probability that the operators of a layer reach together.
        width: Maximum number of operators of a layer.
        sample: Whether operators are drawn, as in training.
    """

    def __init__(
        self,
        seed: int = 0,
        supernet: Supernet | None = None,
        threshold: float = 0.3,
        width: int = 3,
        *,
        sample: bool = False,
    ) -> None:
        super().__init__(seed)
        if supernet is None:
            raise OptionError(f"{type(self).__name__} learns its supernet: use {type(self).__name__}.fit(env).")
        if not 0 < threshold < 1 or width < 1:
            raise OptionError(f"Expected a threshold between 0 and 1 and a width, got {threshold=} and {width=}.")
        self.supernet, self.threshold, self.width, self.sample = supernet, threshold, width, sample
        self.weights = np.array(supernet.weights)
        self.drawn = Drawn(np.zeros(0), ())
        """The last workflow as it was drawn."""
        self._features = np.zeros(0)

    @classmethod
    def fit(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        split: str = "train",
        seed: int = 0,
        episodes: int = 1024,
        batch: int = 32,
        layers: int = 3,
        rate: float = 1.0,
        cost_weight: float = 0.05,
        **options: Any,
    ) -> Self:
        """Return a policy trained by REINFORCE.

        Args:
            env: A MAS-Orchestra environment of a high degree; `split` and `seed` are as in `LearnedPolicy.fit`.
            split: Split of the questions.
            seed: Of the episodes.
            episodes: How many are played.
            batch: Episodes of one step along the gradient, whose mean reward is the baseline.
            layers: Layers of the supernet.
            rate: Length of a step.
            cost_weight: Weight in the reward of the cost, as a share of what a question costs at first.
            options: Further arguments of the policy.
        """
        policy = cls._untrained(env, split, seed, layers, options)

        def play(weights: Floats, number: int) -> tuple[bool, float, Drawn] | None:
            policy.weights = weights
            info = play_episode(env, policy, seed=seed + number, options={"split": split})
            judged = info["outcome"] in ("solved", "failed")
            return (info["outcome"] == "solved", info["cost"], policy.drawn) if judged else None

        sizes: dict[str, Any] = {"episodes": episodes, "batch": batch, "rate": rate, "cost_weight": cost_weight}
        policy.weights = reinforced(
            policy.weights, play, lambda drawn, now: drawn.gradient(now)[1], shortened=False, **sizes
        )
        return policy._trained(options)

    @classmethod
    def _untrained(
        cls, env: gymnasium.Env[Any, Any], split: str, seed: int, layers: int, options: dict[str, Any]
    ) -> Self:
        if layers < 1:
            raise OptionError(f"Expected at least one layer, got layers={layers}.")
        _, info = env.reset(seed=seed, options={"split": split})
        return cls(seed, Supernet.untrained(info["tool_names"], layers), sample=True, **options)

    def _trained(self, options: dict[str, Any]) -> Self:
        return type(self)(self.seed, Supernet.of(self.supernet.operators, self.weights), **options)

    def learnt(self) -> dict[str, Any]:
        """Return the supernet."""
        return {"supernet": self.supernet, "threshold": self.threshold, "width": self.width}

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read the question."""
        super().reset(env, observation, info)
        if self._dom != "high":
            raise OptionError("A supernet draws graphs of agents: make the environment with dom='high'.")
        self._features = _question_features(str(info["messages"][-1]["content"]))

    def design(self) -> Design:
        """Return the workflow of the present question."""
        operators, choices = self.supernet.operators, list[tuple[int, tuple[int, ...], int]]()
        known = [n for n, (kind, _) in enumerate(operators) if kind in self._kinds]
        exits = len(operators) - 1
        nodes: list[WorkflowNode] = []
        before: list[int] = []
        for layer in range(len(self.weights)):
            able = [*known, *([exits] if layer else [])]
            taken = self._taken(layer, able, choices)
            if not taken:
                break
            reads, before = frozenset(before), []
            for operator in taken:
                before.append(len(nodes))
                nodes.append(WorkflowNode(*operators[operator], reads))
        if len(before) > 1:
            nodes.append(WorkflowNode(operators[known[0]][0], _COMPARE, frozenset(before)))
        self.drawn = Drawn(self._features, tuple(choices))
        return workflow_of(nodes)

    def _taken(self, layer: int, able: list[int], choices: list[tuple[int, tuple[int, ...], int]]) -> list[int]:
        """Return the operators of a layer; none if it ends here."""
        if not able:
            raise OptionError("The supernet was trained with other kinds of agent: fit it on this environment.")
        all_chances = dict(zip(able, softmax(self.weights[layer, able] @ self._features).tolist(), strict=True))
        taken: list[int] = []
        while able and len(taken) < self.width and sum(all_chances[one] for one in taken) < self.threshold:
            weights = [all_chances[one] for one in able]
            won = self.rng.choices(able, weights)[0] if self.sample else able[int(np.argmax(weights))]
            choices.append((layer, tuple(able), won))
            if self.supernet.operators[won][0] == EXIT:
                break
            taken.append(won)
            able = [one for one in able if one != won and self.supernet.operators[one][0] != EXIT]
        return taken


class ScoreFlow(MaAS):
    """Workflows for a question are drawn and scored, and Score-DPO prefers the better ones (arXiv:2502.04306).

    For each training question `draws` workflows are drawn, and each is played `tries` times; its score is the share
    solved. Of every pair with different scores the loss is ``-(s_w - s_l) log σ(β (s_w · r_w - (1 - s_l) · r_l))``,
    where r is the log-ratio of the probability now and in the policy that drew it: scores weigh pairs and rewards.

    Simplified: the generator is MaAS's supernet, where the paper trains a language model that writes programs; all
    pairs count with their weights rather than being sampled by them.
    """

    @classmethod
    def fit(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        split: str = "train",
        seed: int = 0,
        questions: int = 40,
        draws: int = 6,
        tries: int = 3,
        iterations: int = 3,
        steps: int = 30,
        layers: int = 3,
        rate: float = 0.5,
        beta: float = 0.5,
        **options: Any,
    ) -> Self:
        """Return a policy trained by Score-DPO.

        Args:
            env: A MAS-Orchestra environment of a high degree; `split` and `seed` are as in `LearnedPolicy.fit`.
            split: Split of the questions.
            seed: Of the episodes.
            questions: Questions of an iteration.
            draws: Workflows of a question.
            tries: How often each is played.
            iterations: How often workflows are drawn anew by what was learnt.
            steps: Steps along the gradient in an iteration.
            layers: Layers of the supernet.
            rate: Length of a step.
            beta: By which log-ratios count.
            options: Further arguments of the policy.
        """
        policy = cls._untrained(env, split, seed, layers, options)
        for iteration in range(iterations):
            pairs = []
            for number in range(questions):
                place = seed + iteration * questions + number
                pairs += policy._pairs(env, split, place, draws, tries)
            before = policy.weights
            for _ in range(steps):
                gradient = _preference_gradient(pairs, policy.weights, before, beta)
                policy.weights = policy.weights + rate * unit(gradient, shortened=False)
        return policy._trained(options)

    def _pairs(
        self, env: gymnasium.Env[Any, Any], split: str, seed: int, draws: int, tries: int
    ) -> list[tuple[Drawn, float, Drawn, float]]:
        """Return pairs of workflows for one question, the better one first, with their scores."""
        env.reset(seed=seed, options={"split": split})
        task = env.unwrapped.task.id  # type: ignore[attr-defined]  # every environment of the library has it
        found: list[tuple[Drawn, float]] = []
        for draw in range(draws):
            workflow = _Repeated(type(self)(self.seed * draws + draw, self.supernet, sample=True), self.weights)
            outcomes = []
            for attempt in range(tries):
                info = play_episode(env, workflow, seed=seed * tries + attempt, options={"task_id": task})
                if info["outcome"] in ("solved", "failed"):
                    outcomes.append(info["outcome"] == "solved")
            if outcomes:
                found.append((workflow.drawn, sum(outcomes) / len(outcomes)))
        both = itertools.permutations(found, 2)
        return [(*one, *other) for one, other in both if one[1] > other[1]]


class _Repeated(Orchestrator):
    """Plays one workflow, drawn at the first episode, again and again."""

    def __init__(self, drawing: MaAS, weights: Floats) -> None:
        super().__init__(drawing.seed)
        self._drawing = drawing
        self._design: Design | None = None
        drawing.weights = weights

    @property
    def drawn(self) -> Drawn:
        """How it was drawn."""
        return self._drawing.drawn

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode, the first one with a draw."""
        super().reset(env, observation, info)
        if self._design is None:
            self._drawing.reset(env, observation, info)
            self._drawing.rng = random.Random(f"{self.seed}:{info['task_id']}")
            self._design = self._drawing.design()

    def design(self) -> Design:
        """Return the workflow."""
        assert self._design is not None, "reset() comes first"
        return self._design


def _preference_gradient(
    pairs: Sequence[tuple[Drawn, float, Drawn, float]], weights: Floats, before: Floats, beta: float
) -> Floats:
    """Return the mean direction in which Score-DPO's loss falls."""
    total = np.zeros_like(weights)
    for better, high, worse, low in pairs:
        won, up = better.gradient(weights)
        lost, down = worse.gradient(weights)
        ratios = (won - better.gradient(before)[0], lost - worse.gradient(before)[0])
        margin = beta * (high * ratios[0] - (1 - low) * ratios[1])
        wrong = 1 / (1 + math.exp(min(50.0, max(-50.0, margin))))
        total += (high - low) * beta * wrong * (high * up - (1 - low) * down)
    return total / max(1, len(pairs)) * 10


def _question_features(question: str) -> Floats:
    """Return a constant, the length, and counts of hashed words."""
    words = list(tokens(question))
    counts = np.zeros(_WORDS)
    for word in words:
        counts[zlib.crc32(word.encode()) % _WORDS] += 1
    return np.array([1.0, min(len(words), 200) / 200, *(np.minimum(counts, 8) / 8)])
