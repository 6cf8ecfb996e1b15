"""Routing by experience: the question goes to the expert that did best on the questions most like it.

The bank of experience is made of trials, each an expert's episode on a training question: recorded ones
(`toolorchestra rollout --policy direct`), or played for the purpose. Likeness is the cosine of TF-IDF weights of words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
from numpy.typing import NDArray

from toolorchestra.agents.policies.base import Info, play_episode
from toolorchestra.agents.policies.baselines import Direct
from toolorchestra.agents.policies.expert_roles import ExpertRole, choose, minds, plain
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.jsonl import read_jsonl
from toolorchestra.toolscale.mentions import tokens


class RoutingTrial(msgspec.Struct, frozen=True):
    """How an expert fared on a question.

    Attributes:
        question: The question.
        expert: The expert, as it stands in the names of tools.
        solved: Whether the episode was solved.
        cost: US dollars.
    """

    question: str
    expert: str
    solved: bool
    cost: float


class TrialBank:
    """Questions, and how experts fared on them.

    Args:
        trials: At least one.
    """

    def __init__(self, trials: Iterable[RoutingTrial]) -> None:
        self.trials = tuple(trials)
        if not self.trials:
            raise OptionError("Expected at least one trial to route by, got none.")
        self._of: dict[str, list[RoutingTrial]] = {}
        for trial in self.trials:
            self._of.setdefault(trial.question, []).append(trial)
        self._questions = list(self._of)
        counts = [Counter(tokens(question)) for question in self._questions]
        documents = Counter(word for count in counts for word in count)
        self._column = {word: column for column, word in enumerate(documents)}
        self._rarity = np.array([math.log(1 + len(counts) / number) for number in documents.values()])
        self._vectors = np.zeros((len(counts), len(documents)), dtype=np.float32)
        for row, count in enumerate(counts):
            self._vectors[row] = self._vector(count)

    def _vector(self, count: Mapping[str, int]) -> NDArray[np.float64]:
        """Return the weights of words, of length 1; words that no question has do not count."""
        vector = np.zeros(len(self._column))
        for word, number in count.items():
            if (column := self._column.get(word)) is not None:
                vector[column] = (1 + math.log(number)) * self._rarity[column]
        return vector / (np.linalg.norm(vector) or 1.0)

    def nearest(self, question: str, k: int) -> list[str]:
        """Return the k questions most like one, the likest first."""
        likeness = self._vectors @ self._vector(Counter(tokens(question)))
        return [self._questions[row] for row in np.argsort(-likeness, kind="stable")[:k]]

    def best(self, question: str, experts: Sequence[str], k: int) -> str | None:
        """Return which of the experts did best on the k nearest questions, of equals the cheapest; None: none tried."""
        found = dict.fromkeys(experts, (0.0, 0.0))
        tried: Counter[str] = Counter()
        for near in self.nearest(question, k):
            for trial in self._of[near]:
                if trial.expert in found:
                    right, cost = found[trial.expert]
                    found[trial.expert] = right + trial.solved, cost + trial.cost
                    tried[trial.expert] += 1
        able = [expert for expert in experts if tried[expert]]

        def worth(expert: str) -> tuple[float, float]:
            right, cost = found[expert]
            return right / tried[expert], -cost / tried[expert]

        return max(able, key=worth, default=None)

    def save(self, file: Path) -> None:
        """Write the bank as JSON."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self.trials), indent=1) + b"\n")

    @classmethod
    def load(cls, file: Path) -> TrialBank:
        """Read a bank that `save` wrote, or the recorded episodes (``.jsonl``) of one that is to be made.

        Raises:
            OptionError: The file cannot be read, or holds no trial.
        """
        if file.suffix == ".jsonl":
            return cls(trial for _, played in read_jsonl(file, _Played, "an episode") for trial in played.trials())
        try:
            return cls(msgspec.json.decode(file.read_bytes(), type=list[RoutingTrial]))
        except OSError as error:
            raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
        except msgspec.DecodeError as error:
            raise OptionError(f"{file}: expected the JSON list of trials that `save` writes: {error}.") from None


class KNNRouter(Direct):
    """Asks the expert that did best, at least cost, on the questions most like the one at hand.

    Args:
        seed: See `Policy`.
        bank: What it learns from: a `TrialBank`, or the file of one (see `TrialBank.load`).
        k: Questions that it looks at.
    """

    def __init__(self, seed: int = 0, bank: TrialBank | Path | str | None = None, k: int = 10) -> None:
        super().__init__(seed)
        if bank is None:
            raise OptionError(
                "knn-router learns from experience: record each expert with `toolorchestra rollout ENV --policy direct "
                "--policy-options expert NAME --split train` and give the file of episodes (option `bank`), or use "
                "KNNRouter.fit."
            )
        if k < 1:
            raise OptionError(f"Expected at least one question to look at, got k={k}.")
        self.bank = bank if isinstance(bank, TrialBank) else TrialBank.load(Path(bank))
        self.k = k
        self._chosen: ExpertRole | None = None

    @classmethod
    def fit(
        cls, env: gymnasium.Env[Any, Any], *, questions: int = 100, split: str = "train", seed: int = 0, k: int = 10
    ) -> KNNRouter:
        """Return a router with the experience of all experts on the same random questions.

        Args:
            env: Environment in which they are played.
            questions: How many; each is put to every expert on offer.
            split: Where the questions are from.
            seed: Seed of the first question.
            k: See the class.
        """
        reset = {"options": {"split": split}}
        trials = []
        for number in range(seed, seed + questions):
            _, info = env.reset(seed=number, **reset)
            for expert in [mind.expert for mind in minds(info["tools"]) if mind.job == "answer"]:
                outcome = play_episode(env, Direct(expert=expert), seed=number, **reset)["outcome"]
                if outcome in ("solved", "failed"):
                    episode = env.unwrapped.episode  # type: ignore[attr-defined]  # every environment of ours has it
                    trials.append(RoutingTrial(episode.instruction, plain(expert), outcome == "solved", episode.cost))
        return cls(bank=TrialBank(trials), k=k)

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: choose whom to ask, once for all its steps."""
        super().reset(env, observation, info)
        able = {plain(mind.expert): mind for mind in self.offer if mind.job == "answer"}
        best = self.bank.best(self.request, list(able), self.k)
        self._chosen = able[best] if best is not None else choose(self.offer, "answer")

    def chosen(self) -> ExpertRole:
        """Return whom the bank recommends; where it knows none of those on offer, the first."""
        assert self._chosen is not None, "reset() comes first"
        return self._chosen


class _PlayedCall(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None


class _PlayedTurn(msgspec.Struct):
    calls: tuple[_PlayedCall, ...] = ()


class _Played(msgspec.Struct):
    """What a bank needs of the record of an episode (`toolorchestra.envs.episode`)."""

    instruction: str
    outcome: str | None = None
    cost: float = 0.0
    turns: tuple[_PlayedTurn, ...] = ()

    def trials(self) -> Iterable[RoutingTrial]:
        """Yield the trial that an episode is: one in which a single expert was asked, and a verdict reached."""
        asked = {_expert(call) for turn in self.turns for call in turn.calls} - {None}
        if self.outcome in ("solved", "failed") and len(asked) == 1:
            (expert,) = asked
            yield RoutingTrial(self.instruction, str(expert), self.outcome == "solved", self.cost)


def _expert(call: _PlayedCall) -> str | None:
    """Return whom a call asked for an answer, if anyone."""
    if call.name == "standard_reasoner":
        return plain(str((call.arguments or {}).get("model_id")))
    prefix, _, expert = call.name.partition("_")
    return expert if prefix == "ask" and expert else None
