"""Measure `toolorchestra serve`: messages a second of many sessions at the same time, and what a session weighs.

    python benchmarks/serve.py                              256 sessions for 10 seconds
    python benchmarks/serve.py --sessions 64 --seconds 5
    python benchmarks/serve.py --record                     the first, written to results/serve.json: on an idle machine

It needs the extra `openenv`, in an environment of its own (`bash .ci/bridges openenv` makes one), and psutil. The
server is a process of its own; the clients are OpenEnv's own, each with a session, in this process, so both share the
machine's cores. Every client plays reference trajectories, text as a model writes it, and resets at the end of each. A
reset counts as no message. The rewards are checked: every episode must be solved.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from typing import Any

import gymnasium as gym
import psutil
import uvloop
from harness import cli, free_port, provenance, write
from openenv.core import GenericEnvClient

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.policies.reference import OraclePolicy

SEEDS = 64
LEAST_RATE = 1000.0


def trajectories(env_id: str) -> list[list[str]]:
    """Return the messages of the reference trajectory of each seed."""
    env, policy, found = gym.make(env_id), OraclePolicy(), []
    for seed in range(SEEDS):
        observation, info = env.reset(seed=seed)
        policy.reset(env, observation, info)
        messages: list[str] = []
        over = False
        while not over:
            messages.append(str(policy.act(observation, info)))
            observation, _, terminated, truncated, info = env.step(messages[-1])
            over = terminated or truncated
        found.append(messages)
    return found


async def play(url: str, first: int, known: list[list[str]], begun: asyncio.Event, stop: list[float]) -> list[float]:
    """Play episodes until the time is up and return the seconds that each message took."""
    waits: list[float] = []
    async with GenericEnvClient(base_url=url) as client:
        await client.reset(seed=first % SEEDS)
        await begun.wait()
        seed = first % SEEDS
        while time.perf_counter() < stop[0]:
            await client.reset(seed=seed)
            total = 0.0
            for message in known[seed]:
                before = time.perf_counter()
                result = await client.step({"message": message})
                waits.append(time.perf_counter() - before)
                total += result.reward or 0.0
            assert result.done, f"seed {seed} is not over"
            assert total == 1.0, f"seed {seed} was not solved"
            seed = (seed + 1) % SEEDS
    return waits


async def measure(url: str, sessions: int, seconds: float, known: list[list[str]], server: psutil.Process) -> Any:
    """Return messages a second, latencies and memory."""
    empty = server.memory_info().rss
    begun, stop = asyncio.Event(), [0.0]
    tasks = [asyncio.create_task(play(url, number, known, begun, stop)) for number in range(sessions)]
    await asyncio.sleep(max(2.0, sessions / 50))
    full = server.memory_info().rss
    cpu = sum(server.cpu_times()[:2])
    started = time.perf_counter()
    stop[0] = started + seconds
    begun.set()
    waits = sorted(wait for played in await asyncio.gather(*tasks) for wait in played)
    passed = time.perf_counter() - started
    return {
        "messages_a_second": round(len(waits) / passed, 1),
        "messages": len(waits),
        "seconds": round(passed, 2),
        "latency_ms": {str(q): round(1000 * waits[int(len(waits) * q / 100)], 2) for q in (50, 95, 99)},
        "server_microseconds_a_message": round(1e6 * (sum(server.cpu_times()[:2]) - cpu) / len(waits)),
        "server_cpu_share": round((sum(server.cpu_times()[:2]) - cpu) / passed, 2),
        "megabytes_a_session": round((full - empty) / sessions / 2**20, 2),
    }


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main(
    env: str = "ToolOrchestra-Restaurant-v0", sessions: int = 256, seconds: float = 10.0, record: bool = False
) -> bool:
    known, port = trajectories(env), free_port()
    command = [sys.executable, "-m", "toolorchestra", "serve", env, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert re.match("Serving", server.stdout.readline())
            while not listens(port):
                assert server.poll() is None, "the server ended"
                time.sleep(0.1)
            url = f"http://127.0.0.1:{port}"
            found = uvloop.run(measure(url, sessions, seconds, known, psutil.Process(server.pid)))
        finally:
            server.terminate()
    found = {"env": env, "sessions": sessions, **found, "load_before": psutil.getloadavg()[0]}
    print(json.dumps(found, indent=2))
    if record:
        packages = ("toolorchestra", "openenv", "uvicorn", "uvloop", "wsproto", "fastapi", "websockets", "pydantic")
        write("serve", found | provenance(*packages))
    return bool(found["messages_a_second"] < LEAST_RATE)


if __name__ == "__main__":
    cli(main)
