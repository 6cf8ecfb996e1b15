"""Let every baseline play test tasks of its environments, and record success, cost and time with intervals.

    python benchmarks/baselines.py --record         200 test tasks of each environment, three minutes of one idle core
    python benchmarks/baselines.py --record --environments ToolOrchestra-Math-v0     the others stay in the record
    python benchmarks/baselines.py --quick          25 tasks and little to learn from: a look, in 20 seconds

Those that learn are fitted first, on training tasks; what that takes is recorded too. The tables of docs/baselines.md
are made from the record by `python benchmarks/tables.py`. Searchers and designers of workflows (`designers.py`) play
MAS-Orchestra's environments, the others four environments of experts.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import designers
from harness import cli, file_of, provenance

from examples.baselines import BASELINES, EvaluationBank
from examples.baselines.fitting import LearnedPolicy
from examples.baselines.routing import Router
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.baselines import Baseline
from toolorchestra.agents.policies.registry import POLICIES
from toolorchestra.cli.environments import environment
from toolorchestra.envs.records.recording import Tally
from toolorchestra.envs.run_episodes import run_episodes
from toolorchestra.envs.starts import EpisodeStart

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "ToolOrchestra-Math-v0": {"tools": "full"},
    "ToolOrchestra-MultiHopQA-v0": {"tools": "full"},
    "ToolOrchestra-Restaurant-v0": {"tools": "full"},
    "ParaManager-Math-v0": {"final": "orchestrator", "counting": "run", "strategies": False},  # what they select counts
}
KINDS = BASELINES | {name: kind for name, kind in POLICIES.items() if issubclass(kind, Baseline)}
ORDER = (
    "cheapest", "direct", "strongest", "direct+tools", "self-refine", "majority-vote", "fixed-workflow", "knn-router",
    "frugal-gpt", "route-llm", "avengers", "irt-router", "react", "rest-gpt", "dfs", "dylan", "puppeteer", "router-r1",
    "trinity",
)  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {"majority-vote": {"n": 5}}
FIT: dict[str, dict[str, Any]] = {
    "dylan": {"questions": 40},
    "puppeteer": {"episodes": 512},
    "router-r1": {},
    "trinity": {"generations": 2},
}
QUICK: dict[str, dict[str, Any]] = {
    "dylan": {"questions": 10},
    "puppeteer": {"episodes": 128},
    "router-r1": {"steps": 2},
    "trinity": {"questions": 6, "generations": 1, "size": 8},
}
KNOWN = (*ENVIRONMENTS, *designers.ENVIRONMENTS)
KEPT = ("episodes", "success", "interval", "cost", "clock", "turns", "calls")


def play(name: str, options: dict[str, Any], policy: Callable[[], Policy], tasks: list[str]) -> dict[str, Any]:
    """Return the summary of one episode of each task."""
    resets = [EpisodeStart(number, {"task_id": task}) for number, task in enumerate(tasks)]
    played = Tally(())
    for episode in run_episodes(lambda: environment(name, **options), policy, resets):
        played.add(episode)  # type: ignore[arg-type]  # simulated experts never fail to be reached
    summary = played.summary()
    return {key: summary[key] for key in KEPT}


def learnt(policy: str, env: Any, bank: EvaluationBank, fit: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the options of a policy: what it learnt in an environment, if it learns."""
    kind = KINDS[policy]
    if issubclass(kind, Router):
        return {"bank": bank}
    return kind.fit(env, **fit[policy]).learnt() if issubclass(kind, LearnedPolicy) else OPTIONS.get(policy, {})


def report(name: str, one: dict[str, Any]) -> dict[str, Any]:
    """Print the summary of a policy, and return it."""
    low, high = one["interval"]
    print(
        f"{name:15} {one['success']:6.1%} [{100 * low:.1f}, {100 * high:.1f}]  ${one['cost']:.4f}  "
        f"{one['clock']:4.0f} s  {one['calls']:.1f} calls; learnt in {one['fit_seconds']:.1f} s",
        flush=True,
    )
    return one


def chosen(env: Any, count: int) -> list[str]:
    """Return the ids of test tasks, spread evenly."""
    tasks = [task.id for task in env.source.tasks("test")]
    return tasks[:: max(1, len(tasks) // count)][:count]


def designed(names: Sequence[str], count: int, sizes: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Return the results of searchers and designers in each of their environments that is named."""
    found: dict[str, Any] = {}
    for name, model in designers.ENVIRONMENTS.items():
        if name not in names:
            continue
        env = environment(name, model=model)
        tasks = chosen(env, count)
        print(f"\n{name} model={model}, {len(tasks)} tasks\n")
        found[name] = {"model": model, "tasks": len(tasks), "policies": {}}
        for policy in designers.ORDER:
            begun = time.perf_counter()
            make = designers.learnt(policy, env, sizes)
            fitted = {"fit_seconds": round(time.perf_counter() - begun, 1)}
            one = play(name, {"model": model}, make, tasks)
            found[name]["policies"][policy] = report(policy, one | fitted)
        env.close()
    return found


def write(questions: int, found: dict[str, Any], searched: dict[str, Any]) -> None:
    """Put results into the record, where those of other environments stay; several processes may do so at once."""
    made = provenance()
    with file_of("baselines").open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = json.load(file)
        parts: dict[str, Any] = {}
        for part, order, new in (
            ("environments", ENVIRONMENTS, found),
            ("designers", designers.ENVIRONMENTS, searched),
        ):
            both = before.get(part, {}) | {name: one | {"commit": made["commit"]} for name, one in new.items()}
            parts[part] = {name: both[name] for name in order if name in both}
        file.seek(0)
        file.truncate()
        file.write(json.dumps({**made, "questions": questions, **parts}, indent=1) + "\n")


@dataclass
class Options:
    """What is played."""

    tasks: int = 200  # test tasks of each environment
    questions: int = 150  # training questions that the routers learn from
    environments: tuple[str, ...] = KNOWN  # play these only
    quick: bool = False  # 25 tasks, and little to learn from
    record: bool = False  # put the results into the record


def main(given: Options) -> None:
    assert set(given.environments) <= set(KNOWN), f"known are {', '.join(KNOWN)}"
    assert sorted(ORDER) == sorted(KINDS)
    if given.quick:
        given.tasks, given.questions = 25, 30
    found: dict[str, Any] = {}
    for name, options in ENVIRONMENTS.items():
        if name not in given.environments:
            continue
        env = environment(name, **options)
        tasks = chosen(env, given.tasks)
        begun = time.perf_counter()
        bank = EvaluationBank.played(env, questions=given.questions)
        of_bank = time.perf_counter() - begun
        print(f"\n{name} {options}, {len(tasks)} tasks\n")
        found[name] = {"options": options, "tasks": len(tasks), "bank_seconds": round(of_bank, 1), "policies": {}}
        for policy in ORDER:
            begun = time.perf_counter()
            more = learnt(policy, env, bank, QUICK if given.quick else FIT)
            fitted = time.perf_counter() - begun
            one = play(name, options, lambda policy=policy, more=more: KINDS[policy](**more), tasks)  # type: ignore[misc]
            found[name]["policies"][policy] = report(policy, one | {"fit_seconds": round(fitted, 1)})
        env.close()
    searched = designed(given.environments, given.tasks, designers.QUICK if given.quick else designers.SIZES)
    if given.record:
        write(given.questions, found, searched)


if __name__ == "__main__":
    cli(main)
