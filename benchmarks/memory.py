"""Compare what a dry run says of memory with the peak of the same training.

    python benchmarks/memory.py                     three sizes, some minutes on a CPU
    python benchmarks/memory.py --sizes 512         one of them

Each case runs in a process of its own without a GPU: GRPO on rows of random ids, sampled by the model itself, for two
steps, so that the second is sampled beside the optimiser's state. The peak is the maximum of the process's resident
memory, less what it has before the model is loaded, with all libraries imported and used once.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import tyro
from provenance import provenance
from transformers import Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import grpo, memory
from toolorchestra.algos.group_rollouts import Curriculum
from toolorchestra.algos.options_one_agent import TrainGRPO
from toolorchestra.algos.precision import start_policy
from toolorchestra.algos.requirements import requirements
from toolorchestra.algos.rollout.generation import Generation
from toolorchestra.algos.rollout.sampling import ModelSampler
from toolorchestra.algos.rollout.starts import Start

CPU = torch.device("cpu")
CASES: tuple[dict[str, Any], ...] = ({}, {"lora_rank": 16}, {"gradient_checkpointing": True})
TALK = [[{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three"}]]


@dataclass
class Benchmark:
    """What is measured."""

    sizes: tuple[int, ...] = (512, 640, 768)
    """Widths of the models' residual streams."""
    layers: int = 4
    """Layers of each."""
    vocabulary: int = 8000
    """Ids that they know."""
    rows: int = 2
    """Rows of a batch."""
    length: int = 256
    """Tokens of a row."""
    written: int = 8
    """Of them written by the model."""
    output: Path = Path(__file__).parent / "results" / "memory.json"
    """The record."""


def main(benchmark: Benchmark) -> None:
    """Measure each size, and the largest with each of the cases, and write the record."""
    record: list[dict[str, Any]] = []
    for hidden in benchmark.sizes:
        for case in CASES if hidden == max(benchmark.sizes) else CASES[:1]:
            with TemporaryDirectory() as folder, ProcessPoolExecutor(1, get_context("spawn")) as process:
                found = process.submit(measure, benchmark, hidden, case, Path(folder)).result()
            record.append({"hidden": hidden, "options": case, **found})
            print(json.dumps(record[-1]), flush=True)
    worst = max(abs(case["estimate_over_peak"] - 1) for case in record)
    settings = {name: value for name, value in asdict(benchmark).items() if name != "output"}
    found = {**provenance(), "settings": settings, "cases": record, "largest_error": round(worst, 3)}
    benchmark.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"At most {worst:.1%} off. Written to {benchmark.output}.")


def build(benchmark: Benchmark, hidden: int, layers: int, folder: Path) -> int:
    """Save a random model, and return how many parameters it has."""
    small = builtin_text_policy(TALK)  # whose tokenizer is as good as any: only shapes count here
    config = Qwen3Config(
        vocab_size=benchmark.vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 128,
        head_dim=64,
        tie_word_embeddings=True,
    )
    with torch.device("cpu"):
        model = Qwen3ForCausalLM(config)
    TokenPolicy(model, small.tokenizer, small.renderer).save(folder)
    return int(model.num_parameters())


class SampledRows:
    """Rollouts without an environment: random prompts, which the model continues."""

    def __init__(self, config: TrainGRPO, renderer: Any, length: int, written: int) -> None:
        self.config, self.renderer, self.length, self.written = config, renderer, length, written
        self.start, self.metrics, self.curriculum = None, {"reward": 0.0}, Curriculum({1: [Start(0)]})
        self.generation = Generation(config.memory)

    def __call__(self, prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        """Return a row for each prompt; half of them are rewarded."""
        rng = random.Random(0)
        read = [[rng.randrange(50, 300) for _ in range(self.length - self.written)] for _ in prompts]
        model = trainer.accelerator.unwrap_model(trainer.model)
        sampler = ModelSampler(model, self.renderer, gib=self.config.memory)
        samples = sampler(read, [self.written] * len(read), range(len(read)))
        return {
            "prompt_ids": read,
            "completion_ids": [sample.ids for sample in samples],
            "logprobs": [sample.logprobs for sample in samples],
            "env_mask": [[1] * len(sample.ids) for sample in samples],
            "advantage": [(-1.0) ** n for n in range(len(samples))],
        }


def learn(config: TrainGRPO, length: int, written: int) -> None:
    """Make two steps."""
    policy = start_policy(config, str(config.model))
    config.set_up(policy.model)
    rollouts: Any = SampledRows(config, policy.renderer, length, written)
    grpo.fit(policy, rollouts, config)


def measure(benchmark: Benchmark, hidden: int, case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the estimate and the peak of a case, in MiB."""
    prepare_torch(1)
    common: dict[str, Any] = {"groups": 1, "group_size": benchmark.rows, "slots": benchmark.rows}
    common |= {"steps": 2, "save_every": 0, "threads": 1}
    build(benchmark, 128, 1, folder / "first")
    first = TrainGRPO(model=str(folder / "first"), output=folder / "run", **common, **case)
    learn(first, 16, 2)
    count = build(benchmark, hidden, benchmark.layers, folder / "model")
    config = TrainGRPO(
        model=str(folder / "model"), output=folder / "run", max_ids=benchmark.length, memory=1.0, **common, **case
    )
    estimate = requirements(config, CPU, memory.free(CPU)).peak
    before = _resident()
    Path("/proc/self/clear_refs").write_text("5")  # the peak of what came before is forgotten
    learn(config, benchmark.length, benchmark.written)
    peak = _resident("VmHWM") - before
    return {
        "parameters": count,
        "estimate_mib": round(estimate / 2**20),
        "peak_mib": round(peak / 2**20),
        "estimate_over_peak": round(estimate / peak, 3),
    }


def _resident(field: str = "VmRSS") -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
