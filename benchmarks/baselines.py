"""Let every baseline play the test split of two environments, and print success, cost and time.

    python benchmarks/baselines.py                  every test task once, about a minute on a laptop
    python benchmarks/baselines.py --tasks 50       a quick look

The router is fitted first, on training questions that every available expert is given.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from provenance import provenance

from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.registry import BASELINES, make_policy
from toolorchestra.agents.policies.routing import KNNRouter
from toolorchestra.cli.environments import environment
from toolorchestra.envs.playing import Reset, play_many
from toolorchestra.envs.recording import Tally

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "ParaManager-Math-v0": {},
    "ToolOrchestra-Math-v0": {"tools": "full"},
    "ToolOrchestra-Restaurant-v0": {"tools": "full"},
}
ORDER = (
    "cheapest", "direct", "strongest", "knn-router", "direct+tools", "self-refine", "majority-vote", "fixed-workflow",
)  # fmt: skip
RESULTS = Path(__file__).parent / "results" / "baselines.json"


def play(name: str, options: dict[str, Any], policy: Callable[[], Policy], tasks: list[str]) -> dict[str, Any]:
    """Return the summary of one episode of each task."""
    resets = [Reset(number, {"task_id": task}) for number, task in enumerate(tasks)]
    played = Tally(())
    for episode in play_many(lambda: environment(name, **options), policy, resets):
        played.add(episode)  # type: ignore[arg-type]  # simulated experts never fail to be reached
    return played.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, help="test tasks of each environment; all by default")
    parser.add_argument("--questions", type=int, default=150, help="training questions that the router learns from")
    parser.add_argument("--record", action="store_true", help=f"write the results to {RESULTS.name}")
    given = parser.parse_args()
    assert sorted(ORDER) == sorted(BASELINES)
    found: dict[str, Any] = {}
    for name, options in ENVIRONMENTS.items():
        with_options = " ".join([name, *(f"{key}={value!r}" for key, value in options.items())])
        env = environment(name, **options)
        tasks = [task.id for task in env.source.tasks("test")]
        tasks = tasks[:: max(1, len(tasks) // given.tasks)][: given.tasks] if given.tasks else tasks
        router = KNNRouter.fit(env, questions=given.questions)
        env.close()
        print(f"\n{with_options}, {len(tasks)} tasks\n")
        print("| policy | success | 95 % interval | cost | time | turns | calls |\n|---|---|---|---|---|---|---|")
        found[with_options] = {}
        for policy in ORDER:
            more = {"bank": router.bank} if policy == "knn-router" else {}
            one = play(name, options, lambda policy=policy, more=more: make_policy(policy, **more), tasks)  # type: ignore[misc]
            low, high = one["interval"]
            print(
                f"| `{policy}` | {one['success']:.1%} | [{100 * low:.1f}, {100 * high:.1f}] | ${one['cost']:.4f} | "
                f"{one['clock']:.0f} s | {one['turns']:.1f} | {one['calls']:.1f} |",
                flush=True,
            )
            kept = ("episodes", "success", "interval", "cost", "clock", "turns", "calls")
            found[with_options][policy] = {key: one[key] for key in kept}
    if given.record:
        text = json.dumps({**provenance(), "questions": given.questions, "environments": found}, indent=1)
        RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
