"""Measure the time of a call to a simulated expert on one core, and check that calls to real ones run concurrently.

    python benchmarks/expert_calls.py             CPU microseconds of a call by world and role, and a reset
    python benchmarks/expert_calls.py --record    the same, written to results/expert_calls.json

A call is an environment step with one call in it: parsing, the truth about what is asked, the prompt, the expert's
answer, its record and what is shown. Numbers are medians of rounds in CPU time of this process. The wall time is that
of one step with four calls of real experts, each a second long, at an HTTP server in a process of its own.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from harness import cli, median, micros, rounded, save
from latency_server import served

import toolorchestra  # noqa: F401 - registers the environments

WORLDS = ("Restaurant", "Math", "MultiHopQA")
EXPERTS = ("ask_gpt_5", "math_qwen2_5_math_72b", "code_gpt_5", "query_gpt_5")
MAX_MICROSECONDS, MAX_SECONDS = 1_000.0, 1.15


def world(name: str, rounds: int) -> dict[str, float]:
    """Return what calls cost in a world."""
    env = gym.make(f"ToolOrchestra-{name}-v0", tools="full", difficulty=3)
    drawn = gym.make(f"ToolOrchestra-{name}-v0", tools="full", tool_config="random")

    def of(expert: str) -> list[float]:
        """Return what calls of an expert cost, each the first of an episode."""
        action = [{"name": expert, "arguments": {}}]
        return [(env.reset(seed=number), micros(lambda: env.step(action)))[1] for number in range(rounds)]

    return {
        "reset": median([micros(partial(env.reset, seed=number)) for number in range(rounds)]),
        **{expert.partition("_")[0]: median(of(expert)) for expert in EXPERTS},
        "reset, random offer": median([micros(partial(drawn.reset, seed=number)) for number in range(rounds)]),
    }


def wall() -> float:
    """Return the seconds of a step with four calls of real experts, the best of three."""
    names = ("gpt-5", "gpt-5-mini", "qwen3-32b", "llama-3.3-70b")
    all_experts = {"source": "this script", "experts": {"generalist": list(names)}}
    with served("--latency", 1.0) as url, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "catalog.yaml"
        entries = {name: {"endpoint": {"base_url": url}} for name in names}
        file.write_text(yaml.safe_dump({"experts": entries, "configurations": {"all_experts": all_experts}}))
        options: dict[str, Any] = {"tool_config": "all_experts", "experts": "real", "catalog": str(file)}
        env = gym.make("ToolOrchestra-Math-v0", tools="full", **options)
        _, info = env.reset(seed=0)
        calls = [{"name": name, "arguments": {}} for name in info["tool_names"] if name.startswith("ask_")]
        env.step(calls)  # loads the client and opens the connections
        found = min(micros(lambda: env.step(calls), time.perf_counter) for _ in range(3))
        env.close()
    return found / 1e6


def main(rounds: int = 200, record: bool = False) -> bool:
    results = {name: world(name, rounds) for name in WORLDS}
    columns = list(next(iter(results.values())))
    print(f"{'CPU µs':12}", *(f"{column:>20}" for column in columns))
    for name, found in results.items():
        print(f"{name:12}", *(f"{found[column]:20.0f}" for column in columns))
    seconds = wall()
    print(f"four real calls of 1 s in one step: {seconds:.3f} s on the wall (at most {MAX_SECONDS} s)")
    if record:
        save("expert_calls", {"microseconds": rounded(results, None), "wall": round(seconds, 3)})
    slow = max(found[kind] for found in results.values() for kind in ("ask", "math", "code"))
    return slow > MAX_MICROSECONDS or seconds > MAX_SECONDS


if __name__ == "__main__":
    cli(main)
