"""Options of the learners of one agent: SFT and GRPO."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolorchestra.algos.options import ClippedOptions, LearnerOptions
from toolorchestra.toolscale.errors import OptionError

TeacherName = Literal["oracle", "asking", "explorer", "designer"]
Filter = Literal["homogeneity", "format", "invalid"]


@dataclass
class DemonstrationOptions(LearnerOptions):
    """Options of the episodes that a policy learns from."""

    episodes: tuple[Path, ...] = ()
    """JSONL files of episodes to learn from (solved ones only); none: the oracles play."""
    teacher: TeacherName | None = None
    """Who plays: ``oracle`` (and a noisy one), ``asking`` (the same, but it queries experts now and then), ``explorer``
    (queries experts at random; solved episodes count) or ``designer`` (writes designs of several kinds; a noisy one
    injects errors). None: a teacher that suits the tools of the environment."""
    error: float = 0.4
    """Probability that the noisy oracle errs in a turn."""
    ask: float = 0.4
    """Probability that an ``asking`` teacher queries an expert in a turn."""
    replays: int = 4
    """Noisy episodes played per task."""


@dataclass
class TrainSFT(DemonstrationOptions):
    """Teach a policy by masked supervised fine-tuning on episodes."""

    builtin_rate = 2e-3
    model_rate = 1e-5
    many_processes = True

    env: str = "ToolOrchestra-Restaurant-v0"
    """Gymnasium id of the environment, folder of a domain, or JSONL file of tasks."""
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template; None makes the built-in model."""
    output: Path = Path("runs/sft")
    noisy_share: float = 0.5
    """Share of noisy episodes in the last part of the training."""
    noisy_from: float = 0.75
    """Point of the training (0 to 1) from which noisy episodes are used; until then the model learns the format."""
    steps: int = 2000
    """Optimiser steps; 0 leaves the model as it is made or loaded."""
    batch: int = 16
    """Episodes a step."""
    learning_rate: float | None = None
    """Peak learning rate; None: 2e-3 for the built-in model, 1e-5 for `model`; tenfold for adapters."""
    save_every: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("error", "ask", "noisy_share", "noisy_from"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise OptionError(f"`{name}` must lie in [0, 1], got {getattr(self, name)!r}.")
        self.require_at_least(0, "steps")
        self.require_at_least(1, "batch", "replays")
        if self.lora_rank and self.small:
            raise OptionError("A built-in model is made from scratch, and an adapter needs a model: give `model`.")


@dataclass
class GroupOptions(ClippedOptions):
    """Options of groups of rollouts."""

    groups: int = 16
    """Tasks per batch."""
    group_size: int = 8
    """Rollouts per task."""
    updates: int = 1
    """Optimiser steps per batch of rollouts, each on its share of the rows."""
    filters: tuple[Filter, ...] = ("homogeneity", "format", "invalid")
    """Filters before the loss: groups of nearly equal reward, rollouts out of format, rollouts without answer."""
    min_std: float = 0.1
    """Minimal standard deviation of a group's rewards that the homogeneity filter lets pass."""
    scale: bool = True
    """Divide advantages by the deviation of their group's rewards (Eq. 3). It makes all groups count alike: where all
    are solved, the smallest difference in cost then weighs as much as success does elsewhere."""
    resample: int = 1
    """How often dropped groups are replaced by playing further tasks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_at_least(1, "groups")
        self.require_groups("group_size")
        if self.groups * self.group_size % self.updates:
            raise OptionError(
                f"{self.groups} groups of {self.group_size} rollouts cannot be shared among {self.updates} updates. "
                "Let `updates` divide groups × group_size."
            )


@dataclass
class TrainGRPO(GroupOptions):
    """Train a policy with GRPO; without `model`, make, warm-start and train the built-in one."""

    many_processes = True
    default_ids = (1024, 32_000)

    env: str = "ToolOrchestra-Restaurant-v0"
    """Gymnasium id of the environment, folder of a domain, or JSONL file of tasks."""
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template; None makes the built-in model."""
    output: Path = Path("runs/grpo")
    teacher: TeacherName | None = None
    """Who plays the episodes of the warm start; None: a teacher that suits the tools of the environment."""
    sft_steps: int = 2000
    """Steps of the warm start (built-in model only); 0 for none."""
    sft_batch: int = 16
    """Episodes a step of the warm start."""
    sft_ask: float = 0.4
    """Probability that an ``asking`` teacher queries an expert in a turn."""
    steps: int = 60
    """Batches of rollouts."""
    beta: float = 0.0
    """Weight of the KL divergence from the starting policy in the loss."""
    aggregation: Literal["grpo", "dapo"] = "grpo"
    """Mean over rollouts of the mean over their tokens (grpo), or mean over all tokens of the batch (dapo). With grpo
    a token of a long rollout weighs less, so long failures are hardly punished."""
    ratio: Literal["token", "sequence"] = "token"
    """Importance ratio per token, or per sequence (length-normalised, over policy tokens only)."""
    importance_cap: float | None = None
    """Maximum of the ratio π(trainer) / π(sampler) by which the loss of a token is multiplied, since what generates
    computes with other rounding than what trains (truncated importance sampling); 0: no such correction. None: 2 with
    vLLM, else 0."""
    open_at: float = 0.7
    """Live success on a level that opens the next; 0 opens all levels at once."""
    preference: dict[str, float] = field(default_factory=dict)
    """Weights in [0, 1] of tools, outcome, compute and latency for the preference reward; empty: outcome alone."""
    preference_text: str = ""
    """The preference in words, appended to each instruction."""
    max_turns: int | None = None
    """Maximum number of turns of an episode; None: 12 for the built-in model, 50 for `model`."""
    track_kl: bool | None = None
    """Report the divergence from the starting policy (also with `beta` 0), which needs a copy of it unless it is under
    adapters; None: for built-in models, whose copy takes little memory, and for adapters."""
    eval_samples: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.importance_cap is not None and self.importance_cap < 0:
            raise OptionError(f"`importance_cap` must be at least 0, got {self.importance_cap}.")
        if self.beta < 0:
            raise OptionError(f"`beta` must be at least 0, got {self.beta}.")
        if self.preference_text and not self.preference:
            raise OptionError("`preference_text` puts a `preference` into words; give the weights as well.")

    @property
    def importance_limit(self) -> float:
        """The maximum of importance ratios, its default resolved; 0 for no correction."""
        return (0.0 if self.sampler == "hf" else 2.0) if self.importance_cap is None else self.importance_cap
