"""What a configuration needs of memory, from the configuration of its models alone (``--dry-run``).

Counted are weights, gradients, the optimiser's state and references, and the largest bundle of rows that is sampled or
trained on, in each process; not the process itself (Python, torch: about half a GiB) and, on GPUs, what CUDA and
fragmentation take. Not here: what is printed of it (`toolorchestra.algos.dry_run`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from toolorchestra.agents.builtin.model import ADAPTER_CONFIG, BUILTIN_CONTEXT, adapter_base, build_model
from toolorchestra.agents.pretrained import load_pretrained
from toolorchestra.algos import memory
from toolorchestra.algos.context import context_of, longest_row
from toolorchestra.algos.launch import processes
from toolorchestra.algos.memory import GIB, ModelShape
from toolorchestra.algos.options import LearnerOptions, OptimizerName, TrainOptions
from toolorchestra.algos.options_one_agent import TrainGRPO

STATE_BYTES: dict[OptimizerName, float] = {
    "adamw": 8,
    "adamw_8bit": 2,
    "paged_adamw_8bit": 2,
    "adafactor": 0,  # of a row and a column of each matrix
    "rmsprop": 4,
    "sgd": 0,
}
"""Bytes that an optimiser keeps of a weight."""
BITS4_BYTES = 0.516
"""Bytes of a weight in 4 bits, with its share of the scales (QLoRA, §3: 4.127 bits)."""
LOGIT_BYTES = 16
"""Bytes that a logit takes in training: itself, its probability and gradient, and what they are computed in."""
BUILTIN_VOCABULARY = 2000
"""Vocabulary that is expected of a built-in model, which is made from the environment."""


@dataclass(frozen=True)
class ModelSizes:
    """The numbers of weights of a model.

    Attributes:
        shape: Of the model.
        weights: All.
        linear: Those in linear layers but the last.
        adapter: Those of its adapter.
        layer: Those of its largest decoder layer.
        rest: Those outside of decoder layers; all, if the model does not name these.
        context: Ids that it can read; None if nothing bounds them.
    """

    shape: ModelShape
    weights: int
    linear: int
    adapter: int
    layer: int
    rest: int
    context: int | None

    @classmethod
    def of(cls, model: nn.Module, rank: int, targets: tuple[str, ...]) -> ModelSizes:
        """Return the sizes of a model, which may be on torch's device ``meta``, with adapters of a rank."""
        wrapped: Any = model
        head = wrapped.get_output_embeddings()
        layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head}
        adapted = [m for name, m in layers.items() if not targets or name.split(".")[-1] in targets]
        weights = _count(model)
        named = getattr(wrapped, "_no_split_modules", None) or ()
        blocks = [_count(one) for one in model.modules() if type(one).__name__ in named]
        return cls(
            shape=ModelShape.of(wrapped.config),
            weights=weights,
            linear=sum(layer.weight.numel() for layer in layers.values()),
            adapter=sum(rank * (layer.in_features + layer.out_features) for layer in adapted),
            layer=max(blocks, default=0),
            rest=weights - sum(blocks),
            context=context_of(wrapped.config),
        )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@dataclass(frozen=True)
class Requirements:
    """Bytes that a configuration needs in each process, by what for.

    Attributes:
        weights: Of all policies, adapters included; of those that are divided, the part of a process.
        casts: Weights in 16 bits while they are computed with.
        gradients: Of the weights that learn.
        optimizer: The optimiser's state.
        reference: What the divergence is measured from, and the copy that generates while a policy is trained.
        cache: Keys and values of the rows that are sampled at once.
        kept: Keys and values that are kept for later turns.
        reading: What a layer computes with while these rows are read, and the next ids are drawn.
        activations: What is kept of the rows of one backward pass.
        logits: The logits of a chunk of their positions, and the gradient of the head.
        sampled_rows: The rows that are sampled at once, of `length` ids.
        trained_rows: Those of one backward pass.
        length: Maximum of ids of a row.
        whole: The whole weights of divided policies, gathered while rows are sampled.
        gathered: What of divided weights is gathered at once while rows are trained on, and its gradient.
        processes: Over how many processes weights, gradients and the optimiser's state are divided.
        meanwhile: Whether rows are sampled while others are trained on.
    """

    weights: float
    casts: float
    gradients: float
    optimizer: float
    reference: float
    cache: float
    kept: float
    reading: float
    activations: float
    logits: float
    sampled_rows: int
    trained_rows: int
    length: int
    whole: float = 0.0
    gathered: float = 0.0
    processes: int = 1
    meanwhile: bool = False

    @property
    def peak(self) -> float:
        """The bytes needed at the same time: while rows are sampled, or while they are trained on, or both."""
        held = self.weights + self.casts + self.optimizer + self.reference
        sampling = self.cache + self.kept + self.reading + self.whole
        training = self.gradients + self.activations + self.logits + self.gathered
        return held + (sampling + training if self.meanwhile else max(sampling, training))


def requirements(config: LearnerOptions, device: torch.device, there: int) -> Requirements:
    """Return what a configuration needs on a device with so many bytes free."""
    policies = [_sizes(config, source) for source in sources(config)]
    one = max(policies, key=lambda sizes: sizes.weights)
    size = 2 if config.precision == "bf16" else 4
    parts = processes() if config.shard else 1
    if config.lora_rank:
        learning = float(sum(sizes.adapter for sizes in policies))
        frozen = size * (one.weights - one.linear) + one.linear * (BITS4_BYTES if config.quantize else size)
        weights, casts = frozen + 4 * learning, 0.0
    else:
        learning = sum(sizes.weights for sizes in policies) / parts
        weights, casts = 4.0 * learning, 2.0 * one.weights if size == 2 and parts == 1 else 0.0
    whole = gathered = 0.0
    if parts > 1:  # in 16 bits, if these are computed with; two layers, since the next is gathered ahead
        whole = float(size * sum(sizes.weights for sizes in policies))
        gradient = size if size == 4 else size + 4  # summed over the processes in 32 bits
        gathered = float(size * (one.rest + 2 * one.layer) + gradient * max(one.rest, one.layer))
    held = weights + casts + learning * (4 + STATE_BYTES[config.optimizer])
    reference = _reference(config, policies) / parts
    room = there - held - reference - whole
    half = memory.SHARE * max(0.0, room)
    bundle = config.memory * GIB if config.memory else half if device.type == "cuda" else min(half, memory.CPU_BUDGET)

    shape, length = one.shape, longest_row(config, (sizes.context for sizes in policies))
    batch, sampled = _rows(config)
    training = shape.train_bytes(size, checkpointing=config.gradient_checkpointing)
    if config.lora_rank:
        training += size * shape.written * (1 if config.gradient_checkpointing else shape.layers)
    trained = min(batch, memory.padded_rows(int(bundle), training, masked=False)(length))
    reading = shape.read_bytes(size) + 5 * length * (not shape.causal)
    fitting = memory.padded_rows(
        int(bundle), shape.read_bytes(size), masked=not shape.causal, per_row=shape.draw_bytes()
    )
    kept = sampled * length * shape.cache_bytes(size) * shape.causal
    sampled = min(sampled, fitting(length))
    head = 0.0 if config.lora_rank else 4.0 * shape.vocabulary * shape.hidden  # its gradient, before it is added
    positions = min(trained * length, max(1, memory.CHUNK // shape.vocabulary))
    return Requirements(
        weights=weights,
        casts=casts,
        gradients=4.0 * learning,
        optimizer=STATE_BYTES[config.optimizer] * learning,
        reference=reference,
        cache=float(sampled * length * shape.cache_bytes(size)),
        kept=float(min(kept, bundle // 2)),
        reading=float(sampled * (length * (reading - shape.cache_bytes(size)) + shape.draw_bytes())),
        activations=float(trained * length * training),
        logits=float(LOGIT_BYTES * positions * shape.vocabulary) + head,
        sampled_rows=sampled,
        trained_rows=trained,
        length=length,
        whole=whole,
        gathered=gathered,
        processes=parts,
        meanwhile=_meanwhile(config),
    )


def sources(config: LearnerOptions) -> list[str | None]:
    """Return the folder or hub name of each policy's model; None for a built-in one."""
    start = getattr(config, "start", None)
    if config.several_agents:
        team: Any = config
        env = team.make_env()
        names = team.policies(env)
        env.close()
        if start:
            return [_base(start / name) for name in names]
        return [None if config.small else team.model_of(name) for name in names]
    if models := getattr(config, "models", None):  # the agents of a game are taught one after another
        given = [model for model in (*models.values(), getattr(config, "model", None)) if model]
        return [max(given, key=lambda model: _sizes(config, model).weights)]
    return [_base(start) if start else getattr(config, "model", None)]


def require_context(config: TrainOptions) -> None:
    """Check before anything is made that the models of a run can read rows as long as it asks for.

    Raises:
        OptionError: They cannot.
    """
    if config.max_ids is not None:
        configs = (None if source is None else load_pretrained("AutoConfig", source) for source in sources(config))
        longest_row(config, [BUILTIN_CONTEXT if one is None else context_of(one) for one in configs])


def _base(folder: Path) -> str:
    return adapter_base(folder) if (folder / ADAPTER_CONFIG).is_file() else str(folder)


def _sizes(config: LearnerOptions, source: str | None) -> ModelSizes:
    if source is None:
        with torch.device("meta"):
            model: nn.Module = build_model(BUILTIN_VOCABULARY)
    else:
        from transformers import AutoModelForCausalLM

        found = load_pretrained("AutoConfig", source)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(found)
    return ModelSizes.of(model, config.lora_rank, config.lora_targets)


def _reference(config: LearnerOptions, policies: list[ModelSizes]) -> float:
    """Return the bytes of copies: those that the divergence is measured from, and the one that generates.

    Of adapters there are none, but with online DPO.
    """
    if hasattr(config, "stage_steps"):  # online DPO has one for each policy that has learnt
        return float(sum(4 * (sizes.adapter if config.lora_rank else sizes.weights) for sizes in policies))
    if config.lora_rank or not isinstance(config, TrainGRPO):
        return 0.0
    return 4.0 * (bool(config.beta or config.tracks_kl) + _meanwhile(config)) * policies[0].weights


def _meanwhile(config: LearnerOptions) -> bool:
    """Whether a copy of the model generates while the model is trained."""
    return isinstance(config, TrainGRPO) and config.max_staleness > 0 and config.sampler == "hf"


def _rows(config: LearnerOptions) -> tuple[int, int]:
    """Return the maximum of rows of one backward pass, and of rows sampled at once in this process."""
    most = config.micro_batch or 0
    if not isinstance(config, TrainOptions):
        return most or int(getattr(config, "batch", 1)), 0
    batch: int = getattr(config, "groups", 0) or getattr(config, "questions", 1)
    for name in ("group_size", "rollouts", "paths"):
        batch *= getattr(config, name, 1)
    batch = -(-batch // processes())
    elsewhere = config.sampler == "vllm-server" and config.weight_sync == "disk"
    return most or batch, 0 if elsewhere else config.in_flight
