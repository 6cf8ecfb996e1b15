"""Compare what a dry run says of memory with the peak of the same training.

    python benchmarks/memory.py --record            three sizes, and one of them with other options; minutes on a CPU
    python benchmarks/memory.py --sizes 512         one of them

Each case runs in a process of its own without a GPU: GRPO on rows of random ids, sampled by the model itself in several
turns, for two steps, so that the second is sampled beside the optimiser's state. The peak is the maximum of the
process's resident memory, less what it has before the model is loaded, with all libraries imported and used once.
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
from harness import cli, resident, save
from transformers import Qwen3Config, Qwen3ForCausalLM

from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import grpo
from toolorchestra.algos.group_rollouts import Curriculum
from toolorchestra.algos.options.dry_run import estimate
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.precision import start_policy
from toolorchestra.algos.rollout.generation import Generation
from toolorchestra.algos.rollout.sampling import ModelSampler
from toolorchestra.algos.rollout.trajectory import TokenTrajectory
from toolorchestra.envs.starts import EpisodeStart

CASES: tuple[dict[str, Any], ...] = (
    {},
    {"precision": "bf16"},
    {"lora_rank": 16},
    {"lora_rank": 16, "precision": "bf16"},
    {"gradient_checkpointing": True},
)
TALK = [[{"role": "user", "content": "one two"}, {"role": "assistant", "content": "three"}]]


@dataclass
class Benchmark:
    """What is measured."""

    sizes: tuple[int, ...] = (256, 384, 896)  # widths of the models' residual streams
    layers: int = 4  # layers of each
    vocabulary: int = 8000  # ids that they know
    rows: int = 2  # of a batch
    length: int = 256  # tokens of a row
    turns: int = 4  # turns of a row
    written: int = 8  # tokens of a turn that are written by the model
    parallel: int = 3  # cases that are measured at the same time
    record: bool = False  # write the numbers


def main(benchmark: Benchmark) -> None:
    """Measure each size, and the one in the middle with each of the cases."""
    middle = sorted(benchmark.sizes)[len(benchmark.sizes) // 2]
    cases = [(hidden, case) for hidden in benchmark.sizes for case in (CASES if hidden == middle else CASES[:1])]
    with (
        TemporaryDirectory() as folder,
        ProcessPoolExecutor(benchmark.parallel, get_context("spawn"), max_tasks_per_child=1) as processes,
    ):
        waiting = [
            processes.submit(measure, benchmark, hidden, case, Path(folder) / str(number))
            for number, (hidden, case) in enumerate(cases)
        ]
        record = []
        for (hidden, case), found in zip(cases, waiting, strict=True):
            record.append({"hidden": hidden, "options": case, **found.result()})
            print(json.dumps(record[-1]), flush=True)
    worst = max(abs(case["estimate_over_peak"] - 1) for case in record)
    print(f"At most {worst:.1%} off.")
    if benchmark.record:
        settings = {name: value for name, value in asdict(benchmark).items() if name != "record"}
        save("memory", {"settings": settings, "cases": record, "largest_error": round(worst, 3)})


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

    def __init__(self, config: TrainGRPO, renderer: Any, length: int, written: int, turns: int) -> None:
        self.config, self.renderer, self.length, self.written, self.turns = config, renderer, length, written, turns
        self.start, self.metrics, self.curriculum = None, {"reward": 0.0}, Curriculum({1: [EpisodeStart(0)]})
        self.generation = Generation(config.memory)

    def close(self) -> None:
        """Nothing is still played."""

    def __call__(self, prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        """Return a row for each prompt, which is read in equal parts, one a turn; half of the rows are rewarded."""
        rng = random.Random(0)
        model = trainer.accelerator.unwrap_model(trainer.model)
        sampler = ModelSampler(model, self.renderer, gib=self.config.memory)
        part = self.length // self.turns - self.written
        rows = [TokenTrajectory() for _ in prompts]
        for turn in range(self.turns):
            for row in rows:
                row.read([rng.randrange(50, 300) for _ in range(part)])
            keys = [turn * len(rows) + number for number in range(len(rows))]
            for row, sample in zip(
                rows, sampler([row.ids for row in rows], [self.written] * len(rows), keys), strict=True
            ):
                row.write(sample)
        return {
            "prompt_ids": [row.ids[:part] for row in rows],
            "completion_ids": [row.ids[part:] for row in rows],
            "logprobs": [row.logprobs[part:] for row in rows],
            "env_mask": [row.mask[part:] for row in rows],
            "advantage": [(-1.0) ** n for n in range(len(rows))],
        }


def learn(config: TrainGRPO, length: int, written: int, turns: int) -> None:
    """Make two steps."""
    policy = start_policy(config, str(config.model))
    config.set_up(policy.model)
    rollouts: Any = SampledRows(config, policy.renderer, length, written, turns)
    grpo.fit(policy, rollouts, config)


def measure(benchmark: Benchmark, hidden: int, case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the estimate and the peak of a case, in MiB."""
    prepare_torch(1)
    folder.mkdir()
    common: dict[str, Any] = {"groups": 1, "group_size": benchmark.rows, "in_flight": benchmark.rows}
    common |= {"steps": 2, "save_every": 0, "threads": 1}
    build(benchmark, 128, 1, folder / "first")
    first = TrainGRPO(model=str(folder / "first"), output=folder / "run", **common, **case)
    learn(first, 16, 2, 2)
    count = build(benchmark, hidden, benchmark.layers, folder / "model")
    config = TrainGRPO(  # with so little memory, one row is computed at a time
        model=str(folder / "model"), output=folder / "run", max_ids=benchmark.length, memory=1e-6, **common, **case
    )
    estimated = estimate(config).peak
    before = resident()
    Path("/proc/self/clear_refs").write_text("5")  # the peak of what came before is forgotten
    learn(config, benchmark.length, benchmark.written, benchmark.turns)
    peak = resident("VmHWM") - before
    return {
        "parameters": count,
        "estimate_mib": round(estimated / 2**20),
        "peak_mib": round(peak / 2**20),
        "estimate_over_peak": round(estimated / peak, 3),
    }


if __name__ == "__main__":
    cli(main)
