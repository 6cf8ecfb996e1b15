"""Measure the time of an episode beside the least that its SQL, JSON and function calls take.

    python benchmarks/episode.py                    microseconds per part, and the floor, in one run
    python benchmarks/episode.py --steps 1000000    and whether memory grows over so many steps

Episodes are reference ones of four calls, played as the oracle plays them (the calls of one stage in one turn), sent as
text to the environment as `gymnasium.make` makes it, on one core. Each task is played by a group, as the trainers play
it (``--group``, 8 by default). What an episode reads in the initial database and how its answer is judged are known in
the others, so the table has both: the *first* episode of each task, where nothing of this is known when the first task
begins, and a *further* one. The ratio is that of the whole group. The *floor* is the least that any implementation pays
for the same episode in Python if it keeps nothing:

- the tools' own SQL, bound parameters ready, run and fetched on a bare connection (no journal, no authorizer, no
  progress handler), a savepoint round each call that writes, the rows that changed read once by key (no verification
  can do without), and one rollback at reset;
- JSON parsing of the same calls, with Python's own `json`, name and arguments untyped;
- one plain function call per call (for a tool that is a function: that function).

It holds no validation of arguments, no comparison, no record, no conversation and no writing of results. Every
number is the median of rounds, environment and floor by turns, with garbage collection on, in CPU time of this
process (so that neighbours on the machine do not count).
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import gymnasium as gym
import msgspec
from harness import cli, median, micros, resident, rounded, save

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv
from toolorchestra.toolscale.answers.typed_answers import judge_typed
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.functions import FunctionTool
from toolorchestra.toolscale.tools.sqltool import SqlTool
from toolorchestra.toolscale.tools.tool import NO_CONTEXT

CALLS = 4
MAX_RATIO, LEAST_RATE, MAX_GROWTH = 3.0, 2000.0, 0.05

Timed = Callable[[], object]


def calls_of(task: Task) -> list[str]:
    """Return the reference calls of a task as JSON."""
    return [json.dumps({"name": call.name, "arguments": call.arguments}) for call in task.reference_calls]


def written(task: Task) -> list[str]:
    """Return the turns of a task's reference trajectory as text."""
    calls = zip(task.reference_calls, calls_of(task), strict=True)
    return [
        "".join(f"<tool_call>{text}</tool_call>" for _, text in stage)
        for _, stage in groupby(calls, key=lambda pair: pair[0].stage)
    ]


class Floor:
    """The bare statements, JSON and function calls of reference episodes."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.connection = sqlite3.connect(":memory:", isolation_level=None, cached_statements=1024)
        self.connection.deserialize(domain.database.image)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.execute("SAVEPOINT episode")

    def prepare(self, task: Task) -> tuple[list[tuple[str, Any]], list[str], list[Timed]]:
        """Return the statements of a reference trajectory with their parameters, its calls, and its functions."""
        statements: list[tuple[str, Any]] = []
        functions: list[Timed] = []
        for call in task.reference_calls:
            tool = self.domain.tools[call.name]
            arguments = tool.decode(msgspec.json.encode(call.arguments))
            if isinstance(tool, FunctionTool):
                functions.append(lambda tool=tool, arguments=arguments: tool.run(arguments, NO_CONTEXT))  # type: ignore[misc]
                continue
            assert isinstance(tool, SqlTool)
            functions.append(int)
            parameters = tool.bind(arguments)
            spec = self.domain.spec.tools[call.name]
            saves = {s.sql: s.save for s in spec.statements if not isinstance(s, str)}
            write = tool.effect == "write"
            here = [(sql, parameters) for sql in tool.statements]
            for sql, _ in here:  # once beforehand: what statements save is bound to those after them
                row = self.connection.execute(sql, parameters).fetchone()
                if saves.get(sql):
                    parameters[str(saves[sql])] = row[0]
            statements += [("SAVEPOINT call", {}), *here, ("RELEASE call", {})] if write else here
        self.connection.execute("ROLLBACK TO episode")
        for table, changed in self.domain.verifier.effects(task)[0].touched.items():
            access = self.domain.database.access[table]
            statements += [(access.one, access.parts(key)) for key in changed]
        return statements, calls_of(task), functions

    def parts(self, tasks: Sequence[Task]) -> dict[str, Timed]:
        """Return what the floor of `tasks` is made of, to be timed."""
        prepared = [self.prepare(task) for task in tasks]
        execute, decode = self.connection.execute, json.loads

        def statements() -> None:
            for run, _, _ in prepared:
                for sql, parameters in run:
                    execute(sql, parameters).fetchall()
                execute("ROLLBACK TO episode")

        def parsing() -> None:
            for _, texts, _ in prepared:
                for text in texts:
                    decode(text)

        def calling() -> None:
            for _, _, functions in prepared:
                for function in functions:
                    function()

        return {"statements": statements, "parsing": parsing, "calls": calling}


def whole(env: gym.Env[Any, Any], tasks: Sequence[Task]) -> Timed:
    """Return a function that plays the reference episodes of `tasks`."""
    core: Any = env.unwrapped
    env.reset(seed=0)  # how an episode is answered is known when there is one
    plan = [({"task_id": task.id}, [*written(task), core.final(core.right_answer(task))]) for task in tasks]

    def play() -> None:
        for options, actions in plan:
            env.reset(options=options)
            for action in actions:
                result = env.step(action)
            assert result[1] == 1.0

    return play


def parts_of_an_episode(env: gym.Env[Any, Any], domain: Domain, tasks: Sequence[Task], rounds: int) -> dict[str, float]:
    """Return the median microseconds of parts of a further episode.

    They are a reset, a call, the answering step, the verification in it, and the reading of the answer in this.
    """
    found: dict[str, list[float]] = {name: [] for name in ("reset", "call", "answer", "verification", "reading")}
    clock = time.process_time
    core = env.unwrapped
    assert isinstance(core, ToolOrchestraEnv)
    for _ in range(rounds):
        sums = dict.fromkeys(found, 0.0)
        for task in tasks:
            t0 = clock()
            env.reset(options={"task_id": task.id})
            t1 = clock()
            for text in written(task):
                start = clock()
                env.step(text)
                sums["call"] += (clock() - start) / len(task.reference_calls)
            play, answer = core.play, core.right_answer(task)
            action = core.final(answer)
            t2 = clock()
            domain.verify(task, play.session, answer, play.typed)
            t3 = clock()
            judge_typed(answer, play.typed)
            t4 = clock()
            env.step(action)
            t5 = clock()
            sums["reset"] += t1 - t0
            sums["verification"] += t3 - t2
            sums["reading"] += t4 - t3
            sums["answer"] += t5 - t4
        for name, total in sums.items():
            found[name].append(total / len(tasks) * 1e6)
    return {name: median(values) for name, values in found.items()}


def memory(env: gym.Env[Any, Any], tasks: Sequence[Task], steps: int) -> dict[str, Any]:
    """Play reference episodes with stray calls for `steps` steps and watch the memory."""
    strays = ("<tool_call>{broken</tool_call>", '<tool_call>{"name": "nothing"}</tool_call>', [{"name": 3}], 3)
    core: Any = env.unwrapped
    done, mark = 0, steps // 10
    trail: list[int] = []
    start = time.process_time()
    while done < steps:
        for number, task in enumerate(tasks):
            env.reset(options={"task_id": task.id})
            answer = core.final(core.right_answer(task))
            for action in (*written(task), strays[number % len(strays)], answer):
                env.step(action)
            done += len(written(task)) + 2
            if done >= mark * (len(trail) + 1):
                trail.append(resident())
                print(f"  {done:>10,} steps  {trail[-1] / 2**20:8.1f} MiB", flush=True)
    settled = trail[1:]
    growth = max(settled) / settled[0] - 1
    seconds = time.process_time() - start
    return {"steps": done, "seconds": round(seconds, 1), "rss_bytes": trail, "growth": round(growth, 4)}


@dataclass
class Options:
    """What is played."""

    domain: str = "restaurant"  # name or folder of a domain
    rounds: int = 25  # rounds of which the median is shown
    tasks: int = 150  # most tasks played in a round
    group: int = 8  # episodes of a task
    steps: int = 0  # also play so many steps and watch the memory
    record: bool = False  # write the results


def main(given: Options) -> bool:
    domain = load_domain(given.domain)
    tasks = [task for task in domain.tasks() if len(task.reference_calls) == CALLS]
    tasks = random.Random(0).sample(tasks, min(given.tasks, len(tasks)))
    if not tasks:
        sys.exit(f"{domain.name} has no task of {CALLS} reference calls.")
    env = gym.make("ToolOrchestra-Custom-v0", domain=given.domain, answer="typed")
    print(
        f"{domain!r}; {len(tasks)} tasks of {CALLS} calls; median of {given.rounds} rounds; as made by gymnasium.make"
    )

    play, floor = whole(env, tasks), Floor(domain).parts(tasks)
    play()
    times: dict[str, list[float]] = {"first": [], "further": [], **{name: [] for name in floor}}
    for _ in range(given.rounds):
        domain.database.known_reads.clear()
        for name, function in {"first": play, "further": play, **floor}.items():
            times[name].append(micros(function) / len(tasks))
    spent = {name: median(values) for name, values in times.items()}
    spent["episode"] = (spent["first"] + (given.group - 1) * spent["further"]) / given.group
    below = sum(spent[name] for name in floor)
    parts = parts_of_an_episode(env, domain, tasks, max(3, given.rounds // 3))
    ratio, rate = spent["episode"] / below, 1e6 / spent["episode"]

    print(f"\n{'':26}{'µs':>7}")
    for name, value in parts.items():
        print(f"{name:26}{value:7.1f}")
    for name in ("first", "further"):
        print(f"{'episode, ' + name:26}{spent[name]:7.1f}   {spent[name] / below:.2f} × the floor")
    print(f"{'episode of a group':26}{spent['episode']:7.1f}   {rate:,.0f} episodes/s (at least {LEAST_RATE:,.0f})")
    for name in floor:
        print(f"{'floor: ' + name:26}{spent[name]:7.1f}")
    print(f"{'floor':26}{below:7.1f}   the episode is {ratio:.2f} × the floor (at most {MAX_RATIO:g})")
    results: dict[str, Any] = {
        "sqlite": sqlite3.sqlite_version,
        "seed": 0,
        "domain": domain.name,
        "tasks": len(tasks),
        "calls": CALLS,
        "group": given.group,
        "microseconds": {**parts, **{name: spent[name] for name in ("first", "further", "episode")}},
        "floor_microseconds": {name: spent[name] for name in floor},
        "ratio": ratio,
        "episodes_per_second": rate,
    }
    passed = ratio <= MAX_RATIO and rate >= LEAST_RATE
    if given.steps:
        print()
        results["memory"] = memory(env, tasks, given.steps)
        growth = results["memory"]["growth"]
        print(f"memory grew by {growth:.1%} after the first fifth (at most {MAX_GROWTH:.0%})")
        passed = passed and growth <= MAX_GROWTH
    env.close()
    if given.record:
        save("episode", rounded(results))
    return not passed


if __name__ == "__main__":
    cli(main)
