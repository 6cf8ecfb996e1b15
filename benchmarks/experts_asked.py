"""Measure what the words of a question to an expert are worth: in each domain, episodes and single steps.

    python benchmarks/experts_asked.py                60 test tasks of each domain, about four minutes on a laptop
    python benchmarks/experts_asked.py --tasks 5      a quick look
    python benchmarks/experts_asked.py --record       writes benchmarks/results/experts_asked.json

Episodes: a policy asks the strongest generalist nonsense, or for the next step in plain words, or for each look-up and
reference call by name, and does what comes back. Steps: along the look-ups and the reference trajectory, the strongest
expert of each trade is asked for the step that is due, which comes back right if it is that call, and for a sum, which
comes back right if it is its value. Work that suits a trade is told apart from work that does not.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from provenance import provenance

from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.experts.trades import is_misplaced
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.agents.policies.scripted_questions import (
    NONSENSE,
    PLAIN,
    NamedStepPolicy,
    ScriptedQuestionPolicy,
    named,
)
from toolorchestra.cli.environments import environment
from toolorchestra.envs.checks.asked import ask_nonsense
from toolorchestra.envs.ground_truth.domain_steps import kind_of_work
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.toolscale.intervals import wilson_interval
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import ToolContext

DOMAINS = (
    "Ecommerce", "Education", "Entertainment", "Finance", "Medicine", "Railway", "Restaurant", "Sport", "Travel",
    "Weather",
)  # fmt: skip
TRADES: tuple[Role, ...] = ("generalist", "math", "code", "query")
RESULTS = Path(__file__).parent / "results" / "experts_asked.json"


def episodes(env: Any, tasks: list[Task]) -> dict[str, float]:
    """Return the share of tasks solved by each way of asking the strongest generalist."""
    policies = {
        "left out": make_policy("strongest"),
        "plain words": ScriptedQuestionPolicy(questions=PLAIN),
        "by name": NamedStepPolicy(),
    }
    found = {"nonsense": ask_nonsense(env, tasks).share}
    for name, policy in policies.items():
        plays = (
            play_episode(env, policy, seed=number, options={"task_id": task.id}) for number, task in enumerate(tasks)
        )
        found[name] = sum(info["outcome"] == "solved" for info in plays) / len(tasks)
    return found


def steps(env: Any, tasks: list[Task]) -> dict[str, Counter[str]]:
    """Return for each trade how many steps were asked for in each way, and how many came back right."""
    found: dict[str, Counter[str]] = {trade: Counter() for trade in TRADES}
    for number, task in enumerate(tasks):
        env.reset(seed=number, options={"task_id": task.id})
        play = env.unwrapped.play
        factors = 12 + number, 7 + number % 5
        experts = {trade: strongest(play.tools.values(), trade) for trade in TRADES}
        for trade, expert in experts.items():
            suited = "wrong trade" if is_misplaced(trade, "computation") else "right trade"
            value = ask(expert, f"What is {factors[0]} * {factors[1]} + 19?", play, 0)
            found[trade][f"{suited}, asked"] += 1
            found[trade][f"{suited}, right"] += value.get("answer") == str(factors[0] * factors[1] + 19)
        for place, call in enumerate(task.whole_path):
            work = kind_of_work(play.tools[call.name])
            for trade, expert in experts.items():
                suited = "wrong trade" if is_misplaced(trade, work) else "right trade"
                asked = {
                    suited: named(play.tools[call.name], call),
                    "vague": PLAIN[place % len(PLAIN)],
                    "nonsense": NONSENSE[place % len(NONSENSE)],
                }
                for way, question in asked.items():
                    scene = (
                        play.session,
                        play.task,
                        play.world,
                        play.episode,
                        play.messages,
                        play.tools,
                        "",
                        (),
                        place,
                    )
                    value = expert.run({"question": question}, ToolContext(*scene)).value or {}
                    proposed = value.get("call", {})
                    right = (proposed.get("name"), proposed.get("arguments")) == (call.name, call.arguments)
                    found[trade][f"{way}, asked"] += 1
                    found[trade][f"{way}, right"] += right
            env.step([{"name": call.name, "arguments": call.arguments}])
            if play.over:
                break
    return found


def ask(expert: ExpertTool, question: str, play: Any, number: int) -> dict[str, Any]:
    """Return an expert's reply to a question at the present point of an episode."""
    scene = (play.session, play.task, play.world, play.episode, play.messages, play.tools, "", (), number)
    value: dict[str, Any] = expert.run({"question": question}, ToolContext(*scene)).value or {}
    return value


def strongest(tools: Any, trade: Role) -> ExpertTool:
    """Return the most expensive expert of a trade."""
    experts = [tool for tool in tools if isinstance(tool, ExpertTool) and tool.role == trade]
    return max(experts, key=lambda tool: tool.spec.price.input + tool.spec.price.output)


WAYS = ("right trade", "vague", "wrong trade", "nonsense")


def share(counts: Counter[str], way: str) -> str:
    """Return how many of the steps asked for in a way came back right, with the 95 % interval."""
    asked, right = counts[f"{way}, asked"], counts[f"{way}, right"]
    if not asked:
        return "–"
    low, high = wilson_interval(right, asked)
    return f"{right / asked:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=60, help="test tasks of each domain")
    parser.add_argument("--domains", nargs="*", default=DOMAINS)
    parser.add_argument("--record", action="store_true", help=f"write the results to {RESULTS.name}")
    given = parser.parse_args()
    solved: dict[str, dict[str, float]] = {}
    counted: dict[str, Counter[str]] = {trade: Counter() for trade in TRADES}
    by_domain: dict[str, Any] = {}
    print("| domain | nonsense | plain words | left out | by name |\n|---|---|---|---|---|")
    for domain in given.domains:
        env = environment(f"ToolOrchestra-{domain}-v0", tools="full")
        tasks = env.source.tasks("test")
        tasks = tasks[:: max(1, len(tasks) // given.tasks)][: given.tasks]
        solved[domain] = one = episodes(env, tasks)
        ways = ("nonsense", "plain words", "left out", "by name")
        print(f"| {domain} | " + " | ".join(f"{one[way]:.1%}" for way in ways) + " |", flush=True)
        by_domain[domain] = steps(env, tasks)
        for trade, counts in by_domain[domain].items():
            counted[trade].update(counts)
        env.close()
    print("\n| trade | " + " | ".join(WAYS) + " |\n|" + "---|" * (1 + len(WAYS)))
    for trade, counts in counted.items():
        print(f"| {trade} | " + " | ".join(share(counts, way) for way in WAYS) + " |")
    worse = {
        trade: [domain for domain in by_domain if not _is_worse(by_domain[domain][trade])]
        for trade in TRADES
        if trade != "generalist"  # any work suits it
    }
    for trade, domains in worse.items():
        print(f"{trade}: a wrong trade is worse in {len(by_domain) - len(domains)} of {len(by_domain)} domains")
    if given.record:
        record = {**provenance(), "tasks": given.tasks, "episodes": solved, "steps": by_domain}
        RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _is_worse(counts: Counter[str]) -> bool:
    right, wrong = (counts[f"{way}, right"] / max(1, counts[f"{way}, asked"]) for way in ("right trade", "wrong trade"))
    return wrong < right


if __name__ == "__main__":
    main()
