"""Ways to propose workflows: at random, by evolution with niches, by tree search over edits, and by learnt edges.

`Evolution` is EvoFlow's search, `MixedTreeSearch` is AFlow's, and `EdgeSearch` is GPTSwarm's; in `MetaAgentSearch`,
which is ADAS, a chat model reads the archive of workflows with their scores and writes the next one, in the design
language, which is parsed and never executed. A proposal follows from the candidates before it, the random numbers and
the model's answers alone. Measuring and recording are in `examples.searches.search`.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from examples.searches.workflows import (
    INSTRUCTIONS,
    Space,
    WorkflowNode,
    crossed,
    mutated,
    random_workflow,
    workflow_of,
)
from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import DesignFault
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.intervals import wilson_interval

_BY_RANK = attrgetter("rank")


class WorkflowCandidate(msgspec.Struct, frozen=True, tag="candidate"):
    """A workflow that was measured.

    Attributes:
        number: From 0, in the order proposed.
        design: The workflow.
        parents: Numbers of the candidates that it was made of.
        move: How.
        score: Share of the validation questions that it answered rightly.
        episodes: How many were asked, those apart that came to nothing (a model that could not be reached).
        usd: Mean cost of a question in US dollars.
        seconds: Mean time of a question.
    """

    number: int
    design: Design
    parents: tuple[int, ...] = ()
    move: str = "start"
    score: float = 0.0
    episodes: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the score."""
        return wilson_interval(round(self.score * self.episodes), self.episodes)

    @property
    def rank(self) -> tuple[float, float, int]:
        """A key that sorts the best first: the highest score, of equal ones the cheapest, then the first."""
        return -self.score, self.usd, self.number


@dataclass
class WorkflowSearch(ABC):
    """A way to propose workflows of a `space`. Override `propose`."""

    space: Space

    @abstractmethod
    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return the next workflow, not measured yet, given those measured: at least the single agent."""


class RandomSearch(WorkflowSearch):
    """Every workflow is drawn anew."""

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return a random workflow."""
        return WorkflowCandidate(len(history), random_workflow(self.space, rng), (), "random")


@dataclass
class Evolution(WorkflowSearch):
    """Evolution with niches: workflows compete with those of their size, so that small ones live beside large ones.

    As EvoFlow (arXiv:2502.07373) it crosses, mutates, and selects within niches, which keeps cheap workflows beside
    strong ones. Simplified: a niche is a size, where the paper compares by cost and tags; edits are drawn, where a
    model rewrites prompts.

    Attributes:
        first: Workflows drawn at random before any is bred.
        niche: Survivors of each size.
        crossing: Probability that two are crossed rather than one mutated.
    """

    first: int = 8
    niche: int = 2
    crossing: float = 0.3

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return a random workflow at first, then a child of survivors."""
        if len(history) < self.first:
            return WorkflowCandidate(len(history), random_workflow(self.space, rng), (), "random")
        alive = self.survivors(history)
        mother, father = self._fittest(alive, rng), self._fittest(alive, rng)
        if rng.random() < self.crossing and mother is not father:
            both = crossed(mother.design, father.design, self.space, rng)
            if both is not None:
                return WorkflowCandidate(len(history), both, (mother.number, father.number), "crossed")
        child, move = mutated(mother.design, self.space, rng)
        return WorkflowCandidate(len(history), child, (mother.number,), move)

    def survivors(self, history: Sequence[WorkflowCandidate]) -> list[WorkflowCandidate]:
        """Return the best of each size."""
        niches: dict[int, list[WorkflowCandidate]] = {}
        for candidate in sorted(history, key=_BY_RANK):
            niches.setdefault(len(candidate.design.agents), []).append(candidate)
        return [candidate for _, found in sorted(niches.items()) for candidate in found[: self.niche]]

    @staticmethod
    def _fittest(alive: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        return min(rng.choices(alive, k=2), key=_BY_RANK)


@dataclass
class TreeSearch(WorkflowSearch):
    """Monte Carlo tree search: every workflow is an edit of another, and good branches are followed further.

    From the root it descends to the child with the best upper bound, until it comes to a node that may have one more
    child (as many as the root of its visits); the score of a new workflow counts for all above it.

    Attributes:
        exploration: Weight of workflows that have few edits yet.
    """

    exploration: float = 0.5

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return an edit of the node to which the descent comes."""
        children: list[list[int]] = [[] for _ in history]
        visits, total = [1] * len(history), [one.score for one in history]
        for candidate in reversed(history):  # children come after their parents
            if candidate.parents:
                (parent,) = candidate.parents
                children[parent].append(candidate.number)
                visits[parent] += visits[candidate.number]
                total[parent] += total[candidate.number]
        at = 0
        while len(children[at]) >= math.sqrt(visits[at]):
            spread = self.exploration * math.sqrt(math.log(visits[at]))
            at = max(children[at], key=lambda one: (total[one] / visits[one] + spread / math.sqrt(visits[one]), -one))
        design, move = mutated(history[at].design, self.space, rng)
        return WorkflowCandidate(len(history), design, (at,), move)


@dataclass
class MixedTreeSearch(WorkflowSearch):
    """AFlow: a parent is drawn by score mixed with chance, and what failed at it is not tried again (arXiv:2410.10762).

    The parent is one of the `top` best workflows or the first one, with probability ``λ / n + (1 - λ) softmax(α (s -
    max s))``, scores in percentage points. The experience at a node, which edits of it made it better or worse,
    is passed on: an edit that made its parent worse is drawn again only when all have.

    Simplified: edits are drawn from `EDITS` rather than written by a model.

    Attributes:
        top: Number of best workflows to choose among.
        uniform: λ, the share of uniform choice.
        sharpness: α, by which scores count.
    """

    top: int = 3
    uniform: float = 0.2
    sharpness: float = 0.4

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return an edit of the parent that is drawn."""
        best = sorted(history, key=_BY_RANK)[: self.top]
        able = best if history[0] in best else [*best, history[0]]
        parent = rng.choices(able, self.chances(able))[0]
        worse = {one.move for one in history if one.parents == (parent.number,) and one.score < parent.score}
        for _ in range(_TRIES):
            design, move = mutated(parent.design, self.space, rng)
            if move not in worse:
                break
        return WorkflowCandidate(len(history), design, (parent.number,), move)

    def chances(self, able: Sequence[WorkflowCandidate]) -> list[float]:
        """Return the probability of each to be the parent."""
        highest = max(one.score for one in able)
        weights = [math.exp(100 * self.sharpness * (one.score - highest)) for one in able]
        return [self.uniform / len(able) + (1 - self.uniform) * weight / sum(weights) for weight in weights]


@dataclass
class EdgeSearch(WorkflowSearch):
    """GPTSwarm: agents are fixed, and which of them read one another is learnt by REINFORCE (arXiv:2402.16823).

    Every possible edge from an earlier agent to a later one has a probability, a half at first. A graph is drawn edge
    by edge, and after it was measured the logits of its edges move by ``rate · (score - mean score) · (drawn -
    probability)``, the REINFORCE gradient. Every `show`-th proposal is the likeliest graph. The logits follow from the
    candidates before, so that a search can be continued.

    Simplified: agents are in one order, so that no graph has a cycle, and their prompts are not optimised; an agent
    that nobody reads is read by the last one.

    Attributes:
        agents: Number of agents; as many as the space allows by default.
        rate: Length of a step.
        show: See above.
    """

    agents: int | None = None
    rate: float = 4.0
    show: int = 5

    def __post_init__(self) -> None:
        if not 2 <= self._count <= self.space.max_agents or self.show < 1:
            raise OptionError(f"Expected 2 to {self.space.max_agents} agents and a positive `show`, got {self}.")

    @property
    def _count(self) -> int:
        return self.space.max_agents if self.agents is None else self.agents

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return a graph that is drawn, or the likeliest one."""
        chances = self.chances(history)
        if len(history) % self.show == 0:
            drawn = {edge for edge, chance in chances.items() if chance > 0.5}
            graph = self._graph(drawn)
            if all(one.design != graph for one in history):
                return WorkflowCandidate(len(history), graph, (), _edges_text(drawn))
        drawn = {edge for edge, chance in chances.items() if rng.random() < chance}
        return WorkflowCandidate(len(history), self._graph(drawn), (), _edges_text(drawn))

    def chances(self, history: Sequence[WorkflowCandidate]) -> dict[tuple[int, int], float]:
        """Return the probability of each edge, as learnt from the graphs that were measured."""
        logits = dict.fromkeys(((i, j) for j in range(self._count) for i in range(j)), 0.0)
        scores: list[float] = []
        for one in history:
            if not one.move.startswith(_EDGES):
                continue
            drawn = _edges_in(one.move)
            advantage = one.score - (sum(scores) / len(scores) if scores else one.score)
            for edge, logit in logits.items():
                logits[edge] = logit + self.rate * advantage * ((edge in drawn) - _sigmoid(logit))
            scores.append(one.score)
        return {edge: _sigmoid(logit) for edge, logit in logits.items()}

    def _graph(self, drawn: set[tuple[int, int]]) -> Design:
        kinds = self.space.kinds
        return workflow_of(
            [
                WorkflowNode(
                    kinds[at % len(kinds)],
                    INSTRUCTIONS[at % len(INSTRUCTIONS)],
                    frozenset(one for one, reader in drawn if reader == at),
                )
                for at in range(self._count)
            ]
        )


_TRIES = 20  # edits drawn for one that has not failed before
_EDGES = "edges"


def _edges_text(drawn: set[tuple[int, int]]) -> str:
    return " ".join([_EDGES, *(f"{one}-{reader}" for one, reader in sorted(drawn))])


def _edges_in(move: str) -> set[tuple[int, int]]:
    pairs = (text.split("-") for text in move.split()[1:])
    return {(int(one), int(reader)) for one, reader in pairs}


def _sigmoid(x: float) -> float:
    return 0.5 * (1 + math.tanh(x / 2))


# ------------------------------------------------------------------------------------------- by a chat model

_SYSTEM = """\
You design multi-agent systems. A system is a graph of agents that answers any question it is given. You see the systems
that were tried, with the share of questions that each answered rightly and its mean cost, and write a new one that is
better and different.

Write it in this form, and nothing else:

{example}

Kinds of agent: {kinds}. At most {max_agents} agents; one of them is read by no other and gives the answer. An input is
an instruction, with ${{ID}} where the answer of another agent goes; empty, it is the question. The edges, all in one
block, are exactly these references."""
_ARCHIVE = "Tried so far, the best last:\n\n{tried}\n\nWrite the next system."
_AGAIN = "This is no valid system: {fault}\nWrite it again, corrected."


@dataclass
class MetaAgentSearch(WorkflowSearch):
    """A meta agent programs new agents from an archive of those before (arXiv:2408.08435).

    Each proposal shows the `archive` best workflows with their scores and costs; one that breaks a rule of the language
    is shown back with the rule, at most `repairs` times, in the place of the paper's reflections. Where none is valid,
    the search goes on with the next draw.

    Simplified: agents are graphs in the design language, where the paper's are Python programs.

    Attributes:
        model: The chat model that designs; what it costs is in its `meter`.
        archive: Number of workflows shown.
        repairs: How often a faulty design is shown back.
        temperature: Of its samples.
    """

    model: ChatModel | None = None
    archive: int = 10
    repairs: int = 2
    temperature: float = 0.8

    def __post_init__(self) -> None:
        if self.model is None or self.archive < 1 or self.repairs < 0:
            raise OptionError(
                f"Expected a chat model that designs (model=…), an archive and no fewer than 0 repairs, got {self}."
            )

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return what the model writes; the first workflow again if that is none."""
        assert self.model is not None
        shown = sorted(history, key=lambda one: one.rank, reverse=True)[-self.archive :]
        tried = "\n\n".join(f"{to_text(one.design)}\nscore {one.score:.1%}, ${one.usd:.4f}" for one in shown)
        kinds, limit = ", ".join(self.space.kinds), self.space.max_agents
        first = WorkflowNode(self.space.kinds[0])
        example = workflow_of([first, WorkflowNode(self.space.kinds[-1], INSTRUCTIONS[4], frozenset((0,)))])
        messages = [
            {"role": "system", "content": _SYSTEM.format(kinds=kinds, max_agents=limit, example=to_text(example))},
            {"role": "user", "content": _ARCHIVE.format(tried=tried)},
        ]
        for _ in range(self.repairs + 1):
            request = ChatRequest(
                tuple(messages), temperature=self.temperature, max_tokens=4_096, seed=rng.getrandbits(31)
            )
            text = self.model.complete([request])[0].text
            found = parse_design(text, "high", self.space.kinds)
            if isinstance(found, Design) and 1 <= len(found.agents) <= self.space.max_agents:
                return WorkflowCandidate(len(history), found, (), "written")
            fault = str(found) if isinstance(found, DesignFault) else f"it has {len(found.agents)} agents."
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": _AGAIN.format(fault=fault)},
            ]
        return WorkflowCandidate(len(history), history[0].design, (), "none")


METHODS: dict[str, type[WorkflowSearch]] = {
    "adas": MetaAgentSearch,
    "aflow": MixedTreeSearch,
    "evolution": Evolution,
    "gptswarm": EdgeSearch,
    "random": RandomSearch,
    "tree": TreeSearch,
}
"""Ways to search, by name; `adas` needs the option `model`, a chat model that designs."""
