"""Fitting an expert to answers by maximum likelihood.

`fit_expert` estimates the skill in each subject, the load, the chance to be deceived and the shares of noise
(`toolorchestra.agents.experts.likelihood`), and the distributions of tokens and seconds. Not covered: temperature (the
answers are taken as sampled at 1), and which steps of an answer were wrong.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from toolorchestra.agents.experts.evaluation import AnswerRow
from toolorchestra.agents.experts.fit import UNKNOWN_EXPERT, Z95, Estimate, Fit, SkillCell
from toolorchestra.agents.experts.likelihood import (
    MAX_OF_PAIR,
    MAX_SAMPLES,
    Array,
    FitParameters,
    Kind,
    Outcome,
    maximise,
    shared_log_likelihood,
)
from toolorchestra.agents.experts.specification import TYPICAL_STEPS, ExpertSpec, Tokens
from toolorchestra.toolscale.common.errors import UnknownNameError
from toolorchestra.toolscale.common.intervals import wilson_interval

_MAX_SKILL = 0.9985


def fit_expert(
    rows: Sequence[AnswerRow], name: str, base: ExpertSpec | None = None, *, shared_noise: float = 0.2
) -> Fit:
    """Fit an expert to its answers.

    Args:
        rows: Answers; those of other experts to the same problems determine the share of common noise.
        name: The expert.
        base: Its entry so far, which gives its context and all that the answers do not determine.
        shared_noise: The shared noise to assume where no other expert answered the same problems.

    Raises:
        UnknownNameError: No row is of that expert.
    """
    mine = [row for row in rows if row.expert == name]
    if not mine:
        raise UnknownNameError("expert among the answers", name, {row.expert for row in rows})
    base = base or UNKNOWN_EXPERT
    numbers = _maximise(mine, base, shared_noise)
    skills = len(numbers.subjects)
    estimates = {f"skills.{subject}": _share(numbers, at) for at, subject in enumerate(numbers.subjects)}
    load, error = float(numbers.values[skills]), float(numbers.errors[skills])
    estimates["load"] = Estimate.about(load, error) if skills in numbers.free else Estimate.given(base.load)
    estimates["deceived"] = _share(numbers, skills + 1)
    shared = _fit_shared(rows, mine, base, numbers, shared_noise)
    noise = _share(numbers, skills + 2)
    estimates["own_noise"] = Estimate.given(base.own_noise)
    if noise.fitted:
        taken = shared.value if shared else min(shared_noise, noise.value)
        value, low, high = (max(0.0, part - taken) for part in (noise.value, noise.low, noise.high))
        estimates["own_noise"] = Estimate(value, low, high)
    estimates["shared_noise"] = shared or Estimate.given(shared_noise)
    estimates |= _fit_tokens(mine, base)
    estimates |= _fit_seconds(mine, base, estimates)
    problems, cells = len({row.key for row in mine}), _cells(mine, base, numbers)
    return Fit(name, len(mine), problems, estimates, numbers.log_likelihood, cells, list(_remarks(estimates)))


def _remarks(estimates: Mapping[str, Estimate]) -> Iterator[str]:
    for path, one in estimates.items():
        if not one.fitted:
            yield f"{path}: taken as {one.value:g}; {_NEEDED[path.partition('.')[0]]}."
        elif path.startswith("skills.") and not 1 - _MAX_SKILL < one.value < _MAX_SKILL:
            yield f"{path}: at its bound; the answers are (nearly) all right or all wrong."


_NEEDED = {
    "load": "estimating it needs problems of different lengths in one subject",
    "deceived": "estimating it needs problems with notes",
    "own_noise": "estimating it needs several samples of a problem",
    "shared_noise": "estimating it needs answers of another expert to the same problems",
    "tokens": "estimating it needs the tokens of problems of different lengths",
    "latency": "estimating it needs the seconds of answers",
}


def _share(numbers: FitParameters, at: int) -> Estimate:
    """Return the estimate of a share that was fitted as its logit."""
    value, width = float(numbers.values[at]), Z95 * float(numbers.errors[at])
    middle, low, high = (1 / (1 + math.exp(min(700.0, -end))) for end in (value, value - width, value + width))
    return Estimate(middle, low, high) if at in numbers.free else Estimate.given(middle)


def _kind(row: AnswerRow, context: int) -> Kind:
    """Return the kind of problem of a row, for an expert with a context of this many tokens."""
    return Kind(*row.posed, min(1.0, context / max(1, row.prompt_tokens)))


def _maximise(rows: Sequence[AnswerRow], base: ExpertSpec, shared_noise: float) -> FitParameters:
    """Return the numbers under which an expert's right and wrong answers are likeliest."""
    tries: dict[tuple[str, Kind], list[bool]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.sample):
        tries[row.key, _kind(row, base.context)].append(row.right)
    outcomes = [
        Outcome(kind, len(batch), sum(batch))
        for (_, kind), rights in tries.items()
        for start in range(0, len(rights), MAX_SAMPLES)
        if (batch := rights[start : start + MAX_SAMPLES])
    ]
    start_noise = min(0.9, max(0.05, base.own_noise + shared_noise))
    return maximise(outcomes, load=base.load, deceived=min(0.99, max(0.01, base.deceived)), noise=start_noise)


def _fit_shared(
    rows: Sequence[AnswerRow], mine: Sequence[AnswerRow], base: ExpertSpec, numbers: FitParameters, shared_noise: float
) -> Estimate | None:
    """Return the noise that this expert shares with others that answered the same problems; None without others.

    The interval is that within which the log-likelihood drops by less than 1.92, pairs of experts taken as independent.
    """
    rights: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(rows, key=lambda row: row.sample):
        rights[row.expert][row.key].append(row.right)
    kinds = {row.key: _kind(row, base.context) for row in mine}
    ours = rights.pop(mine[0].expert)
    sides: list[tuple[FitParameters, list[tuple[Outcome, Outcome]]]] = []
    for other, theirs in rights.items():
        if common := [key for key in ours if key in theirs]:
            fitted = _maximise([row for row in rows if row.expert == other], base, shared_noise)
            sides.append(
                (fitted, [(_of_pair(kinds[key], ours[key]), _of_pair(kinds[key], theirs[key])) for key in common])
            )
    if not sides:
        return None
    bound = min(numbers.noise, *(fitted.noise for fitted, _ in sides))
    grid = np.linspace(0.0, bound, 41)
    found = np.array(
        [sum(shared_log_likelihood(x, numbers, fitted, pairs) for fitted, pairs in sides) for x in grid.tolist()]
    )
    likely = grid[found >= found.max() - 1.92]
    return Estimate(float(grid[found.argmax()]), float(likely[0]), float(likely[-1]))


def _of_pair(kind: Kind, rights: Sequence[bool]) -> Outcome:
    batch = rights[:MAX_OF_PAIR]
    return Outcome(kind, len(batch), sum(batch))


def _cells(rows: Sequence[AnswerRow], base: ExpertSpec, numbers: FitParameters) -> list[SkillCell]:
    cells: dict[tuple[str, int], list[AnswerRow]] = defaultdict(list)
    for row in rows:
        cells[row.subject, row.steps].append(row)
    return [
        SkillCell(
            subject,
            steps,
            right := sum(row.right for row in found),
            len(found),
            float(numbers.shares([_kind(row, base.context) for row in found]).mean()),
            wilson_interval(right, len(found)),
        )
        for (subject, steps), found in sorted(cells.items())
    ]


def _fit_tokens(rows: Sequence[AnswerRow], base: ExpertSpec) -> dict[str, Estimate]:
    """Return the number of tokens: log-normal about a mean that is linear in the steps.

    The medians a + b n are fitted to the logarithms; the mean is the median times exp(spread² / 2).
    """
    from scipy.optimize import curve_fit

    counted = [row for row in rows if row.tokens is not None]
    if not counted:
        figures = msgspec.structs.asdict(base.tokens)
        return {f"tokens.{field}": Estimate.given(value) for field, value in figures.items()}
    steps = np.array([float(row.steps) for row in counted])
    logs = np.array([math.log(row.tokens or 1) for row in counted])
    if len(set(steps.tolist())) == 1:
        spread = _spread(logs - logs.mean())
        mean = math.exp(float(logs.mean()) + spread.value**2 / 2)
        per_step = max(0.0, mean - base.tokens.overhead) / float(steps[0])
        error = mean * spread.value / math.sqrt(len(counted)) / float(steps[0])
        overhead, of_step = Estimate.given(base.tokens.overhead), Estimate.about(per_step, error)
    else:
        start = (1.0, math.exp(float((logs - np.log(steps)).mean())))
        line, covariance = curve_fit(_log_median, steps, logs, start, bounds=((1, 0), np.inf))
        spread = _spread(logs - _log_median(steps, *line))
        rise = math.exp(spread.value**2 / 2)
        errors = np.sqrt(np.diag(covariance)) * rise
        overhead, of_step = map(Estimate.about, (line * rise).tolist(), errors.tolist())
    return {"tokens.overhead": overhead, "tokens.per_step": of_step, "tokens.spread": spread}


def _log_median(steps: Array, overhead: float, per_step: float) -> Array:
    return np.log(overhead + per_step * steps)


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
        return {f"latency.{field}": Estimate.given(getattr(base.latency, field)) for field in ("mean", "spread")}
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
