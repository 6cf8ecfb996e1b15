"""Measure `toolorchestra serve`: messages a second of many sessions at once, beside OpenEnv's own, and their memory.

    python benchmarks/serve.py              two minutes
    python benchmarks/serve.py --record     the same, written to results/serve.json: on an idle machine
    python benchmarks/serve.py --quick      a look

It needs the extra `openenv`, in an environment of its own (`bash .ci/bridges openenv` makes one). A server is a process
of its own; the clients are OpenEnv's own, each with a session, in this process, so both share the machine's cores.
Every client plays reference trajectories, text as a model writes it, and resets at the end of each; a reset counts as
no message, its time as the server's. The rewards are checked: every episode must be solved. Beside it the same clients
send the same messages to a server of OpenEnv's own classes that returns them (`serve_echo.py`), once as uvicorn runs it
by default and once as ours is run; the servers take turns in several rounds, of which the medians count. Then another
server holds many more sessions at once, each of which takes a message. It exits with 1 below the rate, or above the
memory, that are promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import uvloop
from harness import cli, free_port, median, resident, rounded, save
from openenv.core import GenericEnvClient

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.policies.reference import OraclePolicy

ENV = "ToolOrchestra-Restaurant-v0"
SEEDS = 64
SESSIONS, OPEN = 256, 4096
LEAST_RATE, MOST_MEMORY = 1000.0, 4 * 2**30
CONNECTING = 64
"""Clients that connect at a time."""
PACKAGES = ("toolorchestra", "openenv", "uvicorn", "uvloop", "wsproto", "fastapi", "websockets", "pydantic")
ECHO = str(Path(__file__).with_name("serve_echo.py"))
SERVE = ("-m", "toolorchestra", "serve", ENV, "--max-sessions", str(OPEN), "--port")
SERVERS = {"toolorchestra": SERVE, "echo": (ECHO,), "echo, our settings": (ECHO, "--our-settings")}
"""What Python runs for each server, its port apart."""


def trajectories() -> list[list[str]]:
    """Return the messages of the reference trajectory of each seed."""
    env, policy, found = gym.make(ENV), OraclePolicy(), []
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


class Server:
    """A server in a process of its own.

    Args:
        words: What Python runs.
        port: Where it listens.
    """

    def __init__(self, words: tuple[str, ...], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, *words, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not listens(port):
            assert self.process.poll() is None, f"{words} ended"
            time.sleep(0.1)

    @property
    def cpu_seconds(self) -> float:
        """CPU time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> int:
        """Bytes of resident memory."""
        return resident(process=self.process.pid)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def serving(*names: str) -> Iterator[list[Server]]:
    """Start servers, and stop them in the end."""
    servers: list[Server] = []
    try:
        for name in names:
            servers.append(Server(SERVERS[name], free_port()))
        yield servers
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait()


@contextlib.asynccontextmanager
async def connected(url: str, sessions: int) -> Any:
    """Connect clients, and begin an episode with each."""
    clients = [GenericEnvClient(base_url=url) for _ in range(sessions)]
    gate = asyncio.Semaphore(CONNECTING)

    async def begin(number: int) -> None:
        async with gate:
            await clients[number].connect()
            await clients[number].reset(seed=number % SEEDS)

    async def end(client: Any) -> None:
        async with gate:
            await client.close()

    try:
        await asyncio.gather(*map(begin, range(sessions)))
        yield clients
    finally:
        await asyncio.gather(*map(end, clients))


async def play(client: Any, seed: int, known: list[list[str]], until: float, reward: float) -> list[float]:
    """Play episodes until the time is up, each of which must have the reward; return the seconds of each message."""
    waits: list[float] = []
    while time.perf_counter() < until:
        await client.reset(seed=seed)
        total = 0.0
        for message in known[seed]:
            before = time.perf_counter()
            result = await client.step({"message": message})
            waits.append(time.perf_counter() - before)
            total += result.reward or 0.0
        assert total == reward, f"seed {seed} was rewarded with {total}"
        seed = (seed + 1) % SEEDS
    return waits


async def rate(server: Server, seconds: float, known: list[list[str]], reward: float) -> dict[str, float]:
    """Return messages a second of sessions at once, their latencies, and the server's CPU time."""
    async with connected(server.url, SESSIONS) as clients:
        cpu, started = server.cpu_seconds, time.perf_counter()
        played = (
            play(client, number % SEEDS, known, started + seconds, reward) for number, client in enumerate(clients)
        )
        waits = sorted(wait for one in await asyncio.gather(*played) for wait in one)
        passed, cpu = time.perf_counter() - started, server.cpu_seconds - cpu
    latency = {f"latency_ms_{q}": 1000 * waits[int(len(waits) * q / 100)] for q in (50, 95, 99)}
    return {
        "messages_a_second": len(waits) / passed,
        **latency,
        "server_microseconds_a_message": 1e6 * cpu / len(waits),
        "server_cpu_share": cpu / passed,
    }


async def hold(server: Server, sessions: int, known: list[list[str]]) -> dict[str, float]:
    """Return what a server with open sessions weighs, and how long a message to each of them takes in all."""
    empty, begun = server.memory, time.perf_counter()
    async with connected(server.url, sessions) as clients:
        opened = time.perf_counter()
        told = await asyncio.gather(
            *(client.step({"message": known[number % SEEDS][0]}) for number, client in enumerate(clients))
        )
        answered, full = time.perf_counter(), server.memory
    assert all(one.observation["messages"] or one.done for one in told), "a session did not answer"
    return {
        "sessions": sessions,
        "gigabytes": full / 2**30,
        "megabytes_a_session": (full - empty) / sessions / 2**20,
        "seconds_to_open": opened - begun,
        "seconds_to_answer": answered - opened,
    }


def raise_open_files(wanted: int) -> None:
    """Allow this process, and the servers that it starts, so many open files.

    Raises:
        SystemExit: The system forbids it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(f"{wanted} open files are needed, and the system allows {hard}: raise it with `ulimit -Hn`.")
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def main(record: bool = False, quick: bool = False) -> bool:
    """Measure, and with `record` write it down."""
    sessions, rounds, seconds = (256, 1, 2.0) if quick else (OPEN, 3, 5.0)
    raise_open_files(sessions + 256)
    known, load = trajectories(), os.getloadavg()[0]
    rates: dict[str, list[dict[str, float]]] = {name: [] for name in SERVERS}
    with serving(*SERVERS) as servers:
        for _ in range(rounds):
            for name, server in zip(SERVERS, servers, strict=True):
                reward = 1.0 if name == "toolorchestra" else 0.0
                rates[name].append(uvloop.run(rate(server, seconds, known, reward)))
    with serving("toolorchestra") as (server,):
        held = uvloop.run(hold(server, sessions, known))
    found = {
        "env": ENV,
        "sessions": SESSIONS,
        "rounds": rounds,
        "servers": {name: rounded(median(one), 2) for name, one in rates.items()},
        "open": rounded(held, 2),
        "load_before": round(load, 2),
    }
    print(json.dumps(found, indent=2))
    if record:
        save("serve", found, *PACKAGES)
    slow = found["servers"]["toolorchestra"]["messages_a_second"] < LEAST_RATE
    return bool(slow or held["gigabytes"] * 2**30 > MOST_MEMORY)


if __name__ == "__main__":
    cli(main)
