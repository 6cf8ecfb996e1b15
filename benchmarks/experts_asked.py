"""Measure what it is worth to tell an expert what it needs: in each domain, episodes and single steps.

    python benchmarks/experts_asked.py                60 test tasks of each domain, about six minutes on a laptop
    python benchmarks/experts_asked.py --tasks 5      a quick look
    python benchmarks/experts_asked.py --record       writes benchmarks/results/experts_asked.json

Episodes: a policy asks the strongest generalist and does what comes back. It asks about anything and shows nothing, the
request and each result with a probability of one half, or all of them; or it shows nothing and asks for each look-up
and reference call in words that have the values: by its name in the tools, with typing errors, in words of its own or
in German (tests/data/own_words.yaml, for the restaurant alone). Steps: along the look-ups and the reference trajectory,
the strongest expert of each trade is asked for the step that is due, which comes back right if it is that call, and for
a sum, which comes back right if it is its value. Work that suits a trade is told apart from work that does not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness import ROOT, cli, markdown, percent, save

from toolorchestra.agents.experts.specialties import outside_specialty
from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.scripted_questions import UNINFORMED, NamedStepPolicy, ScriptedQuestionPolicy, named
from toolorchestra.cli.environments import environment
from toolorchestra.envs.checks.asked import ask_uninformed
from toolorchestra.envs.ground_truth.domain_steps import kind_of_work
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.toolscale.common.intervals import wilson_interval
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Tool, ToolContext

DOMAINS = (
    "Ecommerce", "Education", "Entertainment", "Finance", "Medicine", "Railway", "Restaurant", "Sport", "Travel",
    "Weather",
)  # fmt: skip
TRADES: tuple[Role, ...] = ("generalist", "math", "code", "query")
WORDS = ROOT / "tests" / "data" / "own_words.yaml"


def values(call: Call, rng: random.Random) -> str:
    """Return the values of a call in any order."""
    lists = (value if isinstance(value, list) else [value] for value in call.arguments.values() if value is not None)
    found = [str(item) for items in lists for item in items]
    rng.shuffle(found)
    return ", ".join(found)


def mistyped(tool: Tool, call: Call, rng: random.Random) -> str:
    """Return what a tool is for, with letters of half of the longer words exchanged, and the values of a call."""
    words = tool.description.split(". ")[0].split()
    for place, word in enumerate(words):
        if len(word) > 3 and rng.random() < 0.5:
            at = rng.randrange(1, len(word) - 1)
            words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return f"{' '.join(words)}: {values(call, rng)}"


class Worded:
    """Asks in words of somebody's own: the first of those written down for each tool, or the second, in German."""

    def __init__(self, position: int) -> None:
        self._words, self._position = read_yaml(WORDS), position

    def __call__(self, tool: Tool, call: Call, rng: random.Random) -> str:
        """Return the question for a call of a tool."""
        return f"{self._words[tool.name][self._position]} {values(call, rng)}"


def policies(domain: str) -> dict[str, Policy]:
    """Return what asks in each way."""
    found: dict[str, Policy] = {
        "half": ScriptedQuestionPolicy(shown=0.5),
        "everything": ScriptedQuestionPolicy(),
        "by name": NamedStepPolicy(),
        "typing errors": NamedStepPolicy(words=mistyped),
    }
    if domain == "Restaurant":
        found |= {"own words": NamedStepPolicy(words=Worded(0)), "German": NamedStepPolicy(words=Worded(1))}
    return found


def episodes(env: Any, domain: str, tasks: list[Task]) -> dict[str, float]:
    """Return the share of tasks solved by each way of asking the strongest generalist."""
    found = {"nothing": ask_uninformed(env, tasks).share}
    for name, policy in policies(domain).items():
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
            suited = "wrong trade" if outside_specialty(trade, "computation") else "right trade"
            value = ask(expert, f"What is {factors[0]} * {factors[1]} + 19?", play, 0)
            found[trade][f"{suited}, asked"] += 1
            found[trade][f"{suited}, right"] += value.get("answer") == str(factors[0] * factors[1] + 19)
        for place, call in enumerate(task.whole_path):
            work = kind_of_work(play.tools[call.name])
            for trade, expert in experts.items():
                suited = "wrong trade" if outside_specialty(trade, work) else "right trade"
                everything = ["request", *(record.id for record in play.episode.calls)]
                asked: dict[str, tuple[str, list[str]]] = {
                    suited: (named(play.tools[call.name], call), []),
                    suited.replace("trade", "trade, all shown"): ("", everything),
                    "nothing": (UNINFORMED[place % len(UNINFORMED)], []),
                }
                for way, (question, shown) in asked.items():
                    value = ask(expert, question, play, place, shown)
                    proposed = value.get("call", {})
                    right = (proposed.get("name"), proposed.get("arguments")) == (call.name, call.arguments)
                    found[trade][f"{way}, asked"] += 1
                    found[trade][f"{way}, right"] += right
            env.step([{"name": call.name, "arguments": call.arguments}])
            if play.over:
                break
    return found


def ask(expert: ExpertTool, question: str, play: Any, number: int, shown: Sequence[str] = ()) -> dict[str, Any]:
    """Return an expert's reply to a question at the present point of an episode, shown the request and results."""
    scene = (play.session, play.task, play.world, play.episode, play.messages, play.tools, "", (), number)
    value: dict[str, Any] = expert.run({"question": question, "context": shown}, ToolContext(*scene)).value or {}
    return value


def strongest(tools: Any, trade: Role) -> ExpertTool:
    """Return the most expensive expert of a trade."""
    experts = [tool for tool in tools if isinstance(tool, ExpertTool) and tool.role == trade]
    return max(experts, key=lambda tool: tool.spec.price.input + tool.spec.price.output)


WAYS = ("right trade", "right trade, all shown", "wrong trade", "wrong trade, all shown", "nothing")
ASKED = ("nothing", "half", "everything", "by name", "typing errors", "own words", "German")


def share(counts: Counter[str], way: str) -> str:
    """Return how many of the steps asked for in a way came back right, with the 95 % interval."""
    asked, right = counts[f"{way}, asked"], counts[f"{way}, right"]
    if not asked:
        return "–"
    low, high = wilson_interval(right, asked)
    return f"{right / asked:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def main(tasks: int = 60, domains: tuple[str, ...] = DOMAINS, record: bool = False) -> None:
    solved: dict[str, dict[str, float]] = {}
    counted: dict[str, Counter[str]] = {trade: Counter() for trade in TRADES}
    by_domain: dict[str, Any] = {}
    for domain in domains:
        env = environment(f"ToolOrchestra-{domain}-v0", tools="full")
        known = env.source.tasks("test")
        chosen = [*known[:: max(1, len(known) // tasks)][:tasks]]
        solved[domain] = episodes(env, domain, chosen)
        by_domain[domain] = steps(env, chosen)
        for trade, counts in by_domain[domain].items():
            counted[trade].update(counts)
        env.close()
        print(domain, solved[domain], flush=True)
    rows = [[name, *(percent(one[way]) if way in one else "–" for way in ASKED)] for name, one in solved.items()]
    print(markdown("|".join(["domain", *ASKED]), rows))
    trades = [[trade, *(share(counts, way) for way in WAYS)] for trade, counts in counted.items()]
    print(markdown("|".join(["trade", *WAYS]), trades))
    worse = {
        trade: [domain for domain in by_domain if not _is_worse(by_domain[domain][trade])]
        for trade in TRADES
        if trade != "generalist"  # any work suits it
    }
    for trade, others in worse.items():
        print(f"{trade}: a wrong trade is worse in {len(by_domain) - len(others)} of {len(by_domain)} domains")
    if record:
        save("experts_asked", {"tasks": tasks, "episodes": solved, "steps": by_domain})


def _is_worse(counts: Counter[str]) -> bool:
    right, wrong = (counts[f"{way}, right"] / max(1, counts[f"{way}, asked"]) for way in ("right trade", "wrong trade"))
    return wrong < right


if __name__ == "__main__":
    cli(main)
