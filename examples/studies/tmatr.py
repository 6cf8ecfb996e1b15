"""Study of update schedules: TMATR-HRL §3.3 and §4.3–4.5 with built-in models as planner and inferencer.

From one warm start for each seed, a team is trained under several schedules, with as many updates of single agents in
each. By default the problems are those of `MathParity`, half of which can be solved in words, and the team begins with
an inferencer that writes right inputs in three of ten calls (`WEAK_START`): then tools are worth less than words, and
who learns first matters. Every training is a process of its own (`toolorchestra.algos.tmatr`) in a folder of its own;
one that is there already is read, not trained again. See ``docs/tmatr_learning.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from examples.studies.shared import Tick, legend_below, make_panels, run_learner, table, write_page
from toolorchestra.algos.options.several_agents import BOTH
from toolorchestra.algos.reporting.evaluation import Scores
from toolorchestra.algos.reporting.stats import Interval, mean_interval, paired_bootstrap
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.svg_themes import SERIES
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

QUESTIONS = 16
"""Questions of a batch of rollouts, by default."""
SAMPLES = 4
"""Sampled episodes of each held-out task after each stage, by default."""
QUICK = (8, 2)
"""The same of a quick run."""
SEEDS, QUICK_SEEDS = (0, 1, 2, 3, 4), (0,)
"""Seeds of the study, and of a quick run."""
WEAK_START: tuple[str, ...] = (
    *("--env", "TMATR-Custom-v0", "--source", "MathParity", "--env-options", "max_turns", "2"),
    *("--sft-steps", "80", "--sft-error", "0", "--sft-errors", "DECIDE", "0.5", "EXECUTE", "0.7"),
    *("--eval-tasks", "40", "--stage-steps", "6"),
)
"""Options of the learner: problems, and a team that calls a tool in half of the episodes and seldom with success.

There are turns for one call and an answer, so a failed call cannot be made good by a guess.
"""
INFERENCER_FIRST, PLANNER_FIRST, ALTERNATING = "inferencer first", "planner first", "alternating"
SCHEDULES: Mapping[str, tuple[str, ...]] = {
    INFERENCER_FIRST: ("inferencer", "planner", "inferencer", "planner"),
    PLANNER_FIRST: ("planner", "inferencer", "planner", "inferencer"),
    ALTERNATING: ("inferencer", "planner", "inferencer", "planner"),
    "planner only": ("planner",) * 4,
    "inferencer only": ("inferencer",) * 4,
    "joint": (BOTH,) * 2,
    "joint, twice the updates": (BOTH,) * 4,
}
"""Who learns, stage by stage. A joint stage makes two updates where another makes one: ``joint`` has as many updates as
those before it, from half of their rollouts; the last one has as many rollouts, and twice the updates."""
COMPARED = (INFERENCER_FIRST, PLANNER_FIRST, "joint")
"""The schedules of the study."""
KINDS = (ALTERNATING, "planner only", "inferencer only", "joint", "joint, twice the updates")
"""Those that ``benchmarks/tmatr.py`` compares on `Math` with a skilled team."""
MEASURES = {"success": "{:.1%}", "greedy": "{:.1%}", "reward": "{:.3f}", "calling": "{:.0%}", "calls": "{:.2f}"}
"""Columns of a stage in the table, and how it is written."""


def train(
    schedule: str,
    seed: int,
    folder: Path,
    *,
    questions: int = QUESTIONS,
    samples: int = SAMPLES,
    more: Sequence[str] = (),
) -> Path:
    """Train a team under one of `SCHEDULES` unless that has been done, and return the folder of the run.

    The seed is that of everything random; schedules of one seed begin with the same team. Sizes are the `questions` of
    a batch of rollouts and the sampled episodes of each held-out task (`samples`); `more` has further options of the
    learner, as on its command line.
    """
    output = folder / f"{schedule.replace(',', '').replace(' ', '-')}-{seed}"
    if (output / "stages.json").exists():
        return output
    options = ["--schedule", *SCHEDULES[schedule], "--seed", str(seed), "--output", str(output), "--save-every", "0"]
    options += ["--groups", str(questions), "--eval-samples", str(samples), *more]
    first = next((run for run in sorted(folder.glob(f"*-{seed}")) if (run / "stages.json").exists()), None)
    if first is not None:
        options += ["--start", str(first / "start")]
    run_learner("tmatr", options, output)
    return output


class TrainingRun(msgspec.Struct, frozen=True):
    """The results of a training, from one seed under one schedule.

    Attributes:
        stages: The report of each stage; see `toolorchestra.algos.tmatr.report`.
        by_task: Success on each held-out task after each stage.
        updates: Updates of single agents made up to the end of each stage.
        rewards: Mean reward of each batch of rollouts.
    """

    schedule: str
    seed: int
    stages: list[dict[str, Any]]
    by_task: list[list[float]]
    updates: list[int]
    rewards: list[float]


def read_run(schedule: str, seed: int, folder: Path) -> TrainingRun:
    """Return the run in a folder."""
    stages = json.loads((folder / "stages.json").read_text(encoding="utf-8"))
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    batches = [line for line in lines if (line["phase"], line["kind"]) == ("tmatr", "train")]
    files = [folder / "heldout" / f"{stage['step']}.json" for stage in stages]
    scores = [msgspec.json.decode(file.read_bytes(), type=Scores) for file in files]
    return TrainingRun(
        schedule,
        seed,
        stages,
        [one.by_task for one in scores],
        [round(sum(batch["updates"] for batch in batches if batch["step"] <= stage["step"])) for stage in stages],
        [batch["reward"] for batch in batches],
    )


class TMATRStudy(msgspec.Struct, frozen=True):
    """What the study found: its runs, all seeds of all schedules."""

    runs: list[TrainingRun]

    @property
    def schedules(self) -> list[str]:
        """The schedules that were run, in the order of `SCHEDULES`."""
        there = {run.schedule for run in self.runs}
        return [name for name in SCHEDULES if name in there]

    def of(self, schedule: str) -> list[TrainingRun]:
        """Return the runs of a schedule, by seed."""
        return sorted((run for run in self.runs if run.schedule == schedule), key=lambda run: run.seed)

    def by_task(self, schedule: str, stage: int) -> list[float]:
        """Return the success on each held-out task after a stage, as mean over seeds."""
        return [float(value) for value in np.mean([run.by_task[stage] for run in self.of(schedule)], axis=0)]

    def mean(self, schedule: str, stage: int, what: str) -> float:
        """Return the mean over seeds of what the report of a stage says."""
        return float(np.mean([run.stages[stage][what] for run in self.of(schedule)]))

    def gain(self, schedule: str, stage: int = -1) -> Interval:
        """Return by how much success exceeds that of the start, with its 95 % interval over tasks."""
        return paired_bootstrap(self.by_task(schedule, stage), self.by_task(schedule, 0))

    def over(self, other: str) -> Interval:
        """Return by how much the first schedule ends above another, with its 95 % interval over tasks."""
        return paired_bootstrap(self.by_task(self.schedules[0], -1), self.by_task(other, -1))

    def over_seeds(self, what: str, schedule: str, stage: int = -1) -> Interval:
        """Return the mean of a measure after a stage, with its 95 % interval over seeds."""
        return mean_interval([run.stages[stage][what] for run in self.of(schedule)])


def run(
    questions: int = QUESTIONS,
    samples: int = SAMPLES,
    *,
    tick: Tick = lambda: None,
    seeds: Sequence[int] = (0,),
    schedules: Sequence[str] = COMPARED,
    runs: Path | None = None,
    more: Sequence[str] = WEAK_START,
    executor: Executor | None = None,
) -> TMATRStudy:
    """Train under each schedule from each seed, as far as that has not been done, and return what was found.

    The runs stay in the folder `runs`; without one they are deleted. The other options are those of `train` (`more` is
    by default the setting of the study); `tick` is called after each training. The workers of an `executor` train side
    by side, each a team; they need the same folder.

    Raises:
        InUseError: Another study trains in that folder.
        OutputError: It cannot be written.
        ResumableError: A training failed; those that ended are kept.
    """
    executor = executor or InProcess()
    found: dict[tuple[int, str], TrainingRun] = {}
    with TemporaryDirectory() as scratch, Claim.of_folder(runs or Path(scratch)):
        folder = runs or Path(scratch)
        # the first training of a seed makes the team that its others begin with
        for chosen in (schedules[:1], schedules[1:]):
            trainings = [(seed, name) for seed in seeds for name in chosen]
            units = (
                Unit(("training", name, seed), _trained, (name, seed, folder, questions, samples, more))
                for seed, name in trainings
            )
            for training, run_found in zip(trainings, executor.run(units), strict=True):
                found[training] = run_found
                tick()
    return TMATRStudy([found[seed, name] for seed in seeds for name in schedules])


def _trained(schedule: str, seed: int, folder: Path, questions: int, samples: int, more: Sequence[str]) -> TrainingRun:
    return read_run(schedule, seed, train(schedule, seed, folder, questions=questions, samples=samples, more=more))


def episodes(questions: int, samples: int) -> int:
    """Return the number of steps of the progress bar for a seed: trainings, whatever their size."""
    return len(COMPARED)


def markdown(study: TMATRStudy) -> str:
    """Return the study as a page: a table of all stages, and how the schedules compare."""
    seeds = sorted({run.seed for run in study.runs})
    lines = [
        f"{len(study.runs[0].by_task[0])} held-out tasks; means over {len(seeds)} seed{'s' * (len(seeds) > 1)}, "
        "95 % intervals over tasks."
    ]
    stages = []
    for name in study.schedules:
        for stage, row in enumerate(study.of(name)[0].stages):
            updates = np.mean([run.updates[stage] for run in study.of(name)])
            success, *others = (form.format(study.mean(name, stage, what)) for what, form in MEASURES.items())
            who = (name, str(stage), row["learner"] or "start", f"{updates:.0f}")
            stages.append((*who, success, study.gain(name, stage).points(), *others))
    columns = ("updates", "pass@1", "over the start, points", "greedy", "reward", "with tools", "tool calls")
    lines += table(("schedule", "stage", "who learns", *columns), "l" * 10, stages)
    rows = []
    for name in study.schedules:
        gains = ", ".join(f"{100 * run.stages[-1]['gain']:+.1f}" for run in study.of(name))
        rows.append((f"{name}, over the start", study.gain(name).points(), gains))
    first, *others = study.schedules
    rows += [(f"{first}, over {name}", study.over(name).points(), "") for name in others]
    lines += table(("after the last stage", "points", "of the seeds"), "lll", rows)
    if len(seeds) > 1:
        shown = ("success", "calling")
        shares = [[name, *(_share(study.over_seeds(what, name)) for what in shown)] for name in study.schedules]
        lines += table(("after the last stage, 95 % intervals over seeds", "pass@1", "with tools"), "lll", shares)
    return "\n".join(lines) + "\n"


def _share(found: Interval) -> str:
    """Return a share with its interval, cut to what a share can be."""
    low, high = max(0.0, found.low), min(1.0, found.high)
    return f"{found.estimate:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def write(study: TMATRStudy, folder: Path) -> None:
    """Write ``study.csv``, ``study.md`` and three figures to a folder (needs the extra ``train``)."""
    rows = [
        {"schedule": run.schedule, "seed": run.seed, "updates": updates, **stage}
        for run in study.runs
        for stage, updates in zip(run.stages, run.updates, strict=True)
    ]
    write_page(folder, rows, markdown(study), figures(study), SALT)


SALT = "tmatr"
"""Of the names in the figures' files."""


def figures(study: TMATRStudy) -> dict[str, Any]:
    """Return the figures that correspond to the paper's Figures 2 to 4, by name."""
    return {"success": _draw_success(study), "tools": _draw_tools(study), "reward": _draw_reward(study)}


_COLOURS = dict(zip((*KINDS, INFERENCER_FIRST, PLANNER_FIRST), SERIES, strict=False))


def _draw_success(study: TMATRStudy) -> Any:
    """Draw Figure 2: pass@1 after each stage, against the updates made."""
    figure, (panel,) = make_panels(1, 6.6, 3.8)
    for name in study.schedules:
        runs = study.of(name)
        first = f" ({runs[0].stages[1]['learner']} first)" if name == ALTERNATING else ""
        updates = np.mean([run.updates for run in runs], axis=0)
        for one in runs:
            panel.plot(one.updates, [row["success"] for row in one.stages], color=_COLOURS[name], alpha=0.25, lw=1)
        values = [study.mean(name, stage, "success") for stage in range(len(updates))]
        panel.plot(updates, values, "o-", color=_COLOURS[name], label=f"{name}{first}")
    panel.set(xlabel="updates of single agents", ylabel="pass@1 on held-out tasks", ylim=(-0.02, 1.02))
    legend_below(figure, panel)
    return figure


def _draw_tools(study: TMATRStudy) -> Any:
    """Draw Figure 3: share of episodes with a tool call after each stage, and the change of calls beside the gain."""
    figure, (calls, change) = make_panels(2, 3.9, 3.5)
    counted = all("calling" in row for run in study.runs for row in run.stages)  # not in older records
    what = "calling" if counted else "calls"
    for name in study.schedules:
        runs = study.of(name)
        stages = range(len(runs[0].stages))
        for one in runs:
            calls.plot(stages, [row[what] for row in one.stages], color=_COLOURS[name], alpha=0.25, lw=1)
        calls.plot(stages, [study.mean(name, n, what) for n in stages], "o-", color=_COLOURS[name], label=name)
        more, gain = ([run.stages[-1][what] for run in runs] for what in ("more_calls", "gain"))
        change.scatter(more, [100 * points for points in gain], color=_COLOURS[name], label=name)
    labels = {"calling": "episodes with a tool call", "calls": "tool calls of an episode"}
    calls.set(xlabel="stage", ylabel=labels[what], ylim=(-0.02, 1.02 * max(1.0, calls.get_ylim()[1])))
    calls.set_xticks(range(max(len(run.stages) for run in study.runs)))
    change.set(xlabel="change of tool calls", ylabel="gain of pass@1, points")
    change.axhline(0, color="#999999", lw=0.8)
    change.axvline(0, color="#999999", lw=0.8)
    legend_below(figure, calls)
    return figure


def _draw_reward(study: TMATRStudy) -> Any:
    """Draw Figure 4: the reward of each batch of rollouts, under each schedule."""
    figure, panels = make_panels(len(study.schedules), 2.9, 2.7)
    for panel, name in zip(panels, study.schedules, strict=True):
        runs = study.of(name)
        for one in runs:
            panel.plot(range(1, len(one.rewards) + 1), one.rewards, color=_COLOURS[name], alpha=0.3, lw=1)
        panel.plot(
            range(1, len(runs[0].rewards) + 1), np.mean([one.rewards for one in runs], axis=0), color=_COLOURS[name]
        )
        for before, row in zip(runs[0].stages, runs[0].stages[1:], strict=False):
            panel.axvline(before["step"] + 0.5, color="#cccccc", lw=0.8)
            learner = row["learner"].replace(" and ", " and\n")
            panel.text((before["step"] + row["step"] + 1) / 2, 1.22, learner, fontsize=6, va="top", ha="center")
        panel.set(
            xlabel="batch of rollouts", ylabel="reward of rollouts", ylim=(0, 1.25), yticks=[0, 0.25, 0.5, 0.75, 1]
        )
        panel.set_title(name, fontsize="medium")
    return figure
