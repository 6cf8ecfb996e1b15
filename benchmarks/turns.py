"""Measure what keeping the key-value cache between turns saves while episodes are sampled (`--sampler hf`).

    python benchmarks/turns.py --record       about a minute on one core of a CPU

Episodes of several turns are continued together by a model with random weights: once with the cache kept, and once with
every turn reading the whole episode again. Both draw the same ids.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import tyro
from provenance import provenance
from transformers import Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.model import prepare_torch
from toolorchestra.algos.rollout.sampling import ModelSampler

RECORD = Path(__file__).parent / "results" / "turns.json"


@dataclass
class Benchmark:
    """What is measured."""

    episodes: int = 8
    """Played at the same time."""
    group: int = 4
    """Episodes of one task."""
    turns: int = 10
    """Of each."""
    prompt: int = 800
    """Ids before the first turn."""
    written: int = 40
    """Ids of a turn that the model writes."""
    result: int = 120
    """Ids of a turn that come back."""
    hidden: int = 256
    """Width of the model's residual stream."""
    layers: int = 4
    """Its layers."""
    record: bool = False
    """Write the numbers to ``benchmarks/results/turns.json``."""


def main(benchmark: Benchmark) -> None:
    """Play the episodes both ways, and print what was read and how long it took."""
    prepare_torch(1)
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": benchmark.hidden // 4}
    sizes = {"hidden_size": benchmark.hidden, "intermediate_size": 3 * benchmark.hidden}
    config = Qwen3Config(vocab_size=2000, num_hidden_layers=benchmark.layers, **sizes, **heads)
    model = Qwen3ForCausalLM(config).eval()
    print("cache        ids of prompts   ids read   of the ids at the end   seconds")
    drawn, rows = [], {}
    origin = provenance()
    for keep in (False, True):
        renderer: Any = SimpleNamespace(stop_ids=(), pad_id=0)
        sampler = ModelSampler(model, renderer, keep=keep)
        before = time.perf_counter()
        episodes, asked = play(benchmark, sampler)
        seconds = time.perf_counter() - before
        drawn.append(episodes)
        read, last = sampler.cache.counts["read"] if sampler.cache else asked, sum(map(len, episodes))
        name = "kept between turns" if keep else "of a turn"
        print(f"{name:<18} {asked:>8,} {read:>10,} {read / last:>23.2f} {seconds:>9.1f}")
        rows[name] = {"asked": asked, "read": read, "of_the_end": round(read / last, 3), "seconds": round(seconds, 2)}
    print("same ids" if drawn[0] == drawn[1] else "other ids, by rounding")
    if benchmark.record:
        settings = {name: value for name, value in asdict(benchmark).items() if name != "record"}
        found = {**origin, "settings": settings, "same_ids": drawn[0] == drawn[1], "caches": rows}
        RECORD.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def play(benchmark: Benchmark, sampler: ModelSampler) -> tuple[list[list[int]], int]:
    """Return the ids of each episode after its last turn, and the sum of the lengths of all prompts."""
    rng, asked = random.Random(0), 0

    def ids(count: int) -> list[int]:
        return [rng.randrange(2000) for _ in range(count)]

    tasks = [ids(benchmark.prompt) for _ in range(-(-benchmark.episodes // benchmark.group))]
    episodes = [list(tasks[number // benchmark.group]) for number in range(benchmark.episodes)]
    for turn in range(benchmark.turns):
        asked += sum(map(len, episodes))
        keys = [turn * benchmark.episodes + number for number in range(benchmark.episodes)]
        samples = sampler(episodes, [benchmark.written] * benchmark.episodes, keys)
        for episode, sample in zip(episodes, samples, strict=True):
            episode += [*sample.ids, *ids(benchmark.result)]
    return episodes, asked


if __name__ == "__main__":
    main(tyro.cli(Benchmark, description=__doc__))
