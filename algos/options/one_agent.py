"""Options of the learners of one agent: SFT and GRPO."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolorchestra.algos.hardware.launch import processes
from toolorchestra.algos.options.options import ClippedOptions, LearnerOptions, Rare
from toolorchestra.envs.registration import is_multiagent
from toolorchestra.toolscale.common.errors import OptionError

TeacherName = Literal["oracle", "asking", "explorer", "designer"]
Filter = Literal["homogeneity", "format", "calls", "invalid"]

DEFAULT_GROUPS = ((16, 8), (2, 4))
"""Tasks of a batch and rollouts of a task by default: in general, and of a given model without a GPU."""
PAPER_FILTERS: tuple[Filter, ...] = ("homogeneity", "format", "invalid")
"""The filters of ToolOrchestra §3.2."""


@dataclass
class TrainSFT(LearnerOptions):
    """Teach a policy, or each policy of a game, by masked supervised fine-tuning on episodes."""

    builtin_rate = 2e-3
    model_rate = 1e-5
    many_processes = True
    one_or_several = True
    model_options = ("model", "models")

    env: str = "ToolOrchestra-Restaurant-v0"
    """Id of the environment, folder of a domain, or JSONL file of tasks. Of several agents each learns its own side of
    the episodes."""
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template, of which every policy of a game gets a copy;
    None makes the built-in model."""
    models: dict[str, str] = field(default_factory=dict)
    """Models of single agents of a game, by name, which need not be `model`."""
    share: bool = False
    """One policy, ``shared``, for all agents of a game."""
    output: Path = Path("runs/sft")
    episodes: tuple[Path, ...] = ()
    """JSONL files of episodes to learn from (solved ones only); none: a teacher plays."""
    teacher: Rare[TeacherName | None] = None
    """Who plays: ``oracle`` (and a noisy one), ``asking`` (the same, but it queries experts now and then), ``explorer``
    (queries experts at random; solved episodes count) or ``designer`` (writes designs of several kinds; a noisy one
    injects errors). None: a teacher that suits the tools of the environment."""
    error: Rare[float] = 0.4
    """Probability that the noisy oracle errs in a turn."""
    ask: Rare[float] = 0.4
    """Probability that an ``asking`` teacher queries an expert in a turn."""
    replays: Rare[int] = 4
    """Noisy episodes played per task."""
    general: tuple[str, ...] = ()
    """Files of general reasoning data with GeneralThought's columns (JSONL, CSV or Parquet), or
    ``general-thought@COMMIT`` for the hub: its verified rows are learnt from beside the episodes (ToolOrchestra §4.4).
    Of `model` only."""
    general_share: float = 0.5
    """Share of such rows among all that are learnt from."""
    general_min_score: Rare[float] = 1.0
    """Minimum of their `verifier_score`; 0 takes rows without one as well."""
    general_limit: Rare[int] = 10_000
    """Maximum of rows of each file."""
    steps: int = 2000
    """Optimiser steps; 0 leaves the model as it is made or loaded."""
    batch: int = 16
    """Episodes a step."""
    learning_rate: float | None = None
    """Peak learning rate; None: 2e-3 for the built-in model, 1e-5 for `model`; tenfold for adapters."""
    save_every: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_multiagent(self.env):
            if self.general or self.lora_rank:
                raise OptionError(
                    "`general` and `lora_rank` are for one agent: leave them out, or teach one agent's model apart."
                )
        elif self.models or self.share:
            raise OptionError(f"{self.env!r} has one agent: give its `model`, and leave out `models` and `share`.")
        if self.general and self.small:
            raise OptionError(
                "A built-in model knows only the words of its environment: give `general` with a `model`."
            )
        if self.lora_rank and self.small:
            raise OptionError("A built-in model is made from scratch, and an adapter needs a model: give `model`.")


@dataclass
class TrainGRPO(ClippedOptions):
    """Train a policy with GRPO; without `model`, make, warm-start and train the built-in one."""

    many_processes = True
    default_ids = (1024, 16_000)
    default_samples = (4, 1)
    default_sft_steps = 1200

    env: str = "ToolOrchestra-Restaurant-v0"
    """Gymnasium id of the environment, folder of a domain, or JSONL file of tasks."""
    model: str | None = None
    """Folder or hub name of a causal language model with a chat template; None makes the built-in model."""
    output: Path = Path("runs/grpo")
    teacher: Rare[TeacherName | None] = None
    """Who plays the episodes of the warm start; None: a teacher that suits the tools of the environment."""
    sft_batch: Rare[int] = 16
    """Episodes a step of the warm start."""
    sft_learning_rate: Rare[float | None] = None
    """Peak learning rate of the warm start; None: the default of SFT."""
    sft_ask: Rare[float] = 0.4
    """Probability that an ``asking`` teacher queries an expert in a turn."""
    steps: int = 40
    """Batches of rollouts."""
    groups: int | None = None
    """Tasks per batch; None: 16, or 2 for `model` without a GPU."""
    group_size: int | None = None
    """Rollouts per task (G); None: 8, or 4 for `model` without a GPU."""
    updates: int = 1
    """Optimiser steps per batch of rollouts, each on its share of the rows."""
    filters: tuple[Filter, ...] | None = None
    """Filters before the loss: groups of nearly equal reward (homogeneity), rollouts in which a message does not keep
    to the format of calls (format), rollouts without an answer (invalid). A wrong argument or an unknown tool is no
    wrong format; ``calls`` drops these rollouts as well. None: the three of ToolOrchestra §3.2 for `model`; homogeneity
    for the built-in model, which would not be taught by the others that such rollouts fail, and writes ever more."""
    min_std: Rare[float] = 0.1
    """Minimal standard deviation of a group's rewards that the homogeneity filter lets pass."""
    scale: bool = True
    """Divide advantages by the deviation of their group's rewards (Eq. 3). It makes all groups count alike: where all
    are solved, the smallest difference in cost then weighs as much as success does elsewhere."""
    resample: Rare[int] = 1
    """How often dropped groups are replaced by playing further tasks."""
    beta: float = 0.0
    """Weight of the KL divergence from the starting policy in the loss."""
    aggregation: Rare[Literal["grpo", "dapo"] | None] = None
    """Mean over rollouts of the mean over their tokens (grpo), or mean over all tokens of the batch (dapo). With grpo
    a token of a long rollout weighs less, so long failures are hardly punished. None: grpo for `model`, dapo for the
    built-in model."""
    ratio: Literal["token", "sequence", "product"] = "token"
    """Importance ratio per token, or per sequence over policy tokens only: their geometric mean (sequence, as in GSPO)
    or their product (product: π(τ)/π_old(τ) of ToolOrchestra Eq. 4, ParaManager Eq. 20, MAS-Orchestra Eq. 20). The
    product of a long sequence leaves the clip after a small change of the policy."""
    max_staleness: Rare[int] = 0
    """Maximum of updates of the policy between the weights that a group of rollouts began with and those that learn
    from it. 0: strictly on policy, rollouts and training take turns. Above: rollouts go on while the policy is trained,
    and groups that took longer are discarded; such a run does not repeat itself exactly. `sampler` hf then generates
    with a copy of the model."""
    open_at: Rare[float] = 0.7
    """Live success on a level that opens the next; 0 opens all levels at once."""
    preference: Rare[dict[str, float]] = field(default_factory=dict)
    """Weights in [0, 1] of tools, outcome, compute and latency for the preference reward; empty: outcome alone."""
    preference_text: Rare[str] = ""
    """The preference in words, appended to each instruction."""
    max_turns: int | None = None
    """Maximum number of turns of an episode; None: 12 for the built-in model, 50 for `model`."""
    track_kl: Rare[bool | None] = None
    """Report the divergence from the starting policy, which needs a copy of it unless `beta` has one already, or it is
    under adapters; None: for built-in models, whose copy takes little memory, and for adapters."""
    eval_every: Rare[int | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_groups("group_size")
        if self.updates > 1 and self.tasks_per_batch * self.rollouts_per_task % self.updates:
            raise OptionError(
                f"{self.tasks_per_batch} groups of {self.rollouts_per_task} rollouts cannot be shared among "
                f"{self.updates} updates. Let `updates` divide groups × group_size."
            )
        if self.max_staleness:
            self._require_asynchrony()
        if self.preference_text and not self.preference:
            raise OptionError("`preference_text` puts a `preference` into words; give the weights as well.")

    @property
    def tasks_per_batch(self) -> int:
        """The tasks of a batch, their default resolved."""
        return self.groups or DEFAULT_GROUPS[self.without_gpu][0]

    @property
    def rollouts_per_task(self) -> int:
        """The rollouts of a task, their default resolved."""
        return self.group_size or DEFAULT_GROUPS[self.without_gpu][1]

    @property
    def used_filters(self) -> tuple[Filter, ...]:
        """The filters, their default resolved."""
        return self.filters if self.filters is not None else ("homogeneity",) if self.small else PAPER_FILTERS

    @property
    def loss_aggregation(self) -> Literal["grpo", "dapo"]:
        """How the loss is averaged, its default resolved."""
        return self.aggregation or ("dapo" if self.small else "grpo")

    @property
    def tracks_kl(self) -> bool:
        """Whether the divergence is reported, its default resolved."""
        return (self.small or bool(self.lora_rank)) if self.track_kl is None else self.track_kl

    @property
    def on_policy(self) -> bool:
        """Whether what generates has the weights that learn from it, and computes with them as the training does."""
        return super().on_policy and not self.max_staleness

    def _require_asynchrony(self) -> None:
        """Raise an `OptionError` if rollouts cannot go on while the policy is trained."""
        shown = f"`max_staleness` {self.max_staleness}"
        if not self.importance_limit:
            raise OptionError(
                f"With {shown} rollouts are of earlier policies, which the loss must correct for: give an "
                "`importance_cap` above 0, or leave it out."
            )
        if processes() > 1:
            raise OptionError(
                f"With {shown} a training is one process, and {processes()} were started together. Start one, or leave "
                "it at 0."
            )
        if self.sampler == "vllm-colocate" or self.weight_sync == "nccl":
            what = "`weight_sync` nccl stops" if self.weight_sync == "nccl" else "`sampler` vllm-colocate stops"
            raise OptionError(
                f"{shown} lets rollouts go on while the policy is trained, and {what} them meanwhile. Use `sampler` "
                "vllm-server with `weight_sync` disk, or leave it at 0."
            )
        if self.lora_rank and self.sampler == "hf":
            raise OptionError(
                f"{shown} with `sampler` hf generates with a copy of the model, and adapters share one. Use `sampler` "
                "vllm-server, train all weights (`lora_rank` 0), or leave it at 0."
            )
