"""Options of all learners: `LearnerOptions`, of those on rollouts `TrainOptions`, of the clipped ones `ClippedOptions`.

Options are apart from the learners because these need torch, which takes seconds to import, and a learner's ``--help``
needs none of it. Those of single learners are in `toolorchestra.algos.options.one_agent` and
`toolorchestra.algos.options.several_agents`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import tyro

from toolorchestra.algos.hardware.batching import spread
from toolorchestra.algos.hardware.launch import launched_sharded, processes
from toolorchestra.envs.environment_names import resolve
from toolorchestra.envs.registration import is_multiagent
from toolorchestra.envs.starts import EpisodeStart, json_or_text
from toolorchestra.toolscale.common.errors import OptionError

T = TypeVar("T")
RARE = "rare"
Rare = Annotated[T, RARE]
"""The type of an option that only ``--help-all`` shows."""
SamplerName = Literal["hf", "vllm-server", "vllm-colocate"]
EVAL_TASKS = 8, 4
"""Held-out tasks that models other than the built-in ones are evaluated on by default: with a GPU, and without."""
ADAPTER_RATE = 10
"""How many times as high the default learning rate of adapters is."""
SFT_IDS = 8192
"""Tokens of the longest demonstration that a dry run expects."""
OptimizerName = Literal["adamw", "adamw_8bit", "paged_adamw_8bit", "adafactor", "rmsprop", "sgd"]
"""Optimisers, by the names of transformers."""
Schedule = Literal["constant", "linear", "cosine", "inverse_sqrt"]
"""Schedules of the learning rate, by the names of transformers."""
SHARDED_OPTIMIZERS: tuple[OptimizerName, ...] = ("adamw", "rmsprop", "sgd")
"""Optimisers whose state is divided like the weights (`shard`)."""
AT_LEAST_0 = ("learning_rate", "sft_learning_rate", "lora_rank", "warmup_steps", "eval_samples", "eval_every", "beta",
              "importance_cap", "keep_rollouts", "max_staleness", "steps", "sft_steps")  # fmt: skip
AT_LEAST_1 = ("save_total_limit", "micro_batch", "in_flight", "eval_tasks", "updates", "batch", "replays", "groups",
              "general_limit", "max_calls", "rounds", "stage_steps", "minibatch", "epochs",
              "min_pairs")  # fmt: skip
SHARES = ("sft_error", "error", "ask", "general_share")
"""Options of any learner that are in [0, 1]; those above have a minimum."""
OWN_LEARNERS = {"MSARL": "msarl", "TMATR": "tmatr"}
"""The learner of a protocol of several agents that has one of its own; `multi_grpo` trains any."""


def learners_of(env_id: str) -> str:
    """Return the commands that train the agents of an environment together, as a message names them.

    >>> learners_of("Dialogue-Restaurant-v0")
    '`python algos/multi_grpo.py --env Dialogue-Restaurant-v0`'
    """
    names = [name for name in (OWN_LEARNERS.get(env_id.split("-")[0]), "multi_grpo") if name]
    return " or ".join(f"`python algos/{name}.py --env {env_id}`" for name in names)


@dataclass
class CommandLine:
    """What a command line may say beside a learner's options."""

    config: Annotated[str | None, tyro.conf.arg(metavar="FILE")] = None
    """YAML file whose keys are these options, or the name of a recipe (`train recipes`). Options on the command
    line go first."""
    smoke: tyro.conf.FlagCreatePairsOff[bool] = False
    """Run at toy size: a tiny random model instead of those given, two steps, small batches. All else stays as it is;
    the folder is that of `output` with -smoke."""
    help_all: tyro.conf.FlagCreatePairsOff[bool] = False
    """Show all options, also those that are rarely needed, and exit."""


@dataclass
class LearnerOptions(ABC):
    """Options of every learner, supervised fine-tuning included.

    Attributes:
        builtin_rate: The default learning rate of built-in models.
        model_rate: That of other models.
        several_agents: Whether it trains the agents of an environment together.
        one_or_several: Whether it also trains them apart, each on its side of the episodes.
        model_options: Names of the options that give models; without them, built-in ones are made.
        many_processes: Whether it trains in several processes at once (`toolorchestra.algos.hardware.distributed`).
    """

    builtin_rate: ClassVar[float]
    model_rate: ClassVar[float]
    several_agents: ClassVar[bool] = False
    one_or_several: ClassVar[bool] = False
    model_options: ClassVar[tuple[str, ...]] = ("model",)
    many_processes: ClassVar[bool] = False

    env: str
    """Id of the environment, folder of a domain, or JSONL file of tasks."""
    output: Path
    """Folder for models, checkpoints and metrics."""
    env_options: dict[str, str] = field(default_factory=dict)
    """Further arguments of the environment, e.g. ``tools full``; values that are JSON are read as such."""
    source: str | None = None
    """For an id with ``Custom`` as its source: the name of a source, such as a public data set (``gsm8k``)."""
    source_options: Rare[dict[str, str]] = field(default_factory=dict)
    """Options of a public data set: ``files PATH``, ``limit N``, ``revision COMMIT``, ``held_out SHARE``."""
    seed: int = 0
    """Seed of everything random."""
    difficulty: tuple[int, ...] | None = None
    """Levels of the tasks to train and evaluate on; empty for all. None: 1 and 2 for built-in models, else all."""
    learning_rate: float | None = None
    """Peak learning rate; None: a default of the learner for built-in models, 1e-6 for others; tenfold for adapters."""
    threads: Rare[int | None] = None
    """Threads of torch; None: one for built-in models, whose operations are too small to be shared, for others the
    number of cores, at most 4."""
    save_every: int = 10
    """Steps between checkpoints; 0 for none."""
    save_total_limit: Rare[int | None] = None
    """How many complete checkpoints to keep, the newest ones; None: all."""
    memory: float | None = None
    """GiB that rows which are sampled or trained on together may take beside the weights; None: half of the free
    memory, without a GPU at most 1. Less is slower, and changes no result but by rounding."""
    micro_batch: int | None = None
    """Maximum of rows (of pairs, with online DPO twice as many) in one forward and backward pass; None: as many as
    `memory` has room for. The gradient is that of the whole batch."""
    gradient_checkpointing: bool = False
    """Keep only the inputs of each layer for the backward pass, and compute the rest again: about a third slower, and a
    bundle has room for many times as many tokens."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """What is computed with: 32 bits, or 16 (bfloat16). Trained weights and their optimiser are of 32 bits."""
    lora_rank: int = 0
    """Rank of the LoRA adapter of each policy, over a frozen model (that all policies share); 0: all weights learn."""
    lora_alpha: Rare[float | None] = None
    """What an adapter has learnt is scaled by this, divided by its rank; None: twice the rank."""
    lora_targets: Rare[tuple[str, ...]] = ()
    """Names of the linear layers with adapters, such as ``q_proj v_proj``; none: all but the last."""
    quantize: Rare[Literal["4bit"] | None] = None
    """Load the frozen model under adapters in 4 bits (bitsandbytes; slow without a GPU)."""
    shard: Rare[bool] = field(default_factory=launched_sharded)
    """Divide weights, gradients and the optimiser's state over the processes (FSDP2), instead of keeping all of them in
    each. `accelerate launch` sets it with a configuration for FSDP."""
    optimizer: Rare[OptimizerName] = "adamw"
    """Optimiser; those in 8 bits need bitsandbytes and a GPU."""
    lr_scheduler_type: Rare[Schedule | None] = None
    """How the learning rate goes on after the warm-up; None: ``cosine`` for SFT, else ``constant``."""
    warmup_steps: Rare[int | None] = None
    """Steps (of SFT), or batches of rollouts, over which the learning rate rises from 0; None: for SFT a tenth of the
    steps, at most 30, else 0."""
    dry_run: bool = False
    """Print what the configuration needs of memory beside what there is, and end; no weights are loaded."""
    template_options: Rare[dict[str, str]] = field(default_factory=dict)
    """Options of the chat template, such as ``enable_thinking false``; values that are JSON are read as such. They are
    kept with the policy."""
    call_format: Rare[Literal["native", "hermes"] | None] = None
    """How a model with a chat template writes calls: as the template has it, or as text in ``<tool_call>`` blocks.
    None: the first if what the template renders is read back as the same calls, else the second."""
    resume: bool = False
    """Continue from the last checkpoint in `output`, exactly as if the run had not stopped."""

    def __post_init__(self) -> None:
        resolve(self.env)
        if not self.many_processes and processes() > 1:
            raise OptionError(
                f"This learner trains in one process, and {processes()} were started. Start one: `python`, "
                "`toolorchestra train`, or `torchrun --nproc_per_node 1`."
            )
        if is_multiagent(self.env) and not (self.several_agents or self.one_or_several):
            raise OptionError(
                f"{self.env!r} is an environment of several agents, and this learner trains the policy of one. "
                f"Train its agents together: {learners_of(self.env)}."
            )
        if self.several_agents and not is_multiagent(self.env):
            raise OptionError(
                f"{self.env!r} is an environment of one agent, and this learner trains several together. "
                f"Train it by GRPO: `python algos/grpo.py --env {self.env}`."
            )
        self.require_at_least(0, *AT_LEAST_0)
        self.require_at_least(1, *AT_LEAST_1)
        if self.memory is not None and self.memory <= 0:
            raise OptionError(f"`memory` must be above 0, got {self.memory}.")
        for name in SHARES:
            if not 0 <= (share := getattr(self, name, 0)) <= 1:
                raise OptionError(f"`{name}` must lie in [0, 1], got {share!r}.")
        if not self.lora_rank and (self.lora_alpha is not None or self.lora_targets or self.quantize):
            raise OptionError(
                "`lora_alpha`, `lora_targets` and `quantize` are about adapters over a frozen model: give `lora_rank`."
            )
        if self.quantize and self.small:
            raise OptionError(
                "`quantize` loads the weights of a model in 4 bits, and built-in ones are made: give a model."
            )
        if self.shard and self.lora_rank:
            raise OptionError(
                "`shard` divides weights that learn, and under adapters (`lora_rank`) they are frozen: leave out one. "
                "`precision` bf16 keeps frozen weights in 2 bytes each, `quantize` 4bit in half a byte."
            )
        if self.shard and self.optimizer not in SHARDED_OPTIMIZERS:
            raise OptionError(
                f"`shard` divides the state of the optimisers {', '.join(SHARDED_OPTIMIZERS)}, not that of "
                f"{self.optimizer}. Choose one of them."
            )
        if (self.template_options or self.call_format) and self.small:
            raise OptionError(
                "Built-in models have no chat template: give `template_options` and `call_format` with a model."
            )
        if self.resume and not self.save_every:
            raise OptionError("`resume` needs checkpoints: leave `save_every` above 0.")

    def require_at_least(self, minimum: int, *names: str) -> None:
        """Raise an `OptionError` if one of these options is there, given, and below a minimum."""
        for name in names:
            if (value := getattr(self, name, None)) is not None and value < minimum:
                raise OptionError(f"`{name}` must be at least {minimum}, got {value!r}.")

    def require_groups(self, *names: str) -> None:
        """Raise an `OptionError` if one of these numbers of rollouts, which are compared, is below 2."""
        for name in names:
            if (size := getattr(self, name)) is not None and size < 2:
                raise OptionError(f"The rollouts of a group are compared: `{name}` {size} is below 2.")

    @property
    def read_template_options(self) -> dict[str, Any]:
        """The options of the chat template, with values that are JSON read as such."""
        named = {"call_format": self.call_format} if self.call_format else {}
        return {name: json_or_text(value) for name, value in self.template_options.items()} | named

    @property
    def environment_options(self) -> dict[str, Any]:
        """The arguments of the environment, its source among them if one is named."""
        from toolorchestra.envs.task_source import source_argument  # reads much that the help does not need

        named = {name: json_or_text(value) for name, value in self.source_options.items()}
        return {**self.env_options, **source_argument(self.env, self.source, named)}

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the tasks, their default resolved; empty for all."""
        return self.difficulty if self.difficulty is not None else (1, 2) if self.small else ()

    @property
    def setting(self) -> str:
        """The environment and the levels of its tasks, as titles name them."""
        *others, last = map(str, self.levels or ("",))
        levels = f"levels {', '.join(others)} and {last}" if others else f"level {last}"
        return f"{self.env}, {levels}" if last else self.env

    @property
    def small(self) -> bool:
        """Whether the policies are built-in models."""
        return not any(getattr(self, name) for name in self.model_options)

    def given_models(self) -> list[str]:
        """Return the folders or hub names of the models given, each once."""
        values = [getattr(self, name) for name in (*self.model_options, "helper") if getattr(self, name, None)]
        names = [name for value in values for name in (value.values() if isinstance(value, dict) else [value])]
        return list(dict.fromkeys(map(str, names)))

    def set_up(self, model: Any) -> None:
        """Prepare a model that has been loaded for training."""
        from toolorchestra.algos.hardware.autocast import mark

        mark(model, self.precision == "bf16")
        if self.quantize:
            from toolorchestra.algos.hardware.four_bits import keep_differentiable
            from toolorchestra.algos.hardware.logits import base_model

            keep_differentiable(base_model(model))
        if self.gradient_checkpointing:
            from toolorchestra.algos.hardware.logits import base_model

            base_model(model).gradient_checkpointing_enable({"use_reentrant": False})
            if self.lora_rank:  # else nothing that goes into a checkpointed layer has a gradient
                base_model(model).enable_input_require_grads()
        if self.shard:
            from toolorchestra.algos.hardware.sharding import shard

            shard(model, bf16=self.precision == "bf16")

    @property
    def longest(self) -> int:
        """Maximum of ids of a row."""
        return SFT_IDS

    @property
    def torch_threads(self) -> int | None:
        """The threads of torch, their default for built-in models resolved."""
        return self.threads or (1 if self.small else None)

    @property
    def rate(self) -> float:
        """The learning rate, its default resolved."""
        default = (self.builtin_rate if self.small else self.model_rate) * (ADAPTER_RATE if self.lora_rank else 1)
        return default if self.learning_rate is None else self.learning_rate


@dataclass
class TrainOptions(LearnerOptions):
    """Options of learners that train on rollouts, after a warm start, and evaluate on held-out tasks.

    Attributes:
        default_ids: The default of `max_ids` of built-in models, and of others.
        default_turn_ids: Likewise that of `max_turn_ids`, and of others without a GPU.
        default_samples: Likewise that of `eval_samples`.
        default_sft_steps: The steps of the warm start of built-in models.
    """

    builtin_rate = 3e-4
    model_rate = 1e-6
    default_ids: ClassVar[tuple[int, int]] = (512, 16_000)
    default_turn_ids: ClassVar[tuple[int, int, int]] = (64, 1024, 512)
    default_samples: ClassVar[tuple[int, int]] = (8, 1)
    default_sft_steps: ClassVar[int] = 600

    start: Path | None = None
    """Folder of policies to start from (the ``start`` or ``final`` of another run) instead of making them."""
    sft_steps: int | None = None
    """Steps of the warm start, in which every model learns a teacher's demonstrations; 0 for none. None: 600 for
    built-in models (1200 with GRPO for one agent), none for others."""
    sft_error: Rare[float] = 0.4
    """Error probability of the teacher's episodes at the end of the warm start."""
    minutes: Rare[float | None] = None
    """Minutes after which no batch of rollouts ends: none begins that would, if it took as long as the one before. What
    was learnt until then is evaluated and saved. None: no such bound."""
    temperature: float = 1.0
    """Sampling temperature of rollouts."""
    max_turn_ids: int | None = None
    """Maximum number of tokens of a turn; None: 64 for built-in models, for others 1024, without a GPU 512."""
    max_ids: int | None = None
    """Maximum number of tokens of an agent in an episode, at most what the models can read; None: 512 for built-in
    models (with GRPO for one agent 1024), 16000 for others, and less where a model cannot read as many."""
    in_flight: Rare[int] = 128
    """Maximum number of episodes played at a time in each process; fewer, if `memory` has not room for as many long
    episodes."""
    sampler: SamplerName = "hf"
    """Who generates: the model itself (``hf``), a server started by ``vllm serve`` (``vllm-server``), or vLLM in the
    training's own process on a GPU (``vllm-colocate``)."""
    server: Rare[str] = "http://127.0.0.1:8000"
    """Address of the server for ``vllm-server``."""
    weight_sync: Rare[Literal["disk", "nccl"]] = "disk"
    """How weights reach the server: through a folder in `output`, which it must see, or from GPU to GPU."""
    vllm_gpu_memory_utilization: Rare[float] = 0.3
    """Share of the GPU's memory for ``vllm-colocate``."""
    eval_split: Rare[str] = "test"
    """Held-out split."""
    eval_samples: int | None = None
    """Sampled episodes per held-out task, beside a greedy one; 0: no evaluation. None: 8 for built-in models, with GRPO
    for one agent 4; 1 for others."""
    eval_tasks: int | None = None
    """Maximum of held-out tasks to evaluate on, spread over the split; None: all for built-in models, for others 8,
    without a GPU 4."""
    eval_every: Rare[int | None] = 0
    """Batches of rollouts between evaluations; 0: only before and after the training; None: a quarter of the batches
    for built-in models, else 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.minutes is not None and self.minutes <= 0:
            raise OptionError(f"`minutes` must be above 0, got {self.minutes}.")
        if self.temperature <= 0:
            raise OptionError(f"`temperature` must be above 0, got {self.temperature}.")
        if not 0 < self.vllm_gpu_memory_utilization < 1:
            share = self.vllm_gpu_memory_utilization
            raise OptionError(f"`vllm_gpu_memory_utilization` must lie between 0 and 1, got {share}.")
        if self.weight_sync == "nccl" and self.sampler != "vllm-server":
            raise OptionError("`weight_sync` nccl is for `sampler` vllm-server; the others have the weights already.")
        if self.several_agents and (self.sampler == "vllm-colocate" or self.weight_sync == "nccl"):
            what = "`weight_sync` nccl" if self.weight_sync == "nccl" else f"`sampler` {self.sampler}"
            raise OptionError(
                f"{what} serves one policy (`train grpo`), and this learner may train several. Use `sampler` "
                "vllm-server with `weight_sync` disk, or `sampler` hf."
            )
        if self.start and not self.small:
            raise OptionError("`start` holds policies already: give it or a model, not both.")
        if self.start and not self.start.is_dir():
            raise OptionError(f"`start` {str(self.start)!r} is no folder: give the folder `final` of another run.")

    @property
    @abstractmethod
    def total(self) -> int:
        """Batches of rollouts of the whole training."""

    @property
    def without_gpu(self) -> bool:
        """Whether a given model learns without a GPU, where less is played by default."""
        if self.small:
            return False
        import torch

        return not torch.cuda.is_available()

    def evaluated(self, starts: Sequence[EpisodeStart]) -> list[EpisodeStart]:
        """Return those of all held-out tasks that are evaluated on."""
        most = self.eval_tasks or (len(starts) if self.small else EVAL_TASKS[self.without_gpu])
        return spread(starts, most)

    @property
    def samples(self) -> int:
        """Sampled episodes per held-out task, their default resolved."""
        return self.default_samples[0 if self.small else 1] if self.eval_samples is None else self.eval_samples

    def announcement(self, tasks: int, longest: int) -> str:
        """Return the line that says how much an evaluation on so many tasks plays, in rows of at most `longest` ids."""
        each = f"greedily and {self.samples} sampled for each of {tasks} tasks"
        return (
            f"Held-out episodes: {tasks * (self.samples + 1)}, {each}; at most {longest:,} tokens each and "
            f"{min(self.turn_ids, longest):,} a turn (--eval-samples, --eval-tasks, --max-ids, --max-turn-ids)"
        )

    @property
    def milestones(self) -> set[int]:
        """The numbers of batches of rollouts after which the policies are evaluated."""
        if not self.samples:
            return set()
        quarter = self.total // 4 if self.small else 0
        every = quarter if self.eval_every is None else self.eval_every
        return {0, self.total, *(range(0, self.total, every) if every else ())}

    @property
    def longest(self) -> int:
        """Maximum of ids of a row, its default resolved."""
        return self.max_ids or self.default_ids[0 if self.small else 1]

    @property
    def turn_ids(self) -> int:
        """Maximum of ids of a turn, its default resolved."""
        return self.max_turn_ids or self.default_turn_ids[0 if self.small else 1 + self.without_gpu]

    @property
    def warm_steps(self) -> int:
        """Steps of the warm start, their default resolved."""
        if self.start:
            return 0
        return (self.default_sft_steps if self.small else 0) if self.sft_steps is None else self.sft_steps


@dataclass
class ClippedOptions(TrainOptions):
    """Options of learners that update their policies by the clipped objective."""

    steps: int = 20
    """Batches of rollouts."""
    updates: int = 1
    """Optimiser steps per batch of rollouts, each on all its rows."""
    epsilon: float = 0.2
    """Clip of the probability ratio below 1."""
    epsilon_high: float = 0.28
    """Clip of the probability ratio above 1."""
    keep_rollouts: Rare[int] = 10
    """Batches from one to the next of which a group of rollouts is kept in ``rollouts.jsonl``, to be looked at token by
    token with `toolorchestra view`; 0 for none."""
    importance_cap: Rare[float | None] = None
    """Maximum of the ratio π(trainer) / π(sampler) by which the loss of a token is multiplied, since what generates
    computes with other rounding than what trains (truncated importance sampling); 0: no such correction. None: 2 with
    vLLM, and where rollouts go on during the training, else 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_at_least(1, "steps")
        if not 0 < self.epsilon < 1 or self.epsilon_high <= 0:
            raise OptionError("`epsilon` must lie in (0, 1), and `epsilon_high` above 0.")

    @property
    def importance_limit(self) -> float:
        """The maximum of importance ratios, its default resolved; 0 for no correction."""
        default = 0.0 if self.on_policy else 2.0
        return default if self.importance_cap is None else self.importance_cap

    @property
    def on_policy(self) -> bool:
        """Whether what generates has the weights that learn from it, and computes with them as the training does."""
        return self.sampler == "hf"

    @property
    def total(self) -> int:
        """Batches of rollouts of the whole training."""
        return self.steps


# ------------------------------------------------------------------------------------------- checkpoints, metrics
