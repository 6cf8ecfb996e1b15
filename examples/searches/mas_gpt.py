"""MAS-GPT: one inference turns a question into a whole system of agents, learnt from pairs of questions and systems."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import gymnasium
import msgspec
import numpy as np

from examples.baselines.fitting import LearnedPolicy, QuestionVectors, adam, k_means, softmax
from examples.baselines.routing import EvaluationBank, RoutingEvaluation
from examples.searches.workflows import Space, random_workflow, single
from toolorchestra.agents.policies.base import Info
from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.orchestrators import Orchestrator
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import DesignFault
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl


class MASPair(msgspec.Struct, frozen=True):
    """A question and the system that it is paired with, as text."""

    question: str
    system: str


class MASGPT(Orchestrator, LearnedPolicy):
    """A generator writes a system for a question in one inference, trained on pairs of both (arXiv:2503.03686).

    The pairs are built as in the paper: every system of a pool is run on every training question, and similar questions
    are all paired with the one system that solves most of them (*inter-consistency*), of equal ones the cheapest, so
    that what is learnt is not which system was lucky. The generator is then trained by maximum likelihood on the pairs,
    and is asked once for each question: no search, no rounds, no outcome is seen.

    Simplified: the generator is a softmax regression over the pool in vectors of the question, where the paper
    fine-tunes a language model of 32 billion parameters, which can also write systems that are in no pair; questions
    are grouped by k-means; the pool is drawn, where the paper's is written by hand; systems are graphs in the design
    language, and are not rewritten for a question (the paper's *intra-consistency*) beyond that their agents read it.

    Args:
        seed: See `Policy`.
        pairs: What is learnt from.
        size: Numbers in the vector of a question.
    """

    def __init__(self, seed: int = 0, pairs: Sequence[MASPair] = (), size: int = 32) -> None:
        super().__init__(seed)
        if not pairs:
            raise OptionError("MASGPT learns from pairs of questions and systems: use MASGPT.fit(env) or paired().")
        self.pairs, self.size = tuple(pairs), size
        self.systems = tuple(dict.fromkeys(pair.system for pair in pairs))
        self._designs = [_designed(system) for system in self.systems]
        self._vectors = QuestionVectors(
            EvaluationBank(RoutingEvaluation(one.question, one.system, True, 0.0) for one in pairs), size
        )
        self._weights = self._trained()
        self._question = ""

    @classmethod
    def fit(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        split: str = "train",
        seed: int = 0,
        questions: int = 40,
        pool: int = 10,
        max_agents: int = 5,
        groups: int = 6,
        **options: Any,
    ) -> Self:
        """Return a generator trained on pairs from episodes that it plays.

        Args:
            env: A MAS-Orchestra environment of a high degree; `split` and `seed` are as in `LearnedPolicy.fit`.
            split: Split of the questions.
            seed: Of the pool and of the episodes.
            questions: How many questions each system is run on.
            pool: How many systems there are: an agent of each kind, and random ones.
            max_agents: Maximum number of agents of a system.
            groups: How many groups of similar questions there are.
            options: Further arguments of the policy.
        """
        if min(questions, pool, groups) < 1:
            raise OptionError(f"Expected at least one of each, got {questions=}, {pool=} and {groups=}.")
        _, info = env.reset(seed=seed, options={"split": split})
        space, rng = Space(tuple(info["tool_names"]), max_agents), random.Random(seed)
        systems = dict.fromkeys(to_text(single(kind)) for kind in space.kinds[:pool])
        while len(systems) < pool:
            systems[to_text(random_workflow(space, rng))] = None
        evaluations = []
        for number in range(seed, seed + questions):
            for system in systems:
                env.reset(seed=number, options={"split": split})
                *_, info = env.step(system)
                if info["outcome"] in ("solved", "failed"):
                    question = env.unwrapped.episode.instruction  # type: ignore[attr-defined]  # all of ours have it
                    solved = info["outcome"] == "solved"
                    evaluations.append(RoutingEvaluation(question, system, solved, info["cost"]))
        return cls(seed, paired(evaluations, groups, seed), **options)

    def learnt(self) -> dict[str, Any]:
        """Return the pairs."""
        return {"pairs": self.pairs, "size": self.size}

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read the question."""
        super().reset(env, observation, info)
        if self._dom != "high":
            raise OptionError("MASGPT writes graphs of agents: make the environment with dom='high'.")
        self._question = env.unwrapped.episode.instruction  # type: ignore[attr-defined]  # all of ours have it

    def design(self) -> Design:
        """Return the likeliest system for the present question."""
        return self._designs[int(np.argmax(self.chances(self._question)))]

    def chances(self, question: str) -> list[float]:
        """Return the probability of each of `systems` for a question."""
        return [float(one) for one in softmax(np.append(self._vectors.of(question), 1.0) @ self._weights)]

    def _trained(self) -> Any:
        """Return the weights of the softmax regression, shape ``(features, systems)``."""
        place = {question: row for row, question in enumerate(dict.fromkeys(pair.question for pair in self.pairs))}
        x = np.array([np.append(self._vectors.rows[place[pair.question]], 1.0) for pair in self.pairs])
        y = np.eye(len(self.systems))[[self.systems.index(pair.system) for pair in self.pairs]]

        def gradients(now: Sequence[Any]) -> list[Any]:
            return [x.T @ (softmax(x @ now[0]) - y) / len(x) + 1e-3 * now[0]]

        return adam([np.zeros((x.shape[1], len(self.systems)))], gradients)[0]


def paired(evaluations: Iterable[RoutingEvaluation], groups: int = 6, seed: int = 0) -> list[MASPair]:
    """Return each question with the system that solved most questions of its group, of equals the cheapest.

    Args:
        evaluations: Outcomes of systems (their texts are in `expert`) on questions.
        groups: How many groups of similar questions there are.
        seed: Of the groups.
    """
    bank = EvaluationBank(evaluations)
    _, members = k_means(QuestionVectors(bank).rows, groups, seed)
    table = bank.table()
    pairs: list[MASPair] = []
    for group in sorted(set(members.tolist())):
        rows = np.flatnonzero(members == group)
        solved, cost = np.nansum(table.solved[rows], axis=0), np.nansum(table.cost[rows], axis=0)
        best = min(range(len(table.experts)), key=lambda one: (-solved[one], cost[one]))
        if solved[best] > 0:  # a group that no system solves teaches nothing
            pairs += [MASPair(table.questions[row], table.experts[best]) for row in rows]
    if not pairs:
        raise OptionError("No system solved any question: run more systems, stronger agents or easier questions.")
    return pairs


class _Message(msgspec.Struct):
    content: str | None = None


class _Turn(msgspec.Struct):
    message: _Message


class _Recorded(msgspec.Struct):
    instruction: str
    outcome: str
    cost: float
    turns: list[_Turn]


def recorded(file: Path) -> list[RoutingEvaluation]:
    """Return the evaluations in recorded episodes of MAS-Orchestra's environments, for `paired`.

    Episodes that nobody judged, and those whose message is no design, are left out.
    """
    found = []
    for _, episode in read_jsonl(file, _Recorded, "an episode"):
        system = (episode.turns[0].message.content or "") if episode.turns else ""
        parsed = parse_design(system, "high")
        if episode.outcome in ("solved", "failed") and not isinstance(parsed, DesignFault):
            solved = episode.outcome == "solved"
            found.append(RoutingEvaluation(episode.instruction, to_text(parsed), solved, episode.cost))
    return found


def _designed(system: str) -> Design:
    design = parse_design(system, "high")
    if isinstance(design, DesignFault):
        raise OptionError(f"A pair has no valid system: {design}")
    return design
