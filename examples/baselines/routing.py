"""Routing by what experts did on training questions, and the router by k nearest neighbours.

An evaluation is an expert's episode on a training question, recorded (`toolorchestra rollout --policy direct`) or
played by `Router.fit`. Similarity is the cosine of TF-IDF weights of words. Other routers are in
`examples.baselines.routers`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from examples.baselines.fitting import LearnedPolicy
from toolorchestra.agents.policies.base import Info, play_episode
from toolorchestra.agents.policies.baselines import Direct
from toolorchestra.agents.policies.expert_roles import ExpertRole, Proposal, choose, expert_roles, proposal, slug
from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.jsonl import read_jsonl
from toolorchestra.toolscale.common.writing import write_whole


class RoutingEvaluation(msgspec.Struct, frozen=True):
    """The outcome of an expert's episode on a question.

    Attributes:
        question: The user's request.
        expert: The expert's name as a `slug`.
        solved: Whether the episode was solved.
        cost: US dollars of the episode.
        proposals: What the expert proposed, as `proposal_text` writes it: answers, and in a domain also calls.
    """

    question: str
    expert: str
    solved: bool
    cost: float
    proposals: tuple[str, ...] = ()


class EvaluationTable(NamedTuple):
    """Means of the evaluations: rows are questions, columns experts; NaN where an expert was not evaluated."""

    questions: tuple[str, ...]
    experts: tuple[str, ...]
    solved: NDArray[np.float64]
    cost: NDArray[np.float64]


class EvaluationBank:
    """Evaluations of experts on questions; at least one."""

    def __init__(self, evaluations: Iterable[RoutingEvaluation]) -> None:
        self.evaluations = tuple(evaluations)
        if not self.evaluations:
            raise OptionError("Expected at least one evaluation to route by, got none.")
        self._of: dict[str, list[RoutingEvaluation]] = {}
        for evaluation in self.evaluations:
            self._of.setdefault(evaluation.question, []).append(evaluation)
        self._questions = list(self._of)
        counts = [Counter(tokens(question)) for question in self._questions]
        documents = Counter(word for count in counts for word in count)
        self._column = {word: column for column, word in enumerate(documents)}
        self._rarity = np.array([math.log(1 + len(counts) / number) for number in documents.values()])
        self._vectors = np.zeros((len(counts), len(documents)), dtype=np.float32)
        for row, count in enumerate(counts):
            self._vectors[row] = self._vector(count)

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions, in the order of their first evaluations."""
        return tuple(self._questions)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The TF-IDF vectors of the questions, one a row."""
        return self._vectors

    def vector(self, text: str) -> NDArray[np.float64]:
        """Return the TF-IDF vector of a text, of length 1; words that no question has do not count."""
        return self._vector(Counter(tokens(text)))

    def table(self) -> EvaluationTable:
        """Return the means of the evaluations of each expert on each question."""
        experts = tuple(dict.fromkeys(one.expert for one in self.evaluations))
        solved = np.full((len(self._questions), len(experts)), math.nan)
        cost = solved.copy()
        for row, question in enumerate(self._questions):
            for column, expert in enumerate(experts):
                if found := [one for one in self._of[question] if one.expert == expert]:
                    solved[row, column] = sum(one.solved for one in found) / len(found)
                    cost[row, column] = sum(one.cost for one in found) / len(found)
        return EvaluationTable(self.questions, experts, solved, cost)

    def _vector(self, count: Mapping[str, int]) -> NDArray[np.float64]:
        """Return the weights of words, of length 1; words that no question has do not count."""
        vector = np.zeros(len(self._column))
        for word, number in count.items():
            if (column := self._column.get(word)) is not None:
                vector[column] = (1 + math.log(number)) * self._rarity[column]
        return vector / (np.linalg.norm(vector) or 1.0)

    def nearest(self, question: str, k: int) -> list[str]:
        """Return the k most similar questions, the most similar first."""
        likeness = self._vectors @ self._vector(Counter(tokens(question)))
        return [self._questions[row] for row in np.argsort(-likeness, kind="stable")[:k]]

    def best(self, question: str, experts: Sequence[str], k: int) -> str | None:
        """Return the best of the experts on the k nearest questions, of equals the cheapest; None if none was tried."""
        tries: dict[str, list[RoutingEvaluation]] = {}
        for near in self.nearest(question, k):
            for evaluation in self._of[near]:
                tries.setdefault(evaluation.expert, []).append(evaluation)

        def worth(expert: str) -> tuple[float, float]:
            found = tries[expert]
            return sum(one.solved for one in found) / len(found), -sum(one.cost for one in found) / len(found)

        return max((expert for expert in experts if expert in tries), key=worth, default=None)

    @classmethod
    def played(
        cls, env: gymnasium.Env[Any, Any], *, questions: int = 100, split: str = "train", seed: int = 0
    ) -> EvaluationBank:
        """Return the evaluations of each expert on random questions of a split, played with seeds from `seed` on."""
        reset = {"options": {"split": split}}
        evaluations = []
        for number in range(seed, seed + questions):
            _, info = env.reset(seed=number, **reset)
            for expert in [role.expert for role in expert_roles(info["tools"]) if role.job == "answer"]:
                outcome = play_episode(env, Direct(expert=expert), seed=number, **reset)["outcome"]
                if outcome in ("solved", "failed"):
                    played = env.unwrapped.episode  # type: ignore[attr-defined]  # every environment of the library has it
                    evaluations.append(
                        RoutingEvaluation(
                            played.instruction,
                            slug(expert),
                            outcome == "solved",
                            played.cost,
                            _proposals(call for call in played.calls if _expert(call) is not None),
                        )
                    )
        return cls(evaluations)

    def save(self, file: Path) -> None:
        """Write the bank as JSON."""
        write_whole(file, msgspec.json.format(msgspec.json.encode(self.evaluations), indent=1) + b"\n")

    @classmethod
    def load(cls, file: Path) -> EvaluationBank:
        """Read a bank that `save` wrote, or make one of recorded episodes (``.jsonl``); else raise `OptionError`."""
        if file.suffix == ".jsonl":
            return cls(
                evaluation
                for _, played in read_jsonl(file, _EpisodeRecord, "an episode")
                for evaluation in played.evaluations()
            )
        try:
            return cls(msgspec.json.decode(file.read_bytes(), type=list[RoutingEvaluation]))
        except OSError as error:
            raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise OptionError(f"{file}: expected the JSON list of evaluations that `save` writes: {error}.") from None


class Router(Direct, LearnedPolicy):
    """Asks the expert that past evaluations recommend for the request. Override `best`.

    Args:
        seed: See `Policy`.
        bank: An `EvaluationBank`, or the file of one (see `EvaluationBank.load`).
    """

    def __init__(self, seed: int = 0, bank: EvaluationBank | Path | str | None = None) -> None:
        super().__init__(seed)
        if bank is None:
            raise OptionError(
                f"{type(self).__name__} learns from experience: record each expert with `toolorchestra rollout ENV "
                "--policy direct --policy-options expert NAME --split train` and give the file of episodes (option "
                f"`bank`), or use {type(self).__name__}.fit."
            )
        self.bank = bank if isinstance(bank, EvaluationBank) else EvaluationBank.load(Path(bank))
        self._chosen: ExpertRole | None = None

    @abstractmethod
    def best(self, question: str, experts: Sequence[str]) -> str | None:
        """Return the expert to ask of those available, by their slugs; None if none of them was evaluated."""

    @classmethod
    def fit(
        cls, env: gymnasium.Env[Any, Any], *, split: str = "train", seed: int = 0, questions: int = 100, **options: Any
    ) -> Self:
        """Return a router that has played random questions of a split with each expert, with seeds from `seed` on."""
        return cls(bank=EvaluationBank.played(env, questions=questions, split=split, seed=seed), **options)

    def learnt(self) -> dict[str, Any]:
        """Return the bank."""
        return {"bank": self.bank}

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: choose the expert to ask, once for all its steps."""
        super().reset(env, observation, info)
        able = {slug(role.expert): role for role in self.experts if role.job == "answer"}
        best = self.best(self.request, list(able))
        self._chosen = able[best] if best is not None else choose(self.experts, "answer")

    def chosen(self) -> ExpertRole:
        """Return the expert that the bank recommends, or the first if the bank has none of them."""
        assert self._chosen is not None, "reset() comes first"
        return self._chosen


class KNNRouter(Router):
    """Asks the expert that did best, at least cost, on the most similar questions.

    Args:
        seed: See `Policy`.
        bank: See `Router`.
        k: Number of similar questions.
    """

    def __init__(self, seed: int = 0, bank: EvaluationBank | Path | str | None = None, k: int = 10) -> None:
        if k < 1:
            raise OptionError(f"Expected at least one question to look at, got k={k}.")
        super().__init__(seed, bank)
        self.k = k

    def best(self, question: str, experts: Sequence[str]) -> str | None:
        """Return the expert that did best on the nearest questions."""
        return self.bank.best(question, experts, self.k)

    def learnt(self) -> dict[str, Any]:
        """Return the bank and the number of similar questions."""
        return {"bank": self.bank, "k": self.k}


class _RecordedCall(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None
    value: Any = None


class _RecordedTurn(msgspec.Struct):
    calls: tuple[_RecordedCall, ...] = ()


class _EpisodeRecord(msgspec.Struct):
    """The fields of an episode's record (`toolorchestra.envs.records.episode`) that a bank needs."""

    instruction: str
    outcome: str | None = None
    cost: float = 0.0
    turns: tuple[_RecordedTurn, ...] = ()

    def evaluations(self) -> Iterable[RoutingEvaluation]:
        """Yield the evaluation that an episode is, if it asked a single expert and was graded."""
        calls = [call for turn in self.turns for call in turn.calls if _expert(call) is not None]
        experts = {_expert(call) for call in calls}
        if self.outcome in ("solved", "failed") and len(experts) == 1:
            (expert,) = experts
            solved, proposals = self.outcome == "solved", _proposals(calls)
            yield RoutingEvaluation(self.instruction, str(expert), solved, self.cost, proposals)


def proposal_text(proposed: Proposal) -> str:
    """Return a proposal as text: an answer as it is, a call as JSON."""
    return proposed if isinstance(proposed, str) else msgspec.json.encode([proposed.name, proposed.arguments]).decode()


def _proposals(calls: Iterable[Any]) -> tuple[str, ...]:
    """Return what the experts of some calls proposed."""
    found = (proposal(call.value) for call in calls)
    return tuple(proposal_text(one) for one in found if one is not None)


def _expert(call: Any) -> str | None:
    """Return the expert that a call asked for an answer, if it is such a call."""
    if call.name == "standard_reasoner":
        return slug(str((call.arguments or {}).get("model_id")))
    prefix, _, expert = call.name.partition("_")
    return expert if prefix == "ask" and expert else None
