"""Measure what one agent and two take of memory: LoRA adapters over one frozen model, and whole models.

    python benchmarks/adapters.py                      the shape of Qwen3-0.6B: for a GPU
    python benchmarks/adapters.py --layers 2 --length 128    small enough for a laptop

Every agent learns for some steps, as in the learners: forward and backward over its rows, then AdamW, one agent after
the other. What is *held* then is weights, gradients and the optimisers' state, their bytes added up; the *peak* has
activations too, which only one agent has at a time: what torch's allocator counts on CUDA, and elsewhere unknown.
Each case runs in a process of its own. Weights are random, which takes the same memory.
"""

from __future__ import annotations

import platform
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from harness import RESULTS, cli, save
from transformers import Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.adapters import make_adapters
from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy

TALK = [[{"role": "user", "content": "What is 2 and 3 ?"}, {"role": "assistant", "content": "It is 5 ."}]]
AGENTS = ("reasoner", "helper")


@dataclass(frozen=True)
class Benchmark:
    """Measure what one agent and two take of memory."""

    hidden: int = 1024  # width of the model
    layers: int = 28  # its depth
    vocabulary: int = 151_936  # its tokens
    rank: int = 16  # of the adapters
    rows: int = 4  # of a batch
    length: int = 512  # tokens of a row
    steps: int = 3  # that every agent learns for
    output: Path = RESULTS / "adapters.json"  # where the numbers go


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    prepare_torch()
    cases = {f"{len(names)} {kind}": (kind, names) for kind in ("adapters", "whole") for names in (AGENTS[:1], AGENTS)}
    found: dict[str, dict[str, int]] = {}
    with TemporaryDirectory() as folder:
        parameters = build(benchmark, Path(folder))
        for name, (kind, names) in cases.items():
            with ProcessPoolExecutor(1, get_context("spawn"), prepare_torch) as process:
                found[name] = process.submit(measure, benchmark, Path(folder), kind, names).result()
            print(name, found[name], flush=True)
    more = {what: round(found["2 adapters"][what] / found["1 adapters"][what] - 1, 4) for what in found["1 adapters"]}
    record = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "cpu",
        "parameters": parameters,
        "bytes": found,
        "two_adapters_over_one": more,
    }
    save(benchmark.output, record)
    print(f"Two agents over one, as a share of it: {more}. Written to {benchmark.output}.")


def build(benchmark: Benchmark, folder: Path) -> int:
    """Save a random model of the shape asked for, and return how many parameters it has."""
    small = builtin_text_policy(TALK)  # whose tokenizer is as good as any: only shapes count here
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=benchmark.vocabulary,
            hidden_size=benchmark.hidden,
            intermediate_size=3 * benchmark.hidden,
            num_hidden_layers=benchmark.layers,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            tie_word_embeddings=True,
        )
    )
    TokenPolicy(model, small.tokenizer, small.renderer).save(folder)
    return int(model.num_parameters())


def measure(benchmark: Benchmark, folder: Path, kind: str, names: tuple[str, ...]) -> dict[str, int]:
    """Let agents learn, and return the bytes held after it, and on CUDA the maximum allocated."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    team: dict[str, Any] = (
        {**make_adapters(names, folder, rank=benchmark.rank)}
        if kind == "adapters"
        else {name: TokenPolicy.load(folder) for name in names}
    )
    ids = torch.randint(benchmark.vocabulary, (benchmark.rows, benchmark.length), device=device)
    optimizers = []
    for policy in team.values():
        policy.model.to(device).train()
        optimizers.append(torch.optim.AdamW(policy.model.parameters()))
    for _ in range(benchmark.steps):
        for policy, optimizer in zip(team.values(), optimizers, strict=True):
            optimizer.zero_grad()
            policy.model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
    models = [getattr(policy.model, "host", policy.model) for policy in team.values()]
    parts = [part for model in models for part in (*model.parameters(), *model.buffers())]
    parts += [part.grad for part in parts if part.grad is not None]
    parts += [part for o in optimizers for kept in o.state.values() for part in kept.values() if torch.is_tensor(part)]
    held = sum({part.untyped_storage().data_ptr(): part.untyped_storage().nbytes() for part in parts}.values())
    peak = {"peak": torch.cuda.max_memory_allocated()} if device.type == "cuda" else {}
    return {"held": held, **peak}


if __name__ == "__main__":
    cli(main)
