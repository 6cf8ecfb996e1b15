"""Fitting an expert to answers: what skills, luck, lengths and times make likely what a model was seen to do.

`read_answers` reads a JSONL file of `AnswerRow`s, real or simulated, and `fit_expert` estimates by maximum likelihood
the skill in each subject, the load, the chance to be deceived and the luck
(`toolorchestra.agents.experts.likelihood`), and the distributions of tokens and seconds (here). Not covered:
temperature (that of the answers is taken for 1), and which steps of an answer were wrong.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.likelihood import (
    MAX_OF_PAIR,
    MAX_SAMPLES,
    Array,
    ExpertPair,
    Kind,
    Numbers,
    Outcome,
    maximise,
    shared_log_likelihood,
)
from toolorchestra.agents.experts.specification import TYPICAL_STEPS, ExpertSpec, Latency, Role, Tokens
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.intervals import wilson_interval
from toolorchestra.toolscale.jsonl import read_jsonl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Z95 = 1.96
_MAX_SKILL = 0.9985
_UNKNOWN = ExpertSpec(
    provider="unknown",
    roles=("generalist",),
    price=Price(),
    latency=Latency(1.0),
    context=131_072,
    skills={"other": 0.5},
    sources={"price": "unknown", "context": "assumed"},
)
"""What is assumed of an expert of which nothing but its answers is known."""


class AnswerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One answer of one expert to one problem: a line of the file.

    Attributes:
        expert: Who answered.
        key: The problem; the same for everybody who was asked it.
        right: Whether the answer was right.
        sample: Which of this expert's answers to the problem it is.
        subject: Subject of the problem.
        steps: Steps of reasoning that it takes.
        difficulty: Difficulty of a step in logits, as far as it is known.
        notes: Steps about which the prompt held a false claim.
        tokens: Tokens written.
        seconds: Time taken.
        prompt_tokens: Tokens read.
        role: What the expert was asked as.
    """

    expert: str
    key: str
    right: bool
    sample: int = 0
    subject: str = "other"
    steps: Annotated[int, Meta(ge=1)] = 1
    difficulty: float = 0.0
    notes: Annotated[int, Meta(ge=0)] = 0
    tokens: Annotated[int, Meta(ge=1)] | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    prompt_tokens: Annotated[int, Meta(ge=0)] = 0
    role: Role | None = None

    @property
    def posed(self) -> tuple[str, int, float, int]:
        """What of it belongs to the problem: subject, steps, difficulty and notes."""
        return self.subject, self.steps, self.difficulty, self.notes

    def kind(self, context: int) -> Kind:
        """Return what its being right depends on, for an expert of this context."""
        return Kind(*self.posed, min(1.0, context / max(1, self.prompt_tokens)))


def read_answers(file: Path) -> list[AnswerRow]:
    """Return the rows of a JSONL file.

    Raises:
        OptionError: A line is no `AnswerRow`, repeats another, or poses a problem differently; names the line.
    """
    rows: list[AnswerRow] = []
    lines: dict[tuple[str, str, int], int] = {}
    posed: dict[str, tuple[int, AnswerRow]] = {}
    for number, row in read_jsonl(file, AnswerRow, "an answer"):
        first = lines.setdefault((row.expert, row.key, row.sample), number)
        if first != number:
            raise OptionError(
                f"{file}:{number}: expected one row for sample {row.sample} of {row.expert} on {row.key!r}; line "
                f"{first} is one already. Number the samples."
            )
        before, like = posed.setdefault(row.key, (number, row))
        if like.posed != row.posed:
            raise OptionError(
                f"{file}:{number}: expected {row.key!r} to be what it is in line {before} (subject, steps, difficulty, "
                f"notes: {like.posed}), got {row.posed}. Give another problem another key."
            )
        rows.append(row)
    if not rows:
        raise OptionError(f"{file} holds no answer.")
    return rows


class Estimate(msgspec.Struct, frozen=True):
    """A figure, and what the answers tell of it.

    Attributes:
        value: The figure.
        low: Lower end of its 95 % interval.
        high: Upper end.
        fitted: Whether the answers tell it; else it was taken as given.
    """

    value: float
    low: float
    high: float
    fitted: bool = True

    @classmethod
    def given(cls, value: float) -> Estimate:
        """Return a figure of which the answers tell nothing."""
        return cls(value, value, value, fitted=False)

    @classmethod
    def about(cls, value: float, error: float) -> Estimate:
        """Return a figure that is at least 0, with its standard error."""
        return cls(float(value), float(max(0.0, value - _Z95 * error)), float(value + _Z95 * error))


class SkillCell(msgspec.Struct, frozen=True):
    """The answers to problems of one subject and length.

    Attributes:
        subject: The subject.
        steps: The length.
        right: Right answers.
        answers: All answers.
        predicted: Share that the fit expects to be right.
        interval: Wilson's 95 % interval of the observed share, as if answers were independent.
    """

    subject: str
    steps: int
    right: int
    answers: int
    predicted: float
    interval: tuple[float, float]


class Fit(msgspec.Struct, frozen=True):
    """What the answers of an expert tell of it.

    Attributes:
        name: The expert.
        answers: Answers that were used.
        problems: Problems that they answer.
        estimates: Every figure, by the path of its field in a catalogue (``skills.math``, ``load``, ``tokens.spread``),
            and ``shared_noise``.
        log_likelihood: Of the right and wrong answers.
        cells: Observed and predicted shares.
        remarks: What could not be told, and why.
    """

    name: str
    answers: int
    problems: int
    estimates: dict[str, Estimate]
    log_likelihood: float
    cells: list[SkillCell]
    remarks: list[str]

    def spec(self, base: ExpertSpec | None = None) -> ExpertSpec:
        """Return an entry with the fitted figures and their sources, and all else as it is in `base`."""
        base = base or _UNKNOWN
        found = {path: one for path, one in self.estimates.items() if one.fitted and path != "shared_noise"}
        values = {path: float(f"{one.value:.4g}") for path, one in found.items()}

        def inner(field: str) -> dict[str, float]:
            return {path.removeprefix(f"{field}."): v for path, v in values.items() if path.startswith(f"{field}.")}

        latency = inner("latency")
        by_role = {path.removeprefix("by_role."): latency.pop(path) for path in list(latency) if "." in path}
        source = f"fitted to {self.answers:,} answers to {self.problems:,} problems"
        kept = {
            field: text
            for field, text in base.sources.items()
            if not any(path == field or path.startswith(f"{field}.") for path in found)
        }
        skills = inner("skills")
        if base is _UNKNOWN:
            skills.setdefault("other", min(skills.values()))
        return msgspec.structs.replace(
            base,
            skills=base.skills | skills,
            tokens=msgspec.structs.replace(base.tokens, **inner("tokens")),
            latency=msgspec.structs.replace(base.latency, **latency, by_role=base.latency.by_role | by_role),
            **{field: values[field] for field in ("load", "deceived", "own_noise") if field in values},
            sources=kept | dict.fromkeys(found, source),
        )

    def entry(self, base: ExpertSpec | None = None, *, new: bool = False) -> dict[str, Any]:
        """Return what a catalogue file has to say of it.

        Args:
            base: Its entry so far, of which only what is fitted has to be said; all of an expert without one.
            new: `base` is the entry of another, so that all has to be said.
        """
        fitted: dict[str, Any] = msgspec.to_builtins(self.spec(base))
        return _changes({} if base is None or new else msgspec.to_builtins(base), fitted)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is new or different, object by object."""
    found = {}
    for key, value in after.items():
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            value = _changes(before[key], value)
            if value:
                found[key] = value
        elif key not in before or before[key] != value:
            found[key] = value
    return found


def fit_expert(
    rows: Sequence[AnswerRow], name: str, base: ExpertSpec | None = None, *, shared_noise: float = 0.2
) -> Fit:
    """Return what an expert's answers tell of it.

    Args:
        rows: Answers; those of others to the same problems tell what luck is shared.
        name: The expert.
        base: Its entry so far: its context is taken as known, and so is all that the answers do not tell.
        shared_noise: What luck is taken to be shared where no other expert answered the same problems.

    Raises:
        UnknownNameError: No row is of that expert.
    """
    mine = [row for row in rows if row.expert == name]
    if not mine:
        raise UnknownNameError("expert among the answers", name, {row.expert for row in rows})
    base = base or _UNKNOWN
    numbers = _maximise(mine, base, shared_noise)
    skills = len(numbers.subjects)
    estimates = {f"skills.{subject}": _share(numbers, at) for at, subject in enumerate(numbers.subjects)}
    load, error = float(numbers.values[skills]), float(numbers.errors[skills])
    estimates["load"] = Estimate.about(load, error) if skills in numbers.free else Estimate.given(base.load)
    estimates["deceived"] = _share(numbers, skills + 1)
    shared = _fit_shared(rows, mine, base, numbers, shared_noise)
    luck = _share(numbers, skills + 2)
    estimates["own_noise"] = Estimate.given(base.own_noise)
    if luck.fitted:
        taken = shared.value if shared else min(shared_noise, luck.value)
        value, low, high = (max(0.0, part - taken) for part in (luck.value, luck.low, luck.high))
        estimates["own_noise"] = Estimate(value, low, high)
    estimates["shared_noise"] = shared or Estimate.given(shared_noise)
    estimates |= _fit_tokens(mine, base)
    estimates |= _fit_seconds(mine, base, estimates)
    remarks: list[str] = []
    for path, one in estimates.items():
        if not one.fitted:
            remarks.append(f"{path}: taken as {one.value:g}; {_NEEDED[path.partition('.')[0]]}.")
        elif path.startswith("skills.") and not 1 - _MAX_SKILL < one.value < _MAX_SKILL:
            remarks.append(f"{path}: at its bound; the answers are (nearly) all right or all wrong.")
    return Fit(
        name,
        len(mine),
        len({row.key for row in mine}),
        estimates,
        numbers.log_likelihood,
        _cells(mine, base, numbers),
        remarks,
    )


_NEEDED = {
    "load": "problems of different lengths in one subject would tell",
    "deceived": "problems with notes would tell",
    "own_noise": "several samples of a problem would tell",
    "shared_noise": "answers of another expert to the same problems would tell",
    "tokens": "tokens of problems of different lengths would tell",
    "latency": "seconds would tell",
}


def _share(numbers: Numbers, at: int) -> Estimate:
    """Return the estimate of a share that was fitted as its logit."""
    value, error = float(numbers.values[at]), float(numbers.errors[at])
    middle, low, high = (1 / (1 + math.exp(-end)) for end in (value, value - _Z95 * error, value + _Z95 * error))
    return Estimate(middle, low, high) if at in numbers.free else Estimate.given(middle)


def _maximise(rows: Sequence[AnswerRow], base: ExpertSpec, shared_noise: float) -> Numbers:
    """Return what makes an expert's right and wrong answers likeliest."""
    tries: dict[tuple[str, Kind], list[bool]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.sample):
        tries[row.key, row.kind(base.context)].append(row.right)
    outcomes = []
    for (_, kind), rights in tries.items():
        for start in range(0, len(rights), MAX_SAMPLES):
            lot = rights[start : start + MAX_SAMPLES]
            outcomes.append(Outcome(kind, len(lot), sum(lot)))
    start_luck = min(0.9, max(0.05, base.own_noise + shared_noise))
    return maximise(outcomes, load=base.load, deceived=min(0.99, max(0.01, base.deceived)), luck=start_luck)


def _fit_shared(
    rows: Sequence[AnswerRow], mine: Sequence[AnswerRow], base: ExpertSpec, numbers: Numbers, shared_noise: float
) -> Estimate | None:
    """Return the luck that this expert shares with the others who answered the same problems; None if nobody did.

    The interval is that within which the log-likelihood drops by less than 1.92, pairs of experts taken as independent.
    """
    tallies: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: row.sample):
        tallies[row.expert][row.key].append(row.right)
    kinds = {row.key: row.kind(base.context) for row in mine}
    ours = tallies.pop(mine[0].expert)
    sides: list[tuple[Numbers, list[ExpertPair]]] = []
    for other, theirs in tallies.items():
        common = [key for key in ours if key in theirs]
        if common:
            fitted = _maximise([row for row in rows if row.expert == other], base, shared_noise)
            sides.append((fitted, [ExpertPair(kinds[key], _tally(ours[key]), _tally(theirs[key])) for key in common]))
    if not sides:
        return None
    most = min(numbers.luck, *(fitted.luck for fitted, _ in sides))
    grid = np.linspace(0.0, most, 41)
    found = np.array(
        [sum(shared_log_likelihood(x, numbers, fitted, pairs) for fitted, pairs in sides) for x in grid.tolist()]
    )
    likely = grid[found >= found.max() - 1.92]
    return Estimate(float(grid[found.argmax()]), float(likely[0]), float(likely[-1]))


def _tally(rights: Sequence[bool]) -> tuple[int, int]:
    lot = rights[:MAX_OF_PAIR]
    return len(lot), sum(lot)


def _fit_tokens(rows: Sequence[AnswerRow], base: ExpertSpec) -> dict[str, Estimate]:
    """Return the number of tokens: log-normal about a mean that is linear in the steps.

    The medians a + b n are fitted to the logarithms by Gauss-Newton; the mean is the median times exp(spread² / 2).
    """
    counted = [row for row in rows if row.tokens is not None]
    steps = np.array([float(row.steps) for row in counted])
    logs = np.array([math.log(row.tokens or 1) for row in counted])
    if not counted:
        figures = msgspec.structs.asdict(base.tokens)
        return {f"tokens.{field}": Estimate.given(value) for field, value in figures.items()}
    if len(set(steps.tolist())) == 1:
        spread = _spread(logs - logs.mean())
        mean = math.exp(float(logs.mean()) + spread.value**2 / 2)
        per_step = max(0.0, mean - base.tokens.overhead) / float(steps[0])
        error = mean * spread.value / math.sqrt(len(counted)) / float(steps[0])
        overhead, of_step = Estimate.given(base.tokens.overhead), Estimate.about(per_step, error)
    else:
        line, covariance = _median_line(steps, logs)
        spread = _spread(logs - np.log(line[0] + line[1] * steps))
        rise = math.exp(spread.value**2 / 2)
        errors = np.sqrt(np.diag(covariance)) * rise
        overhead, of_step = (
            Estimate.about(median * rise, error) for median, error in zip(line.tolist(), errors.tolist(), strict=True)
        )
    return {"tokens.overhead": overhead, "tokens.per_step": of_step, "tokens.spread": spread}


def _median_line(steps: Array, logs: Array) -> tuple[Array, Array]:
    """Return a >= 1 and b >= 0 for which log(a + b n) is nearest to the logarithms, and their covariance."""
    least = np.array([1.0, 0.0])
    line = np.array([1.0, math.exp(float((logs - np.log(steps)).mean()))])
    best = math.inf
    for _ in range(200):
        rest = logs - np.log(line @ np.stack([np.ones_like(steps), steps]))
        slope = np.stack([np.ones_like(steps), steps], axis=1) / (line[0] + line[1] * steps)[:, None]
        moving = ~((line <= least) & (slope.T @ rest < 0))
        if (found := float((rest**2).mean())) >= best - 1e-12 or not moving.any():
            break
        best = found
        step = np.zeros(2)
        step[moving] = np.linalg.lstsq(slope[:, moving], rest, rcond=None)[0]
        line = np.maximum(least, line + step)
    return line, best * np.linalg.inv(slope.T @ slope + 1e-12 * np.eye(2))


def _spread(rest: Array) -> Estimate:
    spread = float(np.sqrt((rest**2).mean()))
    return Estimate.about(spread, spread / math.sqrt(2 * len(rest)))


def _fit_seconds(rows: Sequence[AnswerRow], base: ExpertSpec, tokens: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the seconds of a call of typical length, in each role: log-normal, in proportion to the tokens."""
    length = Tokens(max(1.0, tokens["tokens.overhead"].value), tokens["tokens.per_step"].value)
    typical = length.mean(TYPICAL_STEPS)
    rates: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.seconds is not None:
            rates[row.role or ""].append(math.log(row.seconds / (row.tokens or length.mean(row.steps))))
    if not rates:
        return {
            "latency.mean": Estimate.given(base.latency.mean),
            "latency.spread": Estimate.given(base.latency.spread),
        }
    centres = {role: sum(logs) / len(logs) for role, logs in rates.items()}
    spread = _spread(np.array([log - centres[role] for role, logs in rates.items() for log in logs]))
    variance = spread.value**2
    counted = sum(row.tokens is not None for row in rows)
    # the typical length is estimated too, with a line of two figures: mean leverage 2 / n
    of_length = 2 * tokens["tokens.spread"].value ** 2 / counted if counted else 0.0
    found = {"latency.spread": spread}
    everyone = [log for logs in rates.values() for log in logs]
    for role, logs in ({"": everyone} | rates).items():
        mean = typical * math.exp(sum(logs) / len(logs) + variance / 2)
        error = mean * math.sqrt((variance + variance**2 / 2) / len(logs) + of_length)
        found[f"latency.by_role.{role}" if role else "latency.mean"] = Estimate.about(mean, error)
    return found


def _cells(rows: Sequence[AnswerRow], base: ExpertSpec, numbers: Numbers) -> list[SkillCell]:
    cells: dict[tuple[str, int], list[AnswerRow]] = defaultdict(list)
    for row in rows:
        cells[row.subject, row.steps].append(row)
    return [
        SkillCell(
            subject,
            steps,
            right := sum(row.right for row in found),
            len(found),
            sum(numbers.share(row.kind(base.context)) for row in found) / len(found),
            wilson_interval(right, len(found)),
        )
        for (subject, steps), found in sorted(cells.items())
    ]


def plot_fit(fit: Fit) -> Figure:
    """Return the figure of a fit: observed accuracy with Wilson's intervals and what the fit predicts, by length.

    Raises:
        OptionError: Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError:
        raise OptionError(
            "A plot needs matplotlib, which is not installed: pip install 'toolorchestra[train]'."
        ) from None
    subjects = sorted({cell.subject for cell in fit.cells})
    columns = min(4, len(subjects))
    lines = -(-len(subjects) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.8 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in list(grid.flat)[len(subjects) :]:
        axes.set_visible(False)
    for subject, axes in zip(subjects, grid.flat, strict=False):
        cells = [cell for cell in fit.cells if cell.subject == subject]
        steps = [cell.steps for cell in cells]
        shares = [cell.right / cell.answers for cell in cells]
        ends = [
            [max(0.0, share - cell.interval[0]) for share, cell in zip(shares, cells, strict=True)],
            [max(0.0, cell.interval[1] - share) for share, cell in zip(shares, cells, strict=True)],
        ]
        axes.errorbar(steps, shares, yerr=ends, fmt="o", color="black", capsize=2, markersize=4, label="observed")
        axes.plot(steps, [cell.predicted for cell in cells], "-x", color="tab:red", label="predicted")
        axes.set_title(f"{subject} ({sum(cell.answers for cell in cells):,} answers)", fontsize="medium")
        axes.set_ylim(-0.03, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    grid[0, 0].legend(fontsize="small")
    figure.supxlabel("steps of the problem")
    figure.supylabel("right answers")
    figure.suptitle(f"{fit.name}: observed and predicted accuracy")
    return figure
