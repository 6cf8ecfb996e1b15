"""Fitting how many tokens an expert writes and how long it takes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from toolorchestra.agents.experts.answer_rows import AnswerRow
from toolorchestra.agents.experts.fit import Estimate
from toolorchestra.agents.experts.likelihood import Array
from toolorchestra.agents.experts.specification import TYPICAL_STEPS, ExpertSpec, Tokens


def fit_tokens(rows: Sequence[AnswerRow], base: ExpertSpec) -> dict[str, Estimate]:
    """Return the number of tokens: log-normal about a mean that is linear in the steps.

    The medians a + b n are fitted to the logarithms by Gauss-Newton; the mean is the median times exp(spread² / 2).
    """
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


def fit_seconds(rows: Sequence[AnswerRow], base: ExpertSpec, tokens: Mapping[str, Estimate]) -> dict[str, Estimate]:
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
