r"""MSARL: two policies trained together by GRPO with nested advantages (MSARL §3.3).

    python algos/msarl.py                                       two built-in models, within minutes
    python algos/msarl.py --env ID --reasoner PATH --helper PATH    any causal language models

For a question the reasoner samples G paths up to and including its last call. For each, the helper samples M
interpretations of that call's result, and the reasoner continues each to an answer. What branches share is generated
once: they are forks of a slot, and the training rows of a path and of its branches do not overlap.

    helper     A_ij, normalised within the M of one path, on the tokens of interpretation ij
    reasoner   A_i, from the means of the paths, on all tokens of path i (`reasoner_advantage`)

Departures from the paper, each an option:

- The paper's rule for the reasoner is always 0 (``--reasoner-advantage paper``); the default is the group advantage of
  the paths' means.
- What the reasoner writes after an interpretation is trained too, with A_ij (``--no-train-finish`` does not).
- A path without a call has nothing to interpret: the reward of its one answer stands for all M.
- With several calls, it is known only afterwards which was the last: the path's own ending is then its first branch.
- Several questions a step (``--groups 1``); the clip is asymmetric, (0.2, 0.28) (``--epsilon-high 0.2``).
- Without models, tiny built-in ones are made and warm-started on problems that the teacher of
  `toolorchestra.envs.msarl` has programs for, with a simulated Python whose output is noisy.
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from toolorchestra.algos import multi_agent_trainer
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.hardware.batching import chunks
from toolorchestra.algos.loss.advantages import nested_advantages, signal
from toolorchestra.algos.multi_agent_trainer import MultiAgentTrainer
from toolorchestra.algos.options.several_agents import NestedRule, TrainMSARL
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot, unjudged_share
from toolorchestra.algos.rollout.sampling import AnySampler
from toolorchestra.algos.rollout.trajectory import TrainRow
from toolorchestra.algos.team_learner import ClippedLearner
from toolorchestra.algos.trainer import run_script
from toolorchestra.envs.msarl.play import REASONER, MSARLPlay
from toolorchestra.envs.starts import EpisodeStart


@dataclass
class Branches:
    """A reasoning path and its branches.

    Attributes:
        trunk: The slot at the path's last call, with the helper's turn next; over, if it has no call.
        leaves: M slots that continue it, each to its end; one, if there is no call.
    """

    trunk: Slot
    leaves: list[Slot]

    @property
    def branched(self) -> bool:
        """Whether there is a call to interpret."""
        return not self.trunk.over

    def rewards(self, count: int) -> list[float]:
        """Return the rewards of the leaves; a single one counts for all."""
        return [leaf.reward for leaf in self.leaves] * (count if len(self.leaves) == 1 else 1)


def play_nested(
    engine: MultiAgentEngine,
    samplers: Mapping[str, AnySampler],
    starts: Sequence[EpisodeStart],
    *,
    paths: int,
    interpretations: int,
    rng: random.Random,
) -> list[list[Branches]]:
    """Play each question as `paths` paths with `interpretations` branches, and return the paths of each.

    Processes play a share of the questions each.
    """
    at_call: dict[int, Slot] = {}

    def at_last_call(slot: Slot) -> bool:
        if not slot.turns:
            at_call.pop(id(slot), None)  # of an attempt that an infrastructure error ended
        if slot.play.current_agent == REASONER:
            return False
        assert isinstance(slot.play, MSARLPlay)
        if not slot.play.calls_left:
            return True
        at_call[id(slot)] = slot.fork()  # the trunk, if this turns out to be the last call
        return False

    begun = [[start.another(rng) for _ in range(paths)] for start in starts]
    roots = [engine.start(start) for several in distributed.shard(begun) for start in several]
    engine.play(samplers, roots, at_last_call)
    found = []
    for root in roots:
        if not root.over:
            found.append(Branches(root, [root.fork() for _ in range(interpretations)]))
        elif id(root) in at_call:
            trunk = at_call[id(root)]
            found.append(Branches(trunk, [root, *(trunk.fork() for _ in range(interpretations - 1))]))
        else:
            found.append(Branches(root, [root]))
    engine.play(samplers, [leaf for path in found for leaf in path.leaves])
    return distributed.all_gather(list(map(list, chunks(found, paths))))


class NestedBatch(NamedTuple):
    """Rewards and training rows of a batch of rollouts.

    Attributes:
        rewards: Shape ``(questions, G, M)``.
        rows: Training rows by agent's role: ``reasoner`` and ``helper``.
    """

    rewards: Tensor
    rows: Mapping[str, list[TrainRow]]


def judge(
    nests: Sequence[Sequence[Branches]], *, interpretations: int, rule: NestedRule, train_finish: bool = True
) -> NestedBatch:
    """Return the training rows of nested rollouts, with their advantages. What was not judged has none."""
    rewards = torch.tensor([[path.rewards(interpretations) for path in paths] for paths in nests], dtype=torch.float64)
    advantages = nested_advantages(rewards, rule)
    rows: dict[str, list[TrainRow]] = {"reasoner": [], "helper": []}

    def add(role: str, several: Sequence[TrainRow], advantage: Tensor) -> None:
        rows[role] += [replace(row, advantage=float(advantage)) for row in several]

    for q, paths in enumerate(nests):
        for i, path in enumerate(paths):
            if not any(leaf.valid for leaf in path.leaves):
                continue
            add("reasoner", path.trunk.rows(REASONER), advantages.reasoner[q, i])
            if not path.branched:
                continue
            reader = path.trunk.play.current_agent
            for j, leaf in enumerate(path.leaves):
                if not leaf.valid:
                    continue
                advantage = advantages.helper[q, i, j]
                add("helper", leaf.rows_since(path.trunk, reader, first=True), advantage)
                if train_finish:
                    add("reasoner", leaf.rows_since(path.trunk, REASONER), advantage)
    return NestedBatch(rewards, rows)


class NestedGRPO(ClippedLearner[TrainMSARL]):
    """The learner: nested rollouts, and an update of every policy on its rows."""

    def learn(self, step: int) -> dict[str, float]:
        """Play one batch of rollouts, update every policy on it, and return the metrics."""
        config, engine = self.config, self.engine
        rng = random.Random(f"{config.seed}/{step}")
        starts = [rng.choice(self.tasks) for _ in range(config.groups)]
        samplers = self.samplers(rng)
        engine.generated.clear()
        with self.sampling():
            nests = play_nested(
                engine, samplers, starts, paths=config.paths, interpretations=config.interpretations, rng=rng
            )
        batch = judge(
            nests,
            interpretations=config.interpretations,
            rule=config.reasoner_advantage,
            train_finish=config.train_finish,
        )
        return measure(nests, batch, engine) | self.update(step, batch.rows)


def measure(nests: Sequence[Sequence[Branches]], batch: NestedBatch, engine: MultiAgentEngine) -> dict[str, float]:
    """Return metrics of a batch of rollouts."""
    paths = [path for several in nests for path in several]
    rewards = batch.rewards
    shared = [len(path.trunk.play.episode.turns) for path in paths]
    after = [len(leaf.play.episode.turns) - n for path, n in zip(paths, shared, strict=True) for leaf in path.leaves]

    return {
        "unjudged": unjudged_share([leaf for path in paths for leaf in path.leaves]),
        "success": float(rewards.nanmean()),
        "called": float(np.mean([path.branched for path in paths])),
        "reasoner_signal": signal(rewards.nanmean(-1)),
        "helper_signal": signal(rewards),
        "rows": float(sum(map(len, batch.rows.values()))),
        "moves": float(sum(shared) + sum(after)),
        **engine.token_counts(),
    }


def train(config: TrainMSARL) -> MultiAgentTrainer:
    """Warm-start if need be, train, and evaluate on held-out tasks before and after."""
    return multi_agent_trainer.train(config, partial(NestedGRPO, config), phase="msarl")


if __name__ == "__main__":
    run_script(TrainMSARL, train)
