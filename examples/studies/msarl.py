"""Study of MSARL's claim: does it help that another agent reads the outputs, the longer they are and the more of them?

On chains of C programs whose outputs hide each value among stale ones of the same names, and of which some fail
(`toolorchestra.envs.sources.chains`), three systems of built-in models learn from equal numbers of moves:

    team             reasoner and helper, by nested GRPO; the helper reads one output at a time
    single           one agent that reads the outputs itself, by GRPO
    single, deleted  the same, but outputs that it has read are deleted: is it the pollution, or the other agent?

All three write the same words, and begin with the same weights: one model that has learnt all roles
(`make_start`), from teachers that make as many mistakes as leave `START` of each system's
episodes right. How skilled each is at the start is measured, and shown. Every training is a process of its own
(`toolorchestra.algos.msarl`, `toolorchestra.algos.multi_grpo`) in a folder of its own; one that is there already is
read, not trained again. See ``docs/study_msarl.md``.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
import numpy as np

from examples.studies.shared import Tick, make_panels, run_learner, table, write_page
from toolorchestra.algos.options.config_files import LEARNERS, options_of, parse_options
from toolorchestra.algos.reporting.evaluation import Scores
from toolorchestra.algos.reporting.stats import Interval, crossed_bootstrap
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import make_folder, whole_folder
from toolorchestra.toolscale.workers.units import Executor, InProcess, Unit

if TYPE_CHECKING:
    from toolorchestra.algos.options.several_agents import TrainTeam

QUESTIONS, SAMPLES = 8, 4
"""Questions of a batch of rollouts, and sampled episodes of each held-out task, by default."""
QUICK = (6, 2)
"""The same of a quick run, which has fewer cells, seeds, tasks and steps (`Plan`)."""
TEAM, SINGLE, DELETED = "team", "single", "single, deleted"
SYSTEMS = (TEAM, SINGLE, DELETED)
FAILURES = 0.2
"""Probability that a program fails."""
SPARE = 2
"""Calls beyond one a value, for programs that fail."""
START = 0.4
"""Share of the teacher's episodes that are right in the last stage of a warm start."""
PATHS, INTERPRETATIONS = 3, 3
_WORDS = 100  # tasks whose demonstrations have all words
_TOKENS_PER_LINE = 3  # of a stale value: its name, the value, the line's end


class Cell(NamedTuple):
    """A setting: tokens of an output, about, and values of a chain (C)."""

    tokens: int
    calls: int


class Plan(msgspec.Struct, frozen=True):
    """The size of a run.

    Attributes:
        tokens: Lengths of outputs.
        calls: Lengths of chains.
        tasks: Held-out tasks of each cell.
        sft_steps: Steps of the warm start, of which each seed has one for a cell.
        steps: Batches of rollouts of each training.
        seeds: Seeds, by default.
    """

    tokens: tuple[int, ...] = (25, 100, 400)
    calls: tuple[int, ...] = (1, 2, 3, 4)
    tasks: int = 120
    sft_steps: int = 1800
    steps: int = 20
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def of(self, tokens: Sequence[int], calls: Sequence[int]) -> Plan:
        """Return the plan with other lengths of outputs and chains, where some are given."""
        if any(one < 1 for one in tokens):
            raise OptionError(f"Expected outputs of at least 1 token, got {list(tokens)}.")
        if any(not 1 <= one <= FULL.calls[-1] for one in calls):
            raise OptionError(f"Expected chains of 1 to {FULL.calls[-1]} programs, got {list(calls)}.")
        return msgspec.structs.replace(self, tokens=tuple(tokens) or self.tokens, calls=tuple(calls) or self.calls)

    @property
    def trainings(self) -> list[tuple[Cell, str]]:
        """The trainings from each seed; with one program there are no old outputs to delete."""
        cells = [Cell(tokens, calls) for calls in self.calls for tokens in self.tokens]
        return [(cell, system) for cell in cells for system in SYSTEMS if system != DELETED or cell.calls > 1]


FULL = Plan()
QUICK_PLAN = Plan(tokens=(25, 100), calls=(2,), tasks=60, sft_steps=600, steps=10, seeds=(0,))


def learner_options(cell: Cell, system: str, plan: Plan, questions: int, samples: int) -> tuple[str, list[str]]:
    """Return the learner of a system and its options, but for seed, start and output."""
    calls = cell.calls + SPARE
    stale = str(round(cell.tokens / _TOKENS_PER_LINE))
    game = ["--env-options", "noise", "0", "stale", stale, "failures", str(FAILURES)]
    if system == TEAM:
        learner, messages = "msarl", 2 * cell.calls + 1
        own = [*game, "--max-calls", str(calls), "--paths", str(PATHS), "--interpretations", str(INTERPRETATIONS)]
    else:
        learner, messages = "multi-grpo", cell.calls + 1
        own = [*game, "max_calls", str(calls), "max_cycles", str(calls + 1), "helpers", "none"]
        own += ["old_outputs", "deleted" if system == DELETED else "kept", "--group-size", str(group_size(cell.calls))]
    longest = (cell.tokens + 80) * (calls + 1) + 100  # of the agent that reads all outputs
    sizes = {
        "difficulty": cell.calls,
        "sft-error": round(1 - START ** (1 / messages), 3),
        "steps": plan.steps,
        "groups": questions,
        "eval-samples": samples,
        "eval-tasks": plan.tasks,
        "max-ids": longest,
        "save-every": 0,
        "threads": 1,
    }
    given = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    return learner, ["--env", "MSARL-Custom-v0", "--source", "Chains", *own, *given]


def group_size(calls: int) -> int:
    """Return the size of a single agent's group that makes at least as many moves as a team's nest.

    A nest is `PATHS` paths up to the last interpretation, 2C - 1 messages each, which `INTERPRETATIONS` branches of two
    messages go on; a single agent's episode is C + 1 messages.
    """
    return math.ceil(PATHS * (2 * calls - 1 + 2 * INTERPRETATIONS) / (calls + 1))


def begin(cell: Cell, seed: int, folder: Path, plan: Plan) -> Path:
    """Make the start of a cell's systems unless that has been done, and return its folder."""
    start = folder / f"start-{cell.tokens}-{cell.calls}-{seed}"
    if not start.exists():
        systems = (learner_options(each, system, plan, 1, 1) for each, system in plan.trainings if each == cell)
        configs = [parse_options(options_of(learner), words) for learner, words in systems]
        make_start(cast("list[TrainTeam]", configs), start, steps=plan.sft_steps, seed=seed)
    return start


def make_start(configs: Sequence[TrainTeam], folder: Path, *, steps: int, seed: int) -> None:
    """Make a model, teach it the roles of all systems, and write it into a folder as each policy that they name.

    So no system begins with better weights than another. The demonstrations of each are as many, and with as many
    mistakes as its own `sft_error` says, which are injected in the last stage (`toolorchestra.algos.data.warm_start`).

    Args:
        configs: The options of each system's learner.
        folder: Where the policies go; learners begin with it by `start`.
        steps: Steps of the teaching.
        seed: Of everything random.
    """
    from toolorchestra.agents.builtin.model import prepare_torch
    from toolorchestra.agents.builtin.text_model import builtin_text_policy
    from toolorchestra.algos import sft
    from toolorchestra.algos.data.warm_start import staged_rows, teacher_demonstrations
    from toolorchestra.algos.multi_agent_trainer import SFT_BATCH, SFT_RATE, known_tasks
    from toolorchestra.envs.teachers import teacher_of

    prepare_torch(1)
    rng = random.Random(seed)
    envs = [config.make_env() for config in configs]
    systems = list(zip(configs, envs, strict=True))
    shown = [
        one
        for config, env in systems
        for one in teacher_demonstrations(env, teacher_of(env), known_tasks(config, env, "train")[:_WORDS], 0.0, rng)
    ]
    policy = builtin_text_policy([one.messages for one in shown], seed=seed)
    count = steps * SFT_BATCH // len(configs)
    taught = [
        staged_rows(
            config.make_env, known_tasks(config, env, "train"), policy, rows=count, error=config.sft_error, rng=rng
        )
        for config, env in systems
    ]
    rows = [row for several in zip(*taught, strict=True) for row in several]
    own = replace(configs[0], lr_scheduler_type=None, warmup_steps=None, seed=seed)
    with whole_folder(folder) as draft:
        sft.fit(policy, rows, own, output=draft / "sft", batch=SFT_BATCH, learning_rate=SFT_RATE)
        for name in {name for config, env in systems for name in config.policies(env)}:
            policy.save(draft / name)
    for env in envs:
        env.close()


def train(cell: Cell, system: str, seed: int, folder: Path, plan: Plan, questions: int, samples: int) -> Path:
    """Train a system unless that has been done, and return the folder of the run."""
    output = folder / f"{system.replace(', ', '-')}-{cell.tokens}-{cell.calls}-{seed}"
    if (output / "seconds.json").exists():
        return output
    learner, options = learner_options(cell, system, plan, questions, samples)
    options += ["--seed", str(seed), "--start", str(begin(cell, seed, folder, plan)), "--output", str(output)]
    began = time.monotonic()
    run_learner(LEARNERS[learner][0], options, output)
    (output / "seconds.json").write_text(json.dumps(time.monotonic() - began), encoding="utf-8")
    return output


class SystemRun(msgspec.Struct, frozen=True):
    """The results of a training.

    Attributes:
        sampled: Success of the sampled episodes of each held-out task, before and after.
        greedy: That of the greedy episode.
        moves: Messages of all rollouts.
        tokens: Tokens that were sampled in them.
        seconds: Real time of the training.
    """

    cell: Cell
    system: str
    seed: int
    sampled: tuple[list[float], list[float]]
    greedy: tuple[list[float], list[float]]
    moves: float
    tokens: float
    seconds: float


def read_run(cell: Cell, system: str, seed: int, folder: Path) -> SystemRun:
    """Return the run in a folder."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    batches = [line for line in lines if line["kind"] == "train" and line["phase"] != "sft"]
    files = sorted((folder / "heldout").glob("*.json"), key=lambda file: int(file.stem))
    scores = [Scores(**json.loads(file.read_bytes())) for file in (files[0], files[-1])]
    return SystemRun(
        cell,
        system,
        seed,
        (scores[0].by_task, scores[1].by_task),
        (scores[0].greedy_by_task, scores[1].greedy_by_task),
        sum(batch["moves"] for batch in batches),
        sum(value for batch in batches for name, value in batch.items() if name.endswith("_tokens")),
        json.loads((folder / "seconds.json").read_text(encoding="utf-8")),
    )


class MSARLStudy(msgspec.Struct, frozen=True):
    """What the study found: its runs, all seeds of all systems in all cells, and its plan."""

    plan: Plan
    samples: int
    runs: list[SystemRun]

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return sorted({run.seed for run in self.runs})

    def scores(self, cell: Cell, system: str, when: int, *, greedy: bool = False) -> list[list[float]]:
        """Return the success of each task under each seed, before (0) or after (1)."""
        runs = sorted((run for run in self.runs if (run.cell, run.system) == (cell, system)), key=lambda run: run.seed)
        return [(run.greedy if greedy else run.sampled)[when] for run in runs]

    def success(self, cell: Cell, system: str, when: int, *, greedy: bool = False) -> Interval:
        """Return success with its 95 % interval over seeds and tasks."""
        return crossed_bootstrap(self.scores(cell, system, when, greedy=greedy))

    def over(self, cell: Cell, one: str, other: str, when: int, *, greedy: bool = False) -> Interval:
        """Return by how much one system is above another, with its 95 % interval over seeds and tasks."""
        ones, others = (np.array(self.scores(cell, name, when, greedy=greedy)) for name in (one, other))
        return crossed_bootstrap(ones - others)

    def mean(self, cell: Cell, system: str, what: str) -> float:
        """Return the mean over seeds of an attribute of the runs."""
        return float(np.mean([getattr(run, what) for run in self.runs if (run.cell, run.system) == (cell, system)]))


def run(
    questions: int = QUESTIONS,
    samples: int = SAMPLES,
    *,
    tick: Tick = lambda: None,
    plan: Plan = FULL,
    seeds: Sequence[int] | None = None,
    runs: Path | None = None,
    executor: Executor | None = None,
) -> MSARLStudy:
    """Train each system in each cell from each seed, as far as that has not been done, and return what was found.

    The runs stay in the folder `runs`; without one they are deleted. `tick` is called after each training. The workers
    of an `executor` train side by side; they need the same folder.

    Raises:
        InUseError: Another study trains in that folder.
        OutputError: It cannot be written.
        ResumableError: A training failed; those that ended are kept.
    """
    executor = executor or InProcess()
    given = [(cell, system, seed) for seed in seeds or plan.seeds for cell, system in plan.trainings]
    found = []
    with TemporaryDirectory() as scratch, Claim.of_folder(runs or Path(scratch)):
        folder = runs or Path(scratch)
        units = (
            Unit(("training", *training), _trained, (*training, folder, plan, questions, samples)) for training in given
        )
        starts = (
            Unit(("start", cell, seed), begin, (cell, seed, make_folder(folder), plan))
            for seed in seeds or plan.seeds
            for cell in dict(plan.trainings)
        )
        list(executor.run(starts))
        for one in executor.run(units):
            found.append(one)
            tick()
    return MSARLStudy(plan, samples, found)


def _trained(cell: Cell, system: str, seed: int, folder: Path, plan: Plan, questions: int, samples: int) -> SystemRun:
    return read_run(cell, system, seed, train(cell, system, seed, folder, plan, questions, samples))


def episodes(questions: int, samples: int, plan: Plan = FULL) -> int:
    """Return the number of steps of the progress bar for a seed: trainings, whatever their size."""
    return len(plan.trainings)


COMPARISONS = ((TEAM, SINGLE), (DELETED, SINGLE), (TEAM, DELETED))
"""Pairs of systems of which the first is expected above the second by whoever holds that old outputs pollute."""


def markdown(study: MSARLStudy) -> str:
    """Return the study as a page: every system in every cell, how they compare, and how that changes with length."""
    seeds, plan = study.seeds, study.plan
    tasks = len(study.runs[0].sampled[0])
    hours = sum(run.seconds for run in study.runs) / 3600
    lines = [
        f"{tasks} held-out tasks, {study.samples} sampled episodes of each and a greedy one; {len(seeds)} "
        f"seed{'s' * (len(seeds) > 1)}; {plan.sft_steps} steps of warm start, {plan.steps} batches of rollouts; "
        f"{hours:.1f} hours of training after the common starts. 95 % intervals over "
        f"{'seeds and ' * (len(seeds) > 1)}tasks."
    ]
    rows = []
    for cell, system in plan.trainings:
        shares = [
            _percent(study.success(cell, system, when, greedy=greedy)) for greedy in (False, True) for when in (0, 1)
        ]
        used = [f"{study.mean(cell, system, what):,.0f}" for what in ("moves", "tokens")]
        rows.append((str(cell.calls), str(cell.tokens), system, *shares, *used))
    columns = ("sampled, start", "end", "greedy, start", "end", "moves", "tokens")
    lines += table(("C", "output, tokens", "system", *columns), "rrlrrrrrr", rows)
    rows = []
    for one, other in COMPARISONS:
        for cell in _cells(plan, one, other):
            found = [
                study.over(cell, one, other, when, greedy=greedy).points()
                for when, greedy in ((0, False), (1, False), (1, True))
            ]
            rows.append((f"{one}, over {other}", str(cell.calls), str(cell.tokens), *found))
    lines += table(("points", "C", "output, tokens", "sampled, start", "sampled, end", "greedy, end"), "lrrlll", rows)
    if len(plan.tokens) > 1:
        lines += table(("growth with the output, points", "C", "sampled, end", "greedy, end"), "lrll", _growth(study))
    return "\n".join(lines) + "\n"


def _growth(study: MSARLStudy) -> Iterator[tuple[str, str, str, str]]:
    """Yield by how much more a system is ahead with the longest outputs than with the shortest, for each C."""
    short, long = study.plan.tokens[0], study.plan.tokens[-1]
    for one, other in COMPARISONS:
        for calls in study.plan.calls:
            if calls == 1 and DELETED in (one, other):
                continue
            found = []
            for greedy in (False, True):
                ends = {
                    (system, tokens): np.array(study.scores(Cell(tokens, calls), system, 1, greedy=greedy))
                    for system in (one, other)
                    for tokens in (short, long)
                }
                more = ends[one, long] - ends[other, long] - ends[one, short] + ends[other, short]
                found.append(crossed_bootstrap(more).points())
            yield f"{one}, over {other}: {long} tokens over {short}", str(calls), found[0], found[1]


def _cells(plan: Plan, *systems: str) -> list[Cell]:
    """Return the cells in which all of these systems were trained."""
    known = set(plan.trainings)
    return [cell for cell in dict(plan.trainings) if all((cell, system) in known for system in systems)]


def _percent(found: Interval) -> str:
    return f"{found.estimate:.1%} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def write(study: MSARLStudy, folder: Path) -> None:
    """Write ``study.csv``, ``study.md`` and a figure to a folder (needs the extra ``train``)."""
    rows: list[Mapping[str, object]] = [
        {
            "tokens": one.cell.tokens,
            "calls": one.cell.calls,
            "system": one.system,
            "seed": one.seed,
            **{f"sampled_{when}": float(np.mean(one.sampled[n])) for n, when in enumerate(("start", "end"))},
            **{f"greedy_{when}": float(np.mean(one.greedy[n])) for n, when in enumerate(("start", "end"))},
            "moves": one.moves,
            "sampled_tokens": one.tokens,
            "seconds": one.seconds,
        }
        for one in study.runs
    ]
    write_page(folder, rows, markdown(study), {"success": _draw(study)}, "msarl")


_COLOURS = dict(zip(SYSTEMS, ("#4c72b0", "#dd8452", "#55a868"), strict=True))


def _draw(study: MSARLStudy) -> Any:
    """Draw success after training against the length of outputs, a panel for each C; greedy is dashed."""
    figure, panels = make_panels(len(study.plan.calls), 3.6, 3.2)
    for panel, calls in zip(panels, study.plan.calls, strict=True):
        for system in SYSTEMS[: 3 if calls > 1 else 2]:
            for greedy in (False, True):
                found = [study.success(Cell(tokens, calls), system, 1, greedy=greedy) for tokens in study.plan.tokens]
                errors = np.array([[one.estimate - one.low, one.high - one.estimate] for one in found]).T
                panel.errorbar(
                    study.plan.tokens,
                    [one.estimate for one in found],
                    errors,
                    fmt="o--" if greedy else "o-",
                    capsize=3,
                    color=_COLOURS[system],
                    label=None if greedy or panel is not panels[-1] else system,
                )
        panel.set(title=f"C = {calls}", xlabel="tokens of an output", ylim=(-0.02, 1.02))
    panels[0].set_ylabel("success on held-out tasks (greedy dashed)")
    figure.legend(fontsize="small", loc="outside right upper")
    return figure
