"""How long rollouts wait for one another: blocking steps, slow replies, many in flight, and a server that fails.

    python benchmarks/rollouts.py [--inspect PYTHON] [--rounds 5] [--record]

Every figure is a ratio within one round, or CPU time: to what the latencies alone take with as many episodes in flight,
to a run of this library without failures, or, with `--inspect`, to the runner of inspect_ai on the same server. What
is compared is run in turn, in every other round in the other order; each number is the median over the rounds. CPU
seconds stand beside those on the clock: a machine that does something else too gives few of them for many. The first
reset of an environment, which makes its database, is measured apart (`first_resets`).
PYTHON is that of an environment with inspect_ai and openai, which need not hold this library.
"""

from __future__ import annotations

import heapq
import json
import math
import os
import random
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
from harness import cli, median, provenance, write as write_record
from latency_server import served

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.envs.run_episodes import run_episodes
from toolorchestra.envs.starts import EpisodeStart, make_env

HERE = Path(__file__).parent
ENV = "ToolOrchestra-Restaurant-v0"
SIGMA = 1.2
EPISODES, IN_FLIGHT, REPLIES, LATENCY = 256, 64, 5, 0.2
RENDERER = CompactRenderer.build([], ["go on"], {"word": ["a"]})


class Sleeping(gym.Env[str, Any]):
    """An environment whose steps sleep; it does not say that they do."""

    def __init__(self, seconds: Callable[[int, int], float], turns: int) -> None:
        self.seconds, self.turns = seconds, turns

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin."""
        self.number, self.turn = seed or 0, 0
        return "go", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Sleep."""
        time.sleep(self.seconds(self.number, self.turn))
        self.turn += 1
        return "on", 1.0, self.turn == self.turns, False, {}


def write(prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
    """Write at once."""
    ids = [RENDERER.index["<answer>"], RENDERER.index["a"], RENDERER.end_id]
    return [Sample(ids, [0.0] * 3) for _ in prompts]


def lognormal(*key: object, mean: float) -> float:
    """Return seconds that depend on a key."""
    return random.Random(repr(key)).lognormvariate(math.log(mean) - SIGMA**2 / 2, SIGMA)


def ideal(episodes: Sequence[float], in_flight: int) -> float:
    """Return the seconds of episodes of these lengths, so many at a time, each begun when another has ended."""
    free = [0.0] * in_flight
    for seconds in episodes:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def steps(episodes: int, turns: int, in_flight: int, seconds: Callable[[int, int], float]) -> dict[str, float]:
    """Play an environment whose steps sleep, by the engine of training."""
    engine = RolloutEngine(lambda: Sleeping(seconds, turns), RENDERER, in_flight=in_flight)
    began = time.perf_counter()
    engine.play(write, [RolloutRequest(n, EpisodeStart(n)) for n in range(episodes)])
    taken = time.perf_counter() - began
    alone = ideal([sum(seconds(n, turn) for turn in range(turns)) for n in range(episodes)], in_flight)
    return {"seconds": taken, "ideal": alone, "ratio": taken / alone}


def play(url: str, episodes: int, in_flight: int) -> dict[str, Any]:
    """Play an environment of this library with a model at a server; its environments are made and reset once before."""
    began, worked = time.perf_counter(), time.process_time()
    envs = [make_env(ENV, {"answer": "text"}) for _ in range(in_flight)]  # which the server's last reply ends
    for env in envs:
        env.reset(seed=0)
    first = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - worked}
    began, worked = time.perf_counter(), time.process_time()
    with OpenAIChat(url, "m", max_concurrency=in_flight) as model:
        resets = [EpisodeStart(n, {"split": "test"}) for n in range(episodes)]
        found = list(run_episodes(envs.pop, lambda: ChatPolicy(model), resets, in_flight=in_flight))
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    assert all(len(one.turns) == REPLIES for one in found)
    with urllib.request.urlopen(url.replace("/v1", "/count")) as counted:
        requests = json.load(counted)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "requests": requests,
        "cpu_ms_per_request": cpu / requests * 1e3,
        "first_resets": first,
        "cpu_ms_per_request_with_first_resets": (cpu + first["cpu"]) / requests * 1e3,
    }


def play_by_inspect(python: str, url: str) -> dict[str, Any]:
    """Play as many episodes by inspect_ai."""
    command = [python, str(HERE / "rollouts_inspect.py"), url, str(EPISODES), str(IN_FLIGHT)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_turn(turn: int, **ways: Callable[[], Any]) -> dict[str, Any]:
    """Return what each way gives, in a round; every other round has the other order."""
    found = {name: ways[name]() for name in sorted(ways, reverse=turn % 2 == 1)}
    return {name: found[name] for name in ways}


def beside_inspect(python: str | None, rounds: int) -> dict[str, Any]:
    """Play the same episodes by this library and by inspect_ai, at constant and at lognormal latency."""
    found: dict[str, Any] = {}
    for name, sigma in (("constant", 0.0), ("lognormal", SIGMA)):

        def ours(sigma: float = sigma) -> dict[str, Any]:
            with served("--latency", LATENCY, "--sigma", sigma) as url:
                return play(url, EPISODES, IN_FLIGHT)

        def theirs(sigma: float = sigma) -> dict[str, Any]:
            with served("--latency", LATENCY, "--sigma", sigma) as url:
                return play_by_inspect(str(python), url)

        ways = {"ours": ours, "inspect_ai": theirs} if python else {"ours": ours}
        played = [in_turn(turn, **ways) for turn in range(rounds)]
        found[name] = {**median(played), "ideal": EPISODES * REPLIES * LATENCY / IN_FLIGHT}
        if python:
            for what in ("seconds", "cpu"):
                ratios = [one["ours"][what] / one["inspect_ai"][what] for one in played]
                found[name][f"ratio of {what}"] = {
                    "median": median(ratios),
                    "least": min(ratios),
                    "largest": max(ratios),
                }
    return found


def failing(rounds: int) -> dict[str, Any]:
    """Play with a server that fails one of 50 requests, and with one that fails none."""

    def ours(every: int) -> dict[str, Any]:
        with served("--latency", LATENCY, "--fails", every) as url:
            return play(url, EPISODES, IN_FLIGHT)

    ways = {"none fail": lambda: ours(0), "2 % fail": lambda: ours(50)}
    played = [in_turn(turn, **ways) for turn in range(rounds)]
    ratios = [one["2 % fail"]["seconds"] / one["none fail"]["seconds"] for one in played]
    return {**median(played), "ratio": median(ratios)}


def main(inspect: str | None = None, rounds: int = 5, record: bool = False) -> None:
    """Measure, and print or record."""

    def many() -> dict[str, Any]:
        with served("--latency", 2.0) as url:
            return play(url, 1024, 1024)

    def slow(number: int, turn: int) -> float:
        return lognormal(number, turn, mean=0.05)

    found = {
        "load": os.getloadavg()[0],
        "rounds": rounds,
        "64 in flight, 3 steps of 50 ms": median([steps(64, 3, 64, lambda number, turn: 0.05) for _ in range(rounds)]),
        "64 in flight, steps of lognormal latency": median([steps(512, 5, 64, slow) for _ in range(rounds)]),
        "1,024 in flight over HTTP": median([many() for _ in range(rounds)]),
        "beside inspect_ai": beside_inspect(inspect, rounds),
        "a server that fails": failing(rounds),
    }
    print(json.dumps(found, indent=1))
    if record:
        write_record("rollouts", {"provenance": provenance("aiohttp", "gymnasium"), **found})


if __name__ == "__main__":
    cli(main)
