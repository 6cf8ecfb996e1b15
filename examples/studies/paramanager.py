"""Study of ParaManager's comparisons (§4.5, §5, App. C) with a scripted orchestrator and simulated experts.

Nothing is trained: `ConsensusPolicy` plays the same questions under each condition, so differences come from the
protocol and the pool of models. Comparisons are paired by question. Beside them are votes of 8 of single models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np

from examples.studies.shared import Tick, done_parts, expected_table, play_tasks, table
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.baselines import MajorityVote
from toolorchestra.agents.policies.consensus import ConsensusPolicy
from toolorchestra.algos.reporting.stats import Interval, mean_interval, paired_bootstrap
from toolorchestra.envs.records.unjudged import require_judged, unjudged_reason
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

ENVIRONMENT = "ParaManager-Math-v0"
BUDGETS = (4, 8, 12, 16)
QUESTIONS = 500
"""Maximum of questions, by default."""
SAMPLES = 8
"""Episodes of each question under each condition, by default: accuracies are mean@8 (§4.4)."""
QUICK = (100, 2)
"""Questions and samples of a quick run."""
VOTES = 8
"""Samples of the majority vote of a single model (§4.4)."""
MEASURES = {"tokens": "{:,.0f}", "seconds": "{:.1f}", "usd": "{:.4f}", "calls": "{:.1f}"}
"""Columns of a condition in the table after its accuracy, and how it is written."""


@dataclass(frozen=True)
class Condition:
    """How questions are played: with the arguments `options` of `gymnasium.make`, and `policy` of the `player`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    player: type[Policy] = ConsensusPolicy


POOLS = {
    "paramanager": ("gpt-oss-20b", "qwen3-30b-2507", "qwen3-coder-30b"),
    "paramanager-unseen": ("gpt-oss-120b", "gemini-2.5-flash", "qwen3-235b-2507"),
}
"""The paper's pools of models (§4.3, §5.5)."""
MONO = "qwen3-30b-2507"
"""The one model of the paper's ablation *Mono* (§4.5)."""
CONDITIONS = (
    *(
        condition
        for pool, models in POOLS.items()
        for condition in (
            Condition(f"parallel, {pool}", {"pool": pool}),
            Condition(f"serial, {pool}", {"pool": pool, "serial": True}, {"width": 1, "wave": 4}),
            Condition(f"serial that stops early, {pool}", {"pool": pool, "serial": True}, {"width": 1}),
            Condition(f"one tool, {pool}", {"pool": pool}, {"solvers": ("standard_reasoner",), "reviews": False}),
            *(Condition(f"mono {one}", {"pool": pool, "mono": one}) for one in models),
            *(
                Condition(
                    f"vote of {VOTES} {one}",
                    {"pool": pool, "mono": one, "final": "orchestrator"},
                    {"expert": one, "n": VOTES},
                    MajorityVote,
                )
                for one in models
            ),
        )
    ),
    *(Condition(f"C_tar {units}", {"cost_target": units}, {"budget": units, "lead": 99}) for units in BUDGETS),
)
"""ParaManager and its ablations in both pools, and the budgets of Table 6, all of which are spent.

*Serial* makes the calls of the parallel script one after the other, and counts votes after as many; *that stops early*
counts them after each call. *Mono* has one model in the pool and the same summariser. *One tool* is the path to which a
policy collapses without the reward for diversity (App. B).
"""


class ConditionResult(msgspec.Struct, frozen=True):
    """What the episodes of one condition came to, question by question (means over samples).

    `tokens` are those that models read and wrote, `seconds` are virtual, `usd` US dollars, all without those of the
    orchestrator, which is a script and costs nothing here; `calls` are those of tools.
    """

    name: str
    right: list[float]
    tokens: list[float]
    seconds: list[float]
    usd: list[float]
    calls: list[float]

    def mean(self, what: str) -> Interval:
        """Return a mean over questions, with its 95 % interval."""
        return mean_interval(getattr(self, what))

    def over(self, other: ConditionResult, what: str = "right") -> Interval:
        """Return by how much it exceeds another condition's, paired by question, with its 95 % interval."""
        return paired_bootstrap(getattr(self, what), getattr(other, what))


def play(
    condition: Condition,
    questions: int = QUESTIONS,
    samples: int = SAMPLES,
    *,
    env_id: str = ENVIRONMENT,
    split: str = "test",
    tick: Tick = lambda: None,
    first: int = 0,
) -> ConditionResult:
    """Play the first questions of a split, from the one numbered `first`, each so many times, under a condition.

    Each sample has its own seed.

    Raises:
        EvaluationError: An episode was not judged.
    """
    env: Any = gymnasium.make(env_id, disable_env_checker=True, orchestrator=None, **condition.options).unwrapped

    def measure() -> tuple[float, ...]:
        require_judged([unjudged_reason(env.episode)])
        calls = list(env.episode.calls)
        tokens = sum(sum(call.tokens) for call in calls)
        return env.episode.outcome == "solved", tokens, env.episode.clock, env.episode.cost, len(calls)

    tasks = env.source.tasks(split)[first:questions]
    found = play_tasks(env, tasks, samples, lambda: condition.player(**condition.policy), measure, tick)
    env.close()
    return ConditionResult(condition.name, *found)


FAMILIES = (
    ("gpt-5-mini", "gpt-5"),
    ("qwen2.5-math-7b", "qwen2.5-math-72b"),
    ("gpt-oss-20b", "gpt-oss-120b"),
    ("qwen3-30b-2507", "qwen3-235b-2507"),
)
"""A smaller and a larger model of the same makers."""


def alone(
    experts: Sequence[str], questions: int = QUESTIONS, *, env_id: str = ENVIRONMENT, split: str = "test"
) -> list[ConditionResult]:
    """Return the results of experts that each answer each question alone, in one call."""
    options: dict[str, Any] = {"orchestrator": None, "pool": list(experts), "max_calls": len(experts)}
    env: Any = gymnasium.make(env_id, disable_env_checker=True, **options).unwrapped
    measured: dict[str, list[tuple[float, ...]]] = {name: [] for name in experts}
    for task in env.source.tasks(split)[:questions]:
        env.reset(seed=0, options={"task_id": task.id})
        env.step([{"name": "standard_reasoner", "arguments": {"model_id": name}} for name in experts])
        for name, call in zip(experts, env.play.episode.calls, strict=True):
            right = float(env.play.world.verify(task, env.play.session, str(call.value)).solved)
            measured[name].append((right, float(sum(call.tokens)), call.end - call.start, call.cost, 1.0))
    env.close()
    return [ConditionResult(name, *map(list, zip(*rows, strict=True))) for name, rows in measured.items()]


PAPER = {
    "parallel, paramanager": (82.34, 55_063, 528.84),
    "serial, paramanager": (76.51, 46_801, 660.32),
    f"mono {MONO}": (73.88, None, None),
    "vote of 8 gpt-oss-20b": (78.04, None, None),
    "vote of 8 qwen3-30b-2507": (71.30, None, None),
    "vote of 8 qwen3-coder-30b": (33.70, None, None),
    "vote of 8 gpt-oss-120b": (84.21, None, None),
    "vote of 8 gemini-2.5-flash": (84.93, None, None),
    "vote of 8 qwen3-235b-2507": (76.92, None, None),
    "parallel, paramanager-unseen": (86.52, None, None),
    "C_tar 4": (79.20, 47_200, None),
    "C_tar 8": (82.34, 55_063, None),
    "C_tar 12": (83.05, 58_900, None),
    "C_tar 16": (83.18, 62_300, None),
}
"""Accuracy in %, tokens and seconds of Tables 1, 2, 3 and 6: means over the four sets of mathematics."""


class ParaManagerStudy(msgspec.Struct, frozen=True):
    """What the study found by condition, and the results of the models of `FAMILIES` alone (`experts`)."""

    questions: int
    samples: int
    found: dict[str, ConditionResult]
    experts: dict[str, ConditionResult]

    def orderings(self) -> dict[str, Interval]:
        """Return the differences that the paper reports, each expected to be above 0, with 95 % intervals.

        Shares are in [0, 1], seconds and dollars as they are. *More budget helps* is the gain of each further four
        cost units; that *returns diminish* is the first gain less the mean of the later ones.
        """
        found = self.found
        gains = np.diff([found[f"C_tar {units}"].right for units in BUDGETS], axis=0)
        differences: dict[str, Interval] = {}
        for pool, models in POOLS.items():
            parallel, serial = found[f"parallel, {pool}"], found[f"serial, {pool}"]
            stopping = found[f"serial that stops early, {pool}"]
            monos = np.mean([found[f"mono {model}"].right for model in models], axis=0)
            votes = np.mean([found[f"vote of {VOTES} {model}"].right for model in models], axis=0)
            differences |= {
                f"parallel over serial at equal calls ({pool}), accuracy": parallel.over(serial),
                f"serial at equal calls over parallel ({pool}), seconds": serial.over(parallel, "seconds"),
                f"parallel over serial that stops early ({pool}), accuracy": parallel.over(stopping),
                f"serial that stops early over parallel ({pool}), seconds": stopping.over(parallel, "seconds"),
                f"pool over its models one by one ({pool}), accuracy": paired_bootstrap(parallel.right, monos),
                f"pool over votes of 8 of its models ({pool}), accuracy": paired_bootstrap(parallel.right, votes),
                f"several tools over one ({pool}), accuracy": parallel.over(found[f"one tool, {pool}"]),
            }
        differences |= {
            f"pool over mono {MONO}, accuracy": found["parallel, paramanager"].over(found[f"mono {MONO}"]),
            f"C_tar {BUDGETS[1]} over {BUDGETS[0]}, accuracy": mean_interval(gains[0]),
            f"C_tar {BUDGETS[-1]} over {BUDGETS[0]}, accuracy": mean_interval(gains.sum(axis=0)),
            "first gain over mean of later gains, accuracy": mean_interval(gains[0] - np.mean(gains[1:], axis=0)),
        }
        for small, large in FAMILIES:
            more, less = self.experts[large], self.experts[small]
            usd, other = (np.multiply(one.usd, 1000) for one in (more, less))
            differences[f"{large} over {small}, accuracy"] = more.over(less)
            differences[f"{large} over {small}, $ for 1,000 calls"] = paired_bootstrap(usd, other)
        return differences


def run(
    questions: int = QUESTIONS, samples: int = SAMPLES, *, tick: Tick = lambda: None, executor: Executor | None = None
) -> ParaManagerStudy:
    """Play everything, with the workers of an executor if there is one.

    `tick` is called after each episode (`episodes` is their number).
    """
    executor = executor or InProcess()
    env: Any = gymnasium.make(ENVIRONMENT, disable_env_checker=True, orchestrator=None).unwrapped
    there = min(questions, len(env.source.tasks("test")))  # the split may have fewer questions
    env.close()
    size = there if isinstance(executor, InProcess) else _PART
    parts = [(one, first, min(there, first + size), samples) for one in CONDITIONS for first in range(0, there, size)]
    results: dict[str, list[ConditionResult]] = {condition.name: [] for condition in CONDITIONS}
    calls = ((_played, part) for part in parts)
    for found in done_parts(executor, calls, lambda found: len(found.right) * samples, tick):
        results[found.name].append(found)
    names = [name for family in FAMILIES for name in family]
    (experts,) = executor.run([Unit((__name__, "experts alone"), alone, (names, questions))])
    joined = {name: _joined(name, parts) for name, parts in results.items()}
    return ParaManagerStudy(there, samples, joined, {one.name: one for one in experts})


_PART = 50  # questions that a worker plays under a condition before the next ones


def _played(condition: Condition, first: int, last: int, samples: int, tick: Tick) -> ConditionResult:
    return play(condition, last, samples, tick=tick, first=first)


def _joined(name: str, parts: Sequence[ConditionResult]) -> ConditionResult:
    """Return the results of a condition whose questions were played in parts."""
    columns = zip(*(msgspec.structs.astuple(part)[1:] for part in parts), strict=True)
    return ConditionResult(name, *([value for values in column for value in values] for column in columns))


def episodes(questions: int, samples: int) -> int:
    """Return how many episodes `run` plays."""
    return len(CONDITIONS) * questions * samples


def markdown(study: ParaManagerStudy) -> str:
    """Return the tables of a study, beside the paper's."""
    lines = [f"{study.questions} questions, {study.samples} episodes each; ± is half the 95 % interval."]
    rows = []
    for name, found in study.found.items():
        paper = PAPER.get(name, (None, None, None))
        cells = (form.format(found.mean(what).estimate) for what, form in MEASURES.items())
        published = ("–" if value is None else f"{value:,.2f}".removesuffix(".00") for value in paper)
        rows.append((name, _share(found), *cells, *published))
    columns = ("accuracy, %", "tokens", "latency, s", "cost, $", "calls", "paper: accuracy", "tokens", "latency, s")
    lines += table(("condition", *columns), "lrrrrrrrr", rows)
    experts = [
        (name, _share(one), f"{1000 * one.mean('usd').estimate:.2f}", f"{one.mean('seconds').estimate:.1f}")
        for name, one in study.experts.items()
    ]
    lines += table(("expert alone", "accuracy, %", "$ for 1,000 calls", "seconds"), "lrrr", experts)
    lines += expected_table("difference", study.orderings(), lambda name: 100 if "accuracy" in name else 1)
    return "\n".join(lines) + "\n"


def _share(found: ConditionResult) -> str:
    right = found.mean("right")
    return f"{100 * right.estimate:.1f} ± {100 * (right.high - right.estimate):.1f}"


def write(study: ParaManagerStudy, file: Path) -> None:
    """Write everything, question by question, to a JSON file."""
    write_whole(file, msgspec.json.encode(study) + b"\n")
