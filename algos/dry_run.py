"""What ``--dry-run`` prints: what a configuration needs of memory beside what there is, and with what it would fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from toolorchestra.algos import memory
from toolorchestra.algos.launch import processes
from toolorchestra.algos.memory import GIB
from toolorchestra.algos.options import SHARDED_OPTIMIZERS, LearnerOptions, TrainOptions
from toolorchestra.algos.options_one_agent import TrainGRPO
from toolorchestra.algos.requirements import Requirements, requirements
from toolorchestra.toolscale.errors import OptionError


def require_memory(config: LearnerOptions, device: torch.device | None = None) -> Requirements:
    """Print what a configuration needs beside what a device has, and return it.

    Raises:
        OptionError: It does not fit; the message names options with which it would.
    """
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    there = memory.free(device)
    if device.type != "cuda":
        there //= int(os.environ.get("LOCAL_WORLD_SIZE") or 1)  # the processes of a machine share it
    needed = requirements(config, device, there)
    Console().print(_table(config, needed, device, there), highlight=False)
    if needed.peak <= there:
        return needed
    raise OptionError(
        f"The configuration needs {needed.peak / GIB:.2f} GiB, and {_name(device)} has {there / GIB:.2f}. "
        f"{_remedy(config, device, there, needed.length)}"
    )


def _remedy(config: LearnerOptions, device: torch.device, there: int, length: int) -> str:
    """Say with which options a configuration would fit: one of several, or several together."""
    single: list[str] = []
    flags: list[str] = []
    together = config
    for change, flag in _changes(config, device, length):
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


def _changes(config: LearnerOptions, device: torch.device, length: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield options that take less memory than those of a configuration, the mildest first, and their flags.

    Its rows have at most `length` ids.
    """
    if config.memory is not None:
        yield {"memory": None}, "no --memory"
    if not config.gradient_checkpointing:
        yield {"gradient_checkpointing": True}, "--gradient-checkpointing"
    if isinstance(config, TrainGRPO) and config.track_kl and not config.beta:
        yield {"track_kl": False}, "--no-track-kl"
    if config.precision == "fp32":
        yield {"precision": "bf16"}, "--precision bf16"
    if processes() > 1 and not config.shard and not config.lora_rank and config.optimizer in SHARDED_OPTIMIZERS:
        yield {"shard": True}, "--shard"
    if device.type == "cuda" and config.optimizer == "adamw" and not config.shard:
        yield {"optimizer": "adamw_8bit"}, "--optimizer adamw_8bit"
    if not config.lora_rank and not config.shard and not (config.small and not isinstance(config, TrainOptions)):
        yield {"lora_rank": 16}, "--lora-rank 16"
    if device.type == "cuda" and not config.small and not config.quantize and not config.shard:
        yield {"lora_rank": config.lora_rank or 16, "quantize": "4bit"}, "--quantize 4bit"
    if isinstance(config, TrainOptions) and length > 4096:
        yield {"max_ids": 4096}, "--max-ids 4096"


def _table(config: LearnerOptions, needed: Requirements, device: torch.device, there: int) -> Table:
    several = needed.processes > 1
    title = f"Memory that each of {processes()} processes needs" if processes() > 1 else ""
    table = Table("for", "GiB", "", title=title or "Memory that the configuration needs", title_justify="left")
    part = f", a part of {needed.processes}" * several
    learning = f"adapters of rank {config.lora_rank}" if config.lora_rank else "all weights"
    frozen = config.quantize or ("16 bits" if config.precision == "bf16" else "32 bits")
    rows: list[tuple[str, float, str]] = [
        ("weights", needed.weights, f"frozen in {frozen}, adapters in 32" if config.lora_rank else f"32 bits{part}"),
        ("weights in 16 bits", needed.casts, "while they are computed with"),
        ("gradients", needed.gradients, f"of {learning}{part}"),
        ("optimiser", needed.optimizer, f"{config.optimizer}{part}"),
        ("reference", needed.reference, "copies: what the divergence is measured from, what generates meanwhile"),
        ("KV cache", needed.cache, f"{needed.sampled_rows} rows of at most {needed.length:,} tokens, while sampling"),
        ("kept for later turns", needed.kept, "keys and values, at most half of --memory"),
        ("reading", needed.reading, "of these rows by one layer"),
        ("activations", needed.activations, f"{needed.trained_rows} rows of at most {needed.length:,} tokens"),
        ("logits", needed.logits, "of a chunk of positions"),
    ]
    if several:
        rows.append(("whole weights", needed.whole, "gathered while sampling"))
        rows.append(("gathered", needed.gathered, "of a few layers at a time while training, and a gradient"))
    for name, amount, note in rows:
        table.add_row(name, f"{amount / GIB:.2f}", note)
    table.add_section()
    table.add_row(
        "peak",
        f"{needed.peak / GIB:.2f}",
        f"sampling and training {'go on together' if needed.meanwhile else 'take turns'}",
    )
    table.add_row("there is", f"{there / GIB:.2f}", f"free on {_name(device)}")
    return table


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "this machine"
