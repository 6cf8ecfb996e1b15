"""Measure speed, a step of GRPO beside plain TRL, the longest context, and how long the GPU waits for tools.

    python benchmarks/gpu.py                  on a GPU: writes benchmarks/results/gpu.json
    python benchmarks/gpu.py --toy            on a CPU, in seconds: the same at toy size, to see that it runs

Weights are random, in the shapes of Qwen3-0.6B, Qwen3-4B and Qwen3-8B:
what is measured is time and memory, not what a model writes. Speed is that of weights of 16 bits, and that of the
learners with ``--precision bf16``, whose weights are of 32 bits and cast for each pass. Each time is the median of
`repeats` after one that is not counted.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from gpu_rollouts import idle_shares
from harness import cli, file_of, median, save

from toolorchestra.algos.hardware.autocast import mark
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.smoke import SIZES, tiny_tokenizer
from toolorchestra.algos.rollout.sampling import ModelSampler
from toolorchestra.algos.rollout.trajectory import TrainRow, row_logps

HEADS = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151_936}
SHAPES: dict[str, dict[str, Any]] = {
    "0.6B": {**HEADS, "num_attention_heads": 16, "hidden_size": 1024, "intermediate_size": 3072}
    | {"num_hidden_layers": 28, "tie_word_embeddings": True},
    "4B": {**HEADS, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36}
    | {"tie_word_embeddings": True},
    "8B": {**HEADS, "hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36},
}
"""Sizes of Qwen3's models."""


@dataclass
class Benchmark:
    """Measure speed and length with random weights."""

    toy: bool = False  # toy size, on a CPU too
    shapes: tuple[str, ...] = ("0.6B", "4B")  # models whose speed is measured
    longest: str = "8B"  # model whose longest context is sought
    lora_rank: int = 32  # rank of the adapter with which it is trained
    rows: int = 64  # rows sampled together
    train_rows: int = 16  # rows of a training step
    prompt: int = 2048  # tokens of a prompt
    written: int = 256  # tokens written after it
    max_context: int = 262_144  # context at which the search for the longest ends
    repeats: int = 3  # times that each is measured
    environments: int = 256  # environments whose tools the GPU waits for
    tool_seconds: float = 1.0  # seconds of a call of a tool, on average
    turns: int = 4  # turns of their episodes
    seed: int = 0  # of weights and rows
    output: Path | None = None  # where the numbers go; None: benchmarks/results/gpu.json, or with `toy` nowhere

    def __post_init__(self) -> None:
        if self.toy:
            self.shapes, self.longest, self.lora_rank, self.repeats = ("toy",), "toy", 4, 1
            self.rows, self.train_rows, self.prompt, self.written, self.max_context = 4, 4, 64, 8, 512
            self.environments, self.tool_seconds, self.turns = 4, 0.02, 2


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_model(shape: str, seed: int, *, whole: bool = False) -> Any:
    """Return a random model: of bfloat16 on a GPU, of float32 on a CPU, or if it is to be `whole`."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    sizes = {**SIZES, "vocab_size": 2048} if shape == "toy" else SHAPES[shape]
    torch.manual_seed(seed)
    dtype = torch.bfloat16 if device().type == "cuda" and not whole else torch.float32
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device():
            return Qwen3ForCausalLM(Qwen3Config(max_position_embeddings=262_144, **sizes))
    finally:
        torch.set_default_dtype(before)


def now() -> float:
    """Return the seconds of the clock, once the GPU has done all that it was asked for."""
    if device().type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds(act: Callable[[], object], repeats: int) -> float:
    """Return the median time of an act, the first of which is not counted."""

    def once() -> float:
        start = now()
        act()
        return now() - start

    once()
    return float(median([once() for _ in range(repeats)]))


def make_rows(count: int, benchmark: Benchmark, vocabulary: int, *, even: bool = True) -> list[TrainRow]:
    """Return random rows; uneven ones are of a quarter of the length to the whole, as episodes are."""
    rng = random.Random(benchmark.seed)

    def ids(length: int) -> list[int]:
        return [rng.randrange(4, vocabulary) for _ in range(length)]

    rows = []
    for n in range(count):
        share = 1.0 if even else rng.uniform(0.25, 1.0)
        written = max(1, round(share * benchmark.written))
        mask, logprobs, advantage = [1] * written, [-1.0] * written, 1.0 if n % 2 else -1.0
        rows.append(TrainRow(ids(max(1, round(share * benchmark.prompt))), ids(written), mask, logprobs, advantage))
    return rows


def speed(shape: str, benchmark: Benchmark, *, autocast: bool) -> dict[str, float]:
    """Return tokens a second of sampling and of training with AdamW."""
    model = make_model(shape, benchmark.seed, whole=autocast)
    mark(model, autocast)
    vocabulary = model.config.vocab_size
    rows = make_rows(benchmark.rows, benchmark, vocabulary)
    ends: Any = SimpleNamespace(stop_ids=(), pad_id=0)  # all that is asked of a renderer
    sampler = ModelSampler(model, ends, keep=False)  # repeats read their prompts again
    prompts, limits = [row.prompt_ids for row in rows], [benchmark.written] * len(rows)
    keys = list(range(len(rows)))
    sampling = seconds(lambda: sampler(prompts, limits, keys), benchmark.repeats)

    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6)
    batch = make_rows(benchmark.train_rows, benchmark, vocabulary)

    def step() -> None:
        for row in batch:
            logps, _, mask = row_logps(model, [row], 0)
            (-(row.advantage * logps * mask).sum() / len(batch)).backward()
        optimiser.step()
        optimiser.zero_grad()

    training = seconds(step, benchmark.repeats)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "written_tokens_per_second": round(len(rows) * benchmark.written / sampling, 1),
        "read_and_written_tokens_per_second": round(sum(row.length for row in rows) / sampling, 1),
        "training_tokens_per_second": round(sum(row.length for row in batch) / training, 1),
        "gib": peak(),
    }


def fitting(measure: Callable[[], dict[str, float]]) -> dict[str, float] | None:
    """Return what is measured, or None if memory has no room for it."""
    try:
        return measure()
    except torch.OutOfMemoryError:
        return None


def peak() -> float:
    """Return the peak of a GPU's memory so far, and forget it."""
    if device().type != "cuda":
        return 0.0
    found = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return round(found, 2)


def grpo_steps(shape: str, benchmark: Benchmark) -> dict[str, float | None]:
    """Return the seconds of a step of GRPO on the same uneven rows, with our trainer and with plain TRL's."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from toolorchestra.algos.trl_trainers import MicroBatchGRPOTrainer, settings

    rows = make_rows(benchmark.train_rows, benchmark, 2048, even=False)

    class Clock(TrainerCallback):  # type: ignore[misc]  # transformers'
        def __init__(self) -> None:
            self.marks: list[float] = []

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.marks.append(now())

    def replay(prompts: list[str], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": [row.prompt_ids for row in rows],
            "completion_ids": [row.completion_ids for row in rows],
            "logprobs": None,
            "env_mask": [row.mask for row in rows],
        }

    found: dict[str, float | None] = {}
    for name, kind in (("toolorchestra", MicroBatchGRPOTrainer), ("trl", GRPOTrainer)):
        with tempfile.TemporaryDirectory() as folder:
            arguments = GRPOConfig(
                **settings(Path(folder), TrainGRPO(seed=benchmark.seed), save_every=0, schedule="constant", warmup=0)
                | {"gradient_checkpointing": True, "bf16": device().type == "cuda"},
                per_device_train_batch_size=len(rows),
                num_generations=2,
                max_steps=benchmark.repeats + 2,
                learning_rate=1e-6,
                scale_rewards="none",
                beta=0.0,
                max_completion_length=None,
            )
            clock = Clock()
            trainer = kind(
                model=make_model(shape, benchmark.seed),
                reward_funcs=lambda prompts, **_: [row.advantage for row in rows],
                args=arguments,
                train_dataset=Dataset.from_dict({"prompt": [str(n) for n in range(len(rows))]}),
                processing_class=tiny_tokenizer(),
                rollout_func=replay,
                callbacks=[clock],
            )
            trainer.remove_callback(PrinterCallback)
            try:
                trainer.train()
            except torch.OutOfMemoryError:
                found[f"{name}_seconds"] = None
                continue
            steps = [after - before for before, after in zip(clock.marks, clock.marks[1:], strict=False)]
            found[f"{name}_seconds"] = round(median(steps), 4)
            found[f"{name}_gib"] = peak()
    return found


def longest_context(benchmark: Benchmark) -> dict[str, float]:
    """Return the longest context, of the powers of two, at which a model takes a step with LoRA, and its seconds."""
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(
        make_model(benchmark.longest, benchmark.seed), LoraConfig(r=benchmark.lora_rank, target_modules="all-linear")
    )
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    optimiser = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-5)
    found, context = {"tokens": 0.0, "seconds": 0.0}, 256
    while context <= benchmark.max_context:
        row = TrainRow([5] * (context // 2), [6] * (context // 2), [1] * (context // 2), [-1.0] * (context // 2))
        start = now()
        try:
            logps, _, mask = row_logps(model, [row], 0)
            (-(logps * mask).mean()).backward()
            optimiser.step()
            optimiser.zero_grad()
        except torch.OutOfMemoryError:
            break
        found = {"tokens": float(context), "seconds": round(now() - start, 3), "gib": peak()}
        context *= 2
    return found


def main(benchmark: Benchmark) -> None:
    """Measure, and write the numbers."""
    if device().type != "cuda" and not benchmark.toy:
        raise SystemExit("torch finds no GPU here. Give --toy to run the benchmark at toy size.")
    record: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device().type == "cuda" else "cpu",
        "rows": {name: getattr(benchmark, name) for name in ("rows", "train_rows", "prompt", "written", "lora_rank")},
        "speed": {},
        "grpo_step": {},
    }
    for shape in benchmark.shapes:
        record["speed"][shape] = {
            name: fitting(partial(speed, shape, benchmark, autocast=cast))
            for name, cast in (("16 bits", False), ("autocast", True))
        }
        record["grpo_step"][shape] = grpo_steps(shape, benchmark)
        print(json.dumps({shape: [record["speed"][shape], record["grpo_step"][shape]]}), flush=True)
    record["longest_context"] = {benchmark.longest: longest_context(benchmark)}
    print(json.dumps(record["longest_context"]), flush=True)
    record["idle"] = idle_shares(
        make_model(benchmark.shapes[0], benchmark.seed),
        environments=benchmark.environments,
        turns=benchmark.turns,
        prompt=benchmark.prompt,
        written=benchmark.written // 4,
        result=benchmark.written // 2,
        seconds=benchmark.tool_seconds,
    )
    print(json.dumps(record["idle"]), flush=True)
    if benchmark.output or not benchmark.toy:
        save(benchmark.output or file_of("gpu"), record)


if __name__ == "__main__":
    cli(main)
