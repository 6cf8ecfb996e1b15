"""What a configuration needs of memory, from the configuration of its models alone (``--dry-run``).

Counted are weights, gradients, the optimiser's state and references, and the largest bundle of rows that is sampled or
trained on; not the process itself (Python, torch: about half a GiB) and, on GPUs, what CUDA and fragmentation take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from toolorchestra.agents.builtin.model import ADAPTER_CONFIG, adapter_base, build_model
from toolorchestra.agents.pretrained import load_pretrained
from toolorchestra.algos import memory
from toolorchestra.algos.memory import GIB, ModelShape
from toolorchestra.algos.options import LearnerOptions, OptimizerName, TrainOptions
from toolorchestra.toolscale.errors import OptionError

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
    """The numbers of weights of a model: all, those in linear layers but the last, and those of its adapter."""

    shape: ModelShape
    weights: int
    linear: int
    adapter: int

    @classmethod
    def of(cls, model: nn.Module, rank: int, targets: tuple[str, ...]) -> ModelSizes:
        """Return the sizes of a model, which may be on torch's device ``meta``, with adapters of a rank."""
        wrapped: Any = model
        head = wrapped.get_output_embeddings()
        layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and m is not head}
        adapted = [m for name, m in layers.items() if not targets or name.split(".")[-1] in targets]
        return cls(
            shape=ModelShape.of(wrapped.config),
            weights=sum(parameter.numel() for parameter in model.parameters()),
            linear=sum(layer.weight.numel() for layer in layers.values()),
            adapter=sum(rank * (layer.in_features + layer.out_features) for layer in adapted),
        )


@dataclass(frozen=True)
class Requirements:
    """Bytes that a configuration needs, by what for.

    Attributes:
        weights: Of all policies, adapters included.
        casts: Weights in 16 bits while they are computed with.
        gradients: Of the weights that learn.
        optimizer: The optimiser's state.
        reference: What the divergence is measured from.
        cache: Keys and values of the rows that are sampled at once.
        reading: What a layer computes with while these rows are read, and the next ids are drawn.
        activations: What is kept of the rows of one backward pass.
        logits: The logits of a chunk of their positions, and the gradient of the head.
        sampled_rows: The rows that are sampled at once, of `length` ids.
        trained_rows: Those of one backward pass.
        length: Maximum of ids of a row.
    """

    weights: float
    casts: float
    gradients: float
    optimizer: float
    reference: float
    cache: float
    reading: float
    activations: float
    logits: float
    sampled_rows: int
    trained_rows: int
    length: int

    @property
    def peak(self) -> float:
        """The bytes needed at the same time: while rows are sampled, or while they are trained on."""
        held = self.weights + self.casts + self.optimizer + self.reference
        return held + max(self.cache + self.reading, self.gradients + self.activations + self.logits)


def require_memory(config: LearnerOptions, device: torch.device | None = None) -> Requirements:
    """Print what a configuration needs beside what a device has, and return it.

    Raises:
        OptionError: It does not fit; the message names options with which it would.
    """
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    there = memory.free(device)
    needed = requirements(config, device, there)
    Console().print(_table(config, needed, device, there), highlight=False)
    if needed.peak <= there:
        return needed
    raise OptionError(
        f"The configuration needs {needed.peak / GIB:.2f} GiB, and {_name(device)} has {there / GIB:.2f}. "
        f"{_remedy(config, device, there)}"
    )


def requirements(config: LearnerOptions, device: torch.device, there: int) -> Requirements:
    """Return what a configuration needs on a device with so many bytes free."""
    policies = [_sizes(config, source) for source in _sources(config)]
    one = max(policies, key=lambda sizes: sizes.weights)
    size = 2 if config.precision == "bf16" else 4
    if config.lora_rank:
        learning = sum(sizes.adapter for sizes in policies)
        frozen = size * (one.weights - one.linear) + one.linear * (BITS4_BYTES if config.quantize else size)
        weights, casts = frozen + 4 * learning, 0.0
    else:
        learning = sum(sizes.weights for sizes in policies)
        weights, casts = 4.0 * learning, 2.0 * one.weights if size == 2 else 0.0
    held = weights + casts + learning * (4 + STATE_BYTES[config.optimizer])
    reference = _reference(config, policies)
    room = there - held - reference
    half = memory.SHARE * max(0.0, room)
    bundle = config.memory * GIB if config.memory else half if device.type == "cuda" else min(half, memory.CPU_BUDGET)

    shape, length = one.shape, config.longest
    batch, sampled = _rows(config)
    training = shape.train_bytes(size, checkpointing=config.gradient_checkpointing)
    if config.lora_rank:
        training += size * shape.written * (1 if config.gradient_checkpointing else shape.layers)
    trained = min(batch, memory.padded_rows(int(bundle), training, masked=False)(length))
    reading = shape.read_bytes(size) + 5 * length * (not shape.causal)
    fitting = memory.padded_rows(
        int(bundle), shape.read_bytes(size), masked=not shape.causal, per_row=shape.draw_bytes()
    )
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
        reading=float(sampled * (length * (reading - shape.cache_bytes(size)) + shape.draw_bytes())),
        activations=float(trained * length * training),
        logits=float(LOGIT_BYTES * positions * shape.vocabulary) + head,
        sampled_rows=sampled,
        trained_rows=trained,
        length=length,
    )


def _sources(config: LearnerOptions) -> list[str | None]:
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
    return [_base(start) if start else getattr(config, "model", None)]


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
    """Return the bytes of the copies that the divergence is measured from; of adapters, only those of online DPO."""
    if hasattr(config, "stage_steps"):  # online DPO has one for each policy that has learnt
        return float(sum(4 * (sizes.adapter if config.lora_rank else sizes.weights) for sizes in policies))
    if config.lora_rank or not hasattr(config, "track_kl"):
        return 0.0
    copies = bool(getattr(config, "beta", 0.0)) + bool(config.small if config.track_kl is None else config.track_kl)
    return 4.0 * copies * policies[0].weights


def _rows(config: LearnerOptions) -> tuple[int, int]:
    """Return the maximum of rows of one backward pass, and of rows sampled at once."""
    most = config.micro_batch or 0
    if not isinstance(config, TrainOptions):
        return most or int(getattr(config, "batch", 1)), 0
    batch: int = getattr(config, "groups", 0) or getattr(config, "questions", 1)
    for name in ("group_size", "rollouts", "paths"):
        batch *= getattr(config, name, 1)
    return most or batch, config.in_flight


def _remedy(config: LearnerOptions, device: torch.device, there: int) -> str:
    """Say with which options a configuration would fit: one of several, or several together."""
    single: list[str] = []
    flags: list[str] = []
    together = config
    for change, flag in _changes(config, device):
        if _fits(replace(config, **change), device, there):
            single.append(flag)
        together, flags = replace(together, **change), [*flags, flag]
    if single:
        return f"It would fit with {' or '.join(single)}."
    if flags and _fits(together, device, there):
        return f"It would fit with {' '.join(flags)}."
    return "No option makes it fit: take a smaller model, or a device with more memory."


def _fits(config: LearnerOptions, device: torch.device, there: int) -> bool:
    return requirements(config, device, there).peak <= there


def _changes(config: LearnerOptions, device: torch.device) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield options that take less memory than those of a configuration, the mildest first, and their flags."""
    if config.memory is not None:
        yield {"memory": None}, "no --memory"
    if not config.gradient_checkpointing:
        yield {"gradient_checkpointing": True}, "--gradient-checkpointing"
    if getattr(config, "track_kl", False):
        yield {"track_kl": False}, "--no-track-kl"
    if config.precision == "fp32":
        yield {"precision": "bf16"}, "--precision bf16"
    if device.type == "cuda" and config.optimizer == "adamw":
        yield {"optimizer": "adamw_8bit"}, "--optimizer adamw_8bit"
    if not config.lora_rank and not (config.small and not isinstance(config, TrainOptions)):
        yield {"lora_rank": 16}, "--lora-rank 16"
    if device.type == "cuda" and not config.small and not config.quantize:
        yield {"lora_rank": config.lora_rank or 16, "quantize": "4bit"}, "--quantize 4bit"
    if isinstance(config, TrainOptions) and config.longest > 4096:
        yield {"max_ids": 4096}, "--max-ids 4096"


def _table(config: LearnerOptions, needed: Requirements, device: torch.device, there: int) -> Table:
    table = Table("for", "GiB", "", title="Memory that the configuration needs", title_justify="left")
    learning = f"adapters of rank {config.lora_rank}" if config.lora_rank else "all weights"
    frozen = config.quantize or ("16 bits" if config.precision == "bf16" else "32 bits")
    rows: list[tuple[str, float, str]] = [
        ("weights", needed.weights, f"frozen in {frozen}, adapters in 32" if config.lora_rank else "32 bits"),
        ("weights in 16 bits", needed.casts, "while they are computed with"),
        ("gradients", needed.gradients, f"of {learning}"),
        ("optimiser", needed.optimizer, config.optimizer),
        ("reference", needed.reference, "what the divergence is measured from"),
        ("KV cache", needed.cache, f"{needed.sampled_rows} rows of at most {needed.length:,} tokens, while sampling"),
        ("reading", needed.reading, "of these rows by one layer"),
        ("activations", needed.activations, f"{needed.trained_rows} rows of at most {needed.length:,} tokens"),
        ("logits", needed.logits, "of a chunk of positions"),
    ]
    for name, amount, note in rows:
        table.add_row(name, f"{amount / GIB:.2f}", note)
    table.add_section()
    table.add_row("peak", f"{needed.peak / GIB:.2f}", "sampling and training take turns")
    table.add_row("there is", f"{there / GIB:.2f}", f"free on {_name(device)}")
    return table


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "this machine"
