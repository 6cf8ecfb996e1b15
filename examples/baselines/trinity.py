"""TRINITY: a head on a small model's state, evolved by sep-CMA-ES, chooses the next model and its role."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import gymnasium
import numpy as np

from examples.baselines.fitting import Floats, LearnedPolicy, SepCMAES, maximised
from examples.baselines.next_agent import AgentHead, given_head
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.baselines import REVIEW, Baseline, Script, described
from toolorchestra.agents.policies.expert_roles import (
    ExpertRole,
    Proposal,
    choose,
    expert_roles,
    proposal,
    same_proposal,
    slug,
)
from toolorchestra.toolscale.common.errors import OptionError

ROLES = ("thinker", "worker", "verifier")
"""The roles that a model can be asked in."""
_THINK = "Think about how to go on, before anything is settled."


class StateEncoder:
    """The last hidden state of the frozen built-in model that has read a text; needs torch and transformers.

    Args:
        texts: Texts whose words the model knows.
        seed: Of its weights.
        size: Width of the model.
    """

    def __init__(self, texts: Sequence[str], seed: int = 0, size: int = 32) -> None:
        self.texts, self.seed, self.size = tuple(texts), seed, size
        self._loaded: tuple[Any, Any] | None = None
        self._states: dict[str, Floats] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None, "_states": {}}

    def of(self, text: str) -> Floats:
        """Return the state at the end of a text, of length about 1 a number, with a constant 1 beside it."""
        if text not in self._states:
            import torch

            model, tokenizer = self._model()
            ids = tokenizer(text, add_special_tokens=False)["input_ids"][-1024:] or [0]
            with torch.inference_mode():
                state = model.model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1].double().numpy()
            self._states[text] = np.append(state / (np.sqrt((state**2).mean()) or 1.0), 1.0)
        return self._states[text]

    def _model(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                from toolorchestra.agents.builtin.model import build_model
                from toolorchestra.agents.builtin.text_model import build_text_tokenizer
            except ImportError as error:
                raise OptionError(
                    f"TRINITY reads states of a model, for which {error.name} is missing: "
                    "pip install 'toolorchestra[train]'."
                ) from None
            tokenizer = build_text_tokenizer([*self.texts, *ROLES, "asked agreed"])
            self._loaded = build_model(len(tokenizer), seed=self.seed, hidden=self.size).eval(), tokenizer
        return self._loaded


class Trinity(Baseline, LearnedPolicy):
    """An evolved coordinator chooses, turn by turn, a model and its role (arXiv:2512.04695).

    A frozen small model reads the request and what was done so far; from its last state a linear head scores the
    models and the three roles, and the best of each are taken. A *worker* answers; a *verifier* checks the present
    answer, and ends the work where it agrees; a *thinker* is heard, and its reply is no answer. The head is evolved by
    sep-CMA-ES for the share of training tasks that are solved.

    Simplified: the model is the built-in one with random weights, where the paper takes Qwen3-0.6B and also adapts
    singular values of its last layers; what thinkers say is read by real experts only, since simulated ones read the
    calls and not what was thought.

    Args:
        seed: See `Policy`.
        head: What was learnt, an `AgentHead` or the file of one.
        turns: Maximum number of models that are asked about one step.
    """

    def __init__(self, seed: int = 0, head: AgentHead | Path | str | None = None, turns: int = 5) -> None:
        super().__init__(seed)
        if turns < 1:
            raise OptionError(f"Expected at least one turn, got turns={turns}.")
        self.head, self.turns = given_head(head, "Trinity"), turns
        self._encoder = StateEncoder(self.head.texts, size=len(self.head.weights[0]) - 1)

    @classmethod
    def fit(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        split: str = "train",
        seed: int = 0,
        questions: int = 24,
        generations: int = 12,
        sigma: float = 0.3,
        size: int = 32,
        **options: Any,
    ) -> Self:
        """Return a coordinator evolved on training tasks.

        Args:
            env: See `LearnedPolicy.fit`, as `split` and `seed`.
            split: Split of the tasks.
            seed: Of the episodes, and of the evolution.
            questions: Tasks that each candidate plays.
            generations: How many there are.
            sigma: The first step size.
            size: Width of the model whose state is read.
            options: Further arguments of the policy.
        """
        if min(questions, generations, size) < 1:
            raise OptionError(f"Expected at least 1 of each, got {questions=}, {generations=} and {size=}.")
        texts, models = [], dict[str, None]()
        for number in range(seed, seed + questions):
            _, info = env.reset(seed=number, options={"split": split})
            texts.append(str(info["messages"][-1]["content"]))
            models.update(dict.fromkeys(slug(one.expert) for one in expert_roles(info["tools"]) if one.job == "answer"))
        actions = (*models, *ROLES)
        policy = cls(seed, AgentHead.of(actions, np.zeros((len(actions), size + 1)), texts), **options)

        def solved(vector: Floats) -> float:
            policy.head = AgentHead.of(actions, vector.reshape(len(actions), size + 1), texts)
            outcomes = [
                play_episode(env, policy, seed=number, options={"split": split})["outcome"]
                for number in range(seed, seed + questions)
            ]
            return float(sum(outcome == "solved" for outcome in outcomes) / questions)

        search = SepCMAES(np.zeros(len(actions) * (size + 1)), sigma, seed=seed)
        found = maximised(solved, search, generations)
        return cls(seed, AgentHead.of(actions, found.reshape(len(actions), size + 1), texts), **options)

    def learnt(self) -> dict[str, Any]:
        """Return the head."""
        return {"head": self.head, "turns": self.turns}

    def propose(self) -> Script:
        """Ask model after model until a verifier agrees."""
        able = {slug(role.expert): role for role in self.roles("answer")}
        done: list[str] = []
        answer: Proposal | None = None
        for turn in range(self.turns):
            model, role = self.choice(done, [*able], verifies=answer is not None, last=turn == self.turns - 1)
            if role == "verifier" and answer is not None:
                (reply,) = yield [self._verifying(able[model], answer)]
                checked = proposal(reply)
                if checked is None or same_proposal(checked, answer):
                    break
                done.append(f"{role} asked")
                continue
            self.note = _THINK if role == "thinker" else ""
            (reply,) = yield [able[model].call()]
            if role == "worker":
                found = proposal(reply)
                agrees = found is not None and answer is not None and same_proposal(found, answer)
                answer = answer if found is None else found
                done.append(f"{role} agreed" if agrees else f"{role} asked")
            else:
                done.append(f"{role} asked")
        return answer

    def choice(
        self, done: Sequence[str], models: Sequence[str], *, verifies: bool, last: bool = False
    ) -> tuple[str, str]:
        """Return the model and the role that score best; a verifier needs an answer, and the last turn one."""
        scores = self.head.scores(self._encoder.of(" ".join([self.request, *done])))
        of = dict(zip(self.head.actions, scores.tolist(), strict=True))
        roles = [role for role in ROLES if (verifies or role != "verifier") and not (last and role == "thinker")]
        if last and not verifies:
            roles = ["worker"]
        model = max(models, key=lambda name: of.get(name, float("-inf")))
        return model, max(roles, key=of.__getitem__)

    def _verifying(self, role: ExpertRole, answer: Proposal) -> Any:
        """Return the call by which a model checks the present answer."""
        reviewing = choose(self.experts, "review", role.expert)
        if reviewing is not None:  # it reads the history
            return reviewing.call()
        return role.call(REVIEW.format(request=self.request, answer=described(answer)))
