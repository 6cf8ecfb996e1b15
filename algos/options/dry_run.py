"""What ``--dry-run`` prints: the least memory that a configuration needs, beside what there is.

It is estimated from the shapes of the models, of which no weights are loaded: what each process needs for weights,
gradients, the optimiser's state, and one row of the greatest length that is sampled or trained on. What is left over
lets more rows be computed at once (``--memory``). Not counted are the process itself (Python, torch: about half a GiB)
and what fragmentation and CUDA take.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from toolorchestra.agents.builtin.model import build_model
from toolorchestra.agents.hub import load_pretrained
from toolorchestra.algos.hardware import memory
from toolorchestra.algos.hardware.launch import processes
from toolorchestra.algos.hardware.memory import GIB, ModelShape
from toolorchestra.algos.options.context import context_of, longest_row, model_sources
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.options import LearnerOptions, OptimizerName, TrainOptions
from toolorchestra.toolscale.common.errors import OptionError

STATE_BYTES: dict[OptimizerName, int] = {"adamw": 8, "adamw_8bit": 2, "paged_adamw_8bit": 2, "rmsprop": 4}
"""Bytes that an optimiser keeps of a weight; others keep next to nothing."""
BITS4_BYTES = 0.516
"""Bytes of a weight in 4 bits, with its share of the scales (QLoRA, §3: 4.127 bits)."""
LOGIT_BYTES = 16
"""Bytes that a logit takes in training: itself, its probability and gradient, and what they are computed in."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a configuration needs in each process, with one row of `length` ids at a time.

    Attributes:
        weights: Of all policies, adapters included; of those that are divided, the part of a process.
        gradients: Of the weights that learn.
        optimizer: Its state.
        copies: Weights in 16 bits that are computed with, what the divergence is measured from, and what generates
            while a policy is trained.
        sampling: Keys and values, what a layer computes with, and divided weights, which are whole meanwhile.
        training: Activations, logits and gathered weights; and what sampling needs, if it goes on meanwhile.
        length: Maximum of ids of a row.
    """

    weights: float
    gradients: float
    optimizer: float
    copies: float
    sampling: float
    training: float
    length: int

    @property
    def peak(self) -> float:
        """The bytes needed at the same time."""
        return self.weights + self.optimizer + self.copies + max(self.sampling, self.gradients + self.training)


def require_memory(config: LearnerOptions, device: torch.device | None = None) -> MemoryEstimate:
    """Print what a configuration needs beside what a device has free, and return it.

    An `OptionError` says that it does not fit.
    """
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    needed, there, name = estimate(config), memory.free(device), "this machine"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        there //= int(os.environ.get("LOCAL_WORLD_SIZE") or 1)  # which share it
    print(f"GiB that {'each process' if processes() > 1 else 'the configuration'} needs at least:")
    for what, amount, note in (
        ("weights", needed.weights, config.quantize or config.precision),
        ("gradients", needed.gradients, f"of adapters of rank {config.lora_rank}" if config.lora_rank else ""),
        ("optimiser", needed.optimizer, config.optimizer),
        ("copies", needed.copies, "in 16 bits, of the start, and to generate with"),
        ("sampling", needed.sampling, f"a row of {needed.length:,} tokens"),
        ("training", needed.training, f"a row of {needed.length:,} tokens"),
        ("peak", needed.peak, ""),
        ("free", there, f"on {name}"),
    ):
        print(f"  {what:10}{amount / GIB:9.2f}  {note}".rstrip())
    if needed.peak > there:
        raise OptionError(
            f"The configuration needs {needed.peak / GIB:.2f} GiB, and {name} has {there / GIB:.2f}. It needs less "
            "with `gradient_checkpointing`, `precision=bf16`, `lora_rank` (and `quantize`), `shard` over more "
            "processes, shorter rows (`max_ids`), or a smaller model."
        )
    return needed


def estimate(config: LearnerOptions) -> MemoryEstimate:
    """Return what a configuration needs at least."""
    policies = [_Sizes.of(config, source) for source in model_sources(config)]
    one = max(policies, key=lambda sizes: sizes.weights)
    shape, length = one.shape, longest_row(config, (sizes.context for sizes in policies))
    size, parts, lora = 2 if config.precision == "bf16" else 4, processes() if config.shard else 1, config.lora_rank
    together = isinstance(config, TrainGRPO) and config.max_staleness > 0 and config.sampler == "hf"
    taught = policies if config.several_agents else [one]  # the others are taught one after another
    learning = sum(sizes.adapter if lora else sizes.weights for sizes in taught) / parts
    body, outer = one.weights - one.embeddings, one.embeddings
    frozen = size * outer + body * (BITS4_BYTES if config.quantize else size) if lora else 0.0
    copies = 2.0 * one.weights if size == 2 and not lora and parts == 1 else 0.0
    if hasattr(config, "stage_steps"):  # online DPO has a reference for each policy that has learnt
        copies += 4 * learning
    elif isinstance(config, TrainGRPO) and not lora:
        copies += 4 * (bool(config.beta or config.tracks_kl) + together) * one.weights / parts
    whole = gathered = 0.0
    if parts > 1:  # in training the next layer is gathered ahead, and a gradient is summed over the processes
        whole, layer = size * learning * parts, body / shape.layers
        gathered = size * (outer + 2 * layer) + (4 if size == 4 else 6) * max(outer, layer)
    per_id = shape.train_bytes(size, checkpointing=config.gradient_checkpointing)
    if lora:
        per_id += size * shape.written * (1 if config.gradient_checkpointing else shape.layers)
    head = 0 if lora else 4 * shape.vocabulary * shape.hidden  # its gradient, before it is added
    logits = LOGIT_BYTES * min(length * shape.vocabulary, memory.CHUNK) + head
    row = length * (shape.read_bytes(size) + 5 * length * (not shape.causal)) + shape.draw_bytes()
    remote = not isinstance(config, TrainOptions) or (config.sampler, config.weight_sync) == ("vllm-server", "disk")
    sampling = whole + (0 if remote else row)
    training, state = length * per_id + logits + gathered + together * sampling, STATE_BYTES.get(config.optimizer, 0)
    return MemoryEstimate(frozen + 4 * learning, 4 * learning, state * learning, copies, sampling, training, length)


class _Sizes(NamedTuple):
    """A model's shape, its weights, those of its embeddings and of an adapter, and how many ids it can read."""

    shape: ModelShape
    weights: int
    embeddings: int
    adapter: int
    context: int | None

    @classmethod
    def of(cls, config: LearnerOptions, source: str | None) -> _Sizes:
        known = None if source is None else load_pretrained("AutoConfig", source)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(known) if known else build_model(2000)
        head, names = model.get_output_embeddings(), config.lora_targets
        linear = {name: one for name, one in model.named_modules() if isinstance(one, nn.Linear) and one is not head}
        adapted = [one for name, one in linear.items() if not names or name.split(".")[-1] in names]
        outer = {id(one.weight): one.weight.numel() for one in (head, model.get_input_embeddings())}
        weights = sum(parameter.numel() for parameter in model.parameters())
        adapter = sum(config.lora_rank * (one.in_features + one.out_features) for one in adapted)
        return cls(ModelShape.of(model.config), weights, sum(outer.values()), adapter, context_of(model.config))
