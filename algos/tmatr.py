r"""Alternating online DPO: agents of a team learn in turns from pairs of the team's own rollouts (TMATR-HRL §3.2, 3.3).

    python algos/tmatr.py                                       two built-in models, within minutes
    python algos/tmatr.py --env ID --models planner PATH inferencer PATH    any causal language models

The team plays each question several times. The episode with the highest reward, τ⁺, and the one with the lowest, τ⁻,
are a pair if R(τ⁺) > η and R(τ⁺) ≠ R(τ⁻). The schedule says which agents learn in a stage; on the tokens that they
wrote themselves, and on no others, the loss is

    L = −log σ(β (log π(τ⁺)/π_ref(τ⁺) − log π(τ⁻)/π_ref(τ⁻))) + w · NLL(τ⁺)

with π_ref the agent's policy when the stage began. The other policies stay as they are.

TRL's `DPOTrainer` is used in tests only, which compare the losses: a stage is a few batches of new pairs, and TRL needs
a trainer and a data set for each, which takes longer than the training.

Departures from the paper, each an option:

- A batch with fewer pairs than ``--min-pairs`` is skipped: with two pairs a policy gets worse.
- Episodes have three turns in the evaluation too, not only in training (``--env-options max_turns 5``).
- Without models, tiny built-in ones are made, warm-started on problems that the environment's teacher can teach, and
  trained at a higher rate.
"""

from __future__ import annotations

import toolorchestra.algos  # noqa: F401 - first, also when run as a script: it makes settings that torch reads once

# isort: split
import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.table import Table
from torch import Tensor, nn

from toolorchestra.agents.builtin.adapters import AdaptedModel
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.hardware.batching import chunks
from toolorchestra.algos.hardware.sharding import frozen_copy, load_weights
from toolorchestra.algos.loss.losses import dpo_loss
from toolorchestra.algos.multi_agent_trainer import MultiAgentTrainer
from toolorchestra.algos.options.several_agents import BOTH, SYSTEM, TrainTMATR
from toolorchestra.algos.reporting.evaluation import Scores
from toolorchestra.algos.reporting.stats import Interval, known_mean, paired_bootstrap
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot, unjudged_share
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps
from toolorchestra.algos.team_learner import PolicyUpdater, TeamLearner, warn_of_nothing
from toolorchestra.algos.trainer import run_script
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import UnknownNameError
from toolorchestra.toolscale.common.writing import write_whole

# ------------------------------------------------------------------------------------------------------- pairs


class EpisodePair(NamedTuple):
    """The better and the worse of the episodes of a question."""

    better: Slot
    worse: Slot


def select(episodes: Sequence[Slot], threshold: float) -> EpisodePair | None:
    """Return the episodes with the highest and the lowest reward if they make a pair (Φ, Eq. 20–22), else None.

    Episodes that an infrastructure error ended are left out.
    """
    valid = [slot for slot in episodes if slot.reward == slot.reward]
    if not valid:
        return None
    better, worse = max(valid, key=lambda slot: slot.reward), min(valid, key=lambda slot: slot.reward)
    return EpisodePair(better, worse) if better.reward > threshold and better.reward != worse.reward else None


class PairRow(NamedTuple):
    """What one agent wrote in a pair of episodes, as rows to train on."""

    chosen: TrainRow
    rejected: TrainRow


def side(pair: EpisodePair, agent: str) -> PairRow | None:
    """Return an agent's side of a pair, or None if it wrote nothing in one of the two."""
    chosen, rejected = pair.better.trajectories[agent].row(), pair.worse.trajectories[agent].row()
    return None if chosen is None or rejected is None else PairRow(chosen, rejected)


# ---------------------------------------------------------------------------------------------------- updating


class DPOUpdater(PolicyUpdater[TrainTMATR]):
    """Trains one policy on its agents' sides of pairs; the optimiser's state lasts over the stages.

    Attributes:
        reference: The model as it was when the stage began; None before the policy's first stage.
    """

    reference: nn.Module | None = None

    def refresh(self) -> None:
        """Make the reference what the policy is now."""
        model = self.policy.model
        frozen = model.frozen_copy() if isinstance(model, AdaptedModel) else frozen_copy(model)
        self.reference = frozen.eval()

    def loss(self, rows: Sequence[PairRow], pairs: int, tokens: int) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of some of the pairs of an optimiser step, and its metrics.

        Args:
            rows: B pairs.
            pairs: How many the step has; the preference loss is the mean over them.
            tokens: How many tokens the better sides of all of them have; the likelihood is the mean over them.
        """
        assert self.reference is not None, "a stage begins with refresh()"
        both = [row.chosen for row in rows] + [row.rejected for row in rows]
        with torch.no_grad():
            ref_logps, _, _ = row_logps(self.reference, both, self.policy.renderer.pad_id)
            if (temperature := self.config.temperature) != 1 and self.unchanged:
                drawn, sampled, mask = row_logps(self.policy.model, both, self.policy.renderer.pad_id, temperature)
                self.mismatch.add(sampled, drawn, mask)
        logps, sampled, mask = row_logps(self.policy.model, both, self.policy.renderer.pad_id)  # (2B, T)
        # the policy last: with gradient checkpointing its adapter must be the active one in the backward pass
        if temperature == 1 and self.unchanged:
            self.mismatch.add(sampled, logps, mask)
        chosen, rejected = (logps * mask).sum(-1).chunk(2)  # (B,) each
        losses, margins = dpo_loss(chosen, rejected, *(ref_logps * mask).sum(-1).chunk(2), beta=self.config.beta)
        dpo, sft = losses.sum() / pairs, -chosen.sum() / tokens
        metrics = {"dpo": dpo, "sft": sft, "margin": margins.sum() / pairs, "accuracy": (margins > 0).sum() / pairs}
        return dpo + self.config.sft_weight * sft, {name: float(value.detach()) for name, value in metrics.items()}

    def step(self, agents: Sequence[Sequence[PairRow]]) -> dict[str, float]:
        """Make one optimiser step on the pairs of each agent that has this policy; each agent's mean counts alike."""
        self.policy.model.train()
        metrics = dict.fromkeys(("dpo", "sft", "margin", "accuracy"), 0.0)
        learning = [rows for rows in agents if rows]
        for rows in learning:
            tokens = sum(sum(row.chosen.mask) for row in rows)
            for part, counts in self.parts(rows, lambda row: max(row.chosen.length, row.rejected.length), sequences=2):
                loss, found = self.loss(part, len(rows), tokens)
                torch.autograd.backward(loss * counts)
                metrics = {name: value + counts * found[name] / len(learning) for name, value in metrics.items()}
        everywhere = distributed.gather(metrics)
        metrics = {name: sum(found[name] for found in everywhere) for name in metrics}
        return {**metrics, "grad_norm": self.apply_gradients()}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimiser, and the reference of the stage."""
        reference = self.reference.state_dict() if self.reference else None
        return {"optimizer": super().state_dict(), "reference": reference}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        super().load_state_dict(state["optimizer"])
        if state["reference"] is not None:
            self.refresh()
            assert self.reference is not None
            load_weights(self.reference, state["reference"])


class OnlineDPO(TeamLearner[TrainTMATR, DPOUpdater]):
    """The learner: rollouts of the team as it is, pairs, and an update of the agents whose turn it is."""

    def __init__(
        self,
        config: TrainTMATR,
        engine: MultiAgentEngine,
        policies: Mapping[str, TokenPolicy],
        tasks: Sequence[EpisodeStart],
    ) -> None:
        super().__init__(config, engine, policies, tasks, DPOUpdater)
        self.agents = tuple(engine.policies)
        if unknown := [name for name in config.schedule if name not in (*self.agents, SYSTEM, BOTH)]:
            raise UnknownNameError("stage of the schedule", unknown[0], (*self.agents, SYSTEM, BOTH))

    def learn(self, step: int) -> dict[str, float]:
        """Play one batch of rollouts, update who learns in this stage, and return the metrics."""
        config, engine = self.config, self.engine
        stage, within = divmod(step - 1, config.stage_steps)
        if within == 0:
            self._begin_stage(step)
        rng = random.Random(f"{config.seed}/{step}")
        starts = [rng.choice(self.tasks) for _ in range(config.groups)]
        begun = [start.another(rng) for start in starts for _ in range(config.group_size)]
        engine.generated.clear()
        played = [engine.start(start) for start in distributed.shard(begun)]
        samplers = self.samplers(rng)
        with self.sampling():
            engine.play(samplers, played)
        slots = distributed.all_gather(played)
        found = [select(episodes, config.threshold) for episodes in chunks(slots, config.group_size)]
        pairs = [pair for pair in found if pair is not None]
        metrics = {"stage": stage + 1.0, **measure(slots, pairs, engine)}
        if len(pairs) < config.min_pairs:
            warn_of_nothing(
                step, f"of {config.groups} tasks {len(pairs)} made a pair, and `min_pairs` is {config.min_pairs}"
            )
        return metrics | self._update(pairs, config.learners(step, self.agents), rng)

    def _begin_stage(self, step: int) -> None:
        """Make the policies that will learn in a stage their own references; the others need none."""
        steps = range(step, step + self.config.stage_steps)
        learning = {self.config.policy_of(a) for n in steps for a in self.config.learners(n, self.agents)}
        for name, updater in self.updaters.items():
            updater.reference = None
            if name in learning:
                updater.refresh()

    def _update(self, pairs: Sequence[EpisodePair], learners: Sequence[str], rng: random.Random) -> dict[str, float]:
        """Let agents learn from pairs, and return the metrics: means over the optimiser steps."""
        config = self.config
        found: dict[str, list[dict[str, float]]] = {}
        for updater in self.updaters.values():
            updater.begin()
        if len(pairs) >= config.min_pairs:
            for _ in range(config.epochs):
                for part in chunks(rng.sample(pairs, len(pairs)), config.minibatch):
                    sides = {agent: [row for pair in part if (row := side(pair, agent))] for agent in learners}
                    for name, updater, own in self.updates(sides):
                        if any(own):
                            found.setdefault(name, []).append(updater.step(own))
        means = {
            f"{name}_{what}": float(np.mean([one[what] for one in steps]))
            for name, steps in found.items()
            for what in steps[0]
        }
        return {"updates": float(sum(map(len, found.values()))), **means}


def measure(slots: Sequence[Slot], pairs: Sequence[EpisodePair], engine: MultiAgentEngine) -> dict[str, float]:
    """Return metrics of a batch of rollouts."""
    gaps = [pair.better.reward - pair.worse.reward for pair in pairs]
    return {
        "unjudged": unjudged_share(slots),
        "reward": known_mean([slot.reward for slot in slots]),
        "success": known_mean([slot.success for slot in slots]),
        "calls": float(np.mean([slot.calls for slot in slots])),
        "calling": float(np.mean([slot.calls > 0 for slot in slots])),
        "messages": float(np.mean([len(slot.play.episode.turns) for slot in slots])),
        "pairs": float(len(pairs)),
        "gap": known_mean(gaps),
        **engine.token_counts(),
    }


# ----------------------------------------------------------------------------------------------------- reports


def report(config: TrainTMATR, by_step: Mapping[int, Scores]) -> list[dict[str, Any]]:
    """Return the scores of the team (given by step) after each stage, compared with its start.

    Each entry has ``stage`` (0 is the start), ``learner``, ``step``, and of the held-out episodes ``success`` (pass@1),
    ``gain`` (over the start, with ``low`` and ``high`` of its 95 % interval over tasks), ``reward``, ``calling``
    (share of episodes with a tool call), ``calls`` (of an episode), ``more_calls`` (than at the start), and the scores
    of greedy episodes and of several samples.
    """
    start, found = by_step[0], []
    for stage, learner in enumerate(("", *config.stages)):
        step = stage * config.stage_steps
        scores = by_step[step]
        gain, low, high = paired_bootstrap(scores.by_task, start.by_task)
        row: dict[str, Any] = {"stage": stage, "learner": learner, "step": step, "success": scores.success}
        row |= {"gain": gain, "low": low, "high": high, **scores.means(), "more_calls": scores.calls - start.calls}
        found.append(row)
    return found


COLUMNS = {
    "stage": "{stage}",
    "who learns": "{learner}",
    "pass@1": "{success:.1%}",
    "over the start, points": "{points}",
    "greedy": "{greedy:.1%}",
    "reward": "{reward:.3f}",
    "with tools": "{calling:.0%}",
    "tool calls": "{calls:.2f}",
    "change": "{more_calls:+.2f}",
}
"""Columns of the table of stages, and how each is written."""


def stage_table(stages: Sequence[Mapping[str, Any]]) -> Table:
    """Return the report of the stages as a table."""
    table = Table(title="Held-out tasks, stage by stage", title_style="bold")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "who learns" else "right")
    for row in stages:
        gain = Interval(row["gain"], row["low"], row["high"])
        shown = {**row, "points": gain.points(), "learner": row["learner"] or "start"}
        table.add_row(*(form.format_map(shown) for form in COLUMNS.values()))
    return table


class TMATRTrainer(MultiAgentTrainer):
    """A run of alternating DPO, which reports each stage."""

    config: TrainTMATR

    def conclude(self) -> None:
        """Compare with the start, and each stage with it (``stages.json``)."""
        super().conclude()
        stages = report(self.config, self.scores)
        write_whole(self.config.output / "stages.json", json.dumps(stages, indent=2) + "\n")
        self.log.console.print(stage_table(stages))


def train(config: TrainTMATR) -> MultiAgentTrainer:
    """Warm-start if need be, train stage by stage, and evaluate before and after each (also in ``stages.json``)."""
    ends = range(config.stage_steps, config.total, config.stage_steps)
    run = TMATRTrainer(config, partial(OnlineDPO, config), "tmatr", ends)
    run.run()
    return run


if __name__ == "__main__":
    run_script(TrainTMATR, train)
