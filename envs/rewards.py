"""Rewards of ToolOrchestra (§3.2 and Appendix L) as pure functions of the vector M(τ).

For the tools t_1…t_n of an episode, ``M(τ) = [calls of t_1, …, calls of t_n, outcome, -usd, -seconds]``. Money and time
are those of all models and tools, the orchestrator's own messages included.
The preference reward compares the rollouts of one task with each other, so an environment only reports
M; a learner or an evaluation, which has the whole group, computes the reward here.

Not here: how a task is verified, and how advantages become a loss (`toolorchestra.algos`).
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolorchestra.toolscale.common.errors import OptionError, unknown_name

COMPONENTS = ("outcome", "compute", "latency")
"""Names of the last three entries of M and P, in order."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Preference:
    """What a user would like optimised: an instruction for the orchestrator and the vector P behind it.

    Attributes:
        tools: Names of the tools, in the order of M.
        weights: P: one weight in [0, 1] per tool, then those of outcome, compute and latency.
        instruction: The preference in words, appended to the task's instruction.

    Raises:
        OptionError: The weights do not fit the tools, or one is not a finite number in [0, 1].

    >>> cheap = Preference.of({"outcome": 1, "compute": 0.5}, ["local_search", "python"], "Keep it cheap.")
    >>> cheap.weights
    (0.0, 0.0, 1.0, 0.5, 0.0)
    """

    tools: tuple[str, ...]
    weights: tuple[float, ...]
    instruction: str = ""

    def __post_init__(self) -> None:
        names = (*self.tools, *COMPONENTS)
        if len(self.weights) != len(names):
            raise OptionError(
                f"A preference over {len(self.tools)} tools needs {len(names)} weights (one per tool, then "
                f"{', '.join(COMPONENTS)}), got {len(self.weights)}. Give a mapping {{name: weight}} to "
                "leave the others at 0."
            )
        for name, weight in zip(names, self.weights, strict=True):
            if not 0.0 <= weight <= 1.0:  # NaN fails both comparisons
                raise OptionError(
                    f"The preference weight of {name!r} must be a finite number in [0, 1], got {weight!r}. "
                    "Divide all weights by the largest one."
                )

    @classmethod
    def of(
        cls,
        value: Preference | Mapping[str, float] | Sequence[float] | Vector,
        tools: Sequence[str],
        instruction: str = "",
    ) -> Preference:
        """Build a preference from ``{name: weight}`` (others weigh 0) or from the n + 3 numbers of P.

        A `Preference` is rearranged for ``tools``: weights of tools that are not there are left out, since a
        preference may be met with any subset of the tools it was written for.
        """
        if isinstance(value, Preference):
            known = dict(zip((*value.tools, *COMPONENTS), value.weights, strict=True))
            kept = {name: known[name] for name in (*tools, *COMPONENTS) if name in known}
            return cls.of(kept, tools, instruction or value.instruction)
        names = (*tools, *COMPONENTS)
        if not isinstance(value, Mapping):
            return cls(tuple(tools), tuple(_number("preference", weight) for weight in value), instruction)
        for name in value:
            if name not in names:
                raise OptionError(unknown_name("preference entry", str(name), names))
        return cls(tuple(tools), tuple(_number(name, value.get(name, 0.0)) for name in names), instruction)

    @property
    def vector(self) -> Vector:
        """P as an array, shape ``(n + 3,)``."""
        return np.array(self.weights, dtype=np.float64)


def outcome_reward(solved: bool) -> float:
    """Return r_outcome (Eq. 1): 1 if the task is solved, else 0."""
    return 1.0 if solved else 0.0


def compute_reward(usd: float) -> float:
    """Return r_compute = -$(τ): minus the money spent, in US dollars."""
    return -_magnitude("usd", usd)


def latency_reward(seconds: float) -> float:
    """Return r_latency = -Clock(τ): minus the time taken, in seconds."""
    return -_magnitude("seconds", seconds)


def measure(calls: Mapping[str, int], tools: Sequence[str], *, solved: bool, usd: float, seconds: float) -> Vector:
    """Return M(τ), shape ``(n + 3,)``.

    Args:
        calls: Number of calls by tool name; names that are not in ``tools`` have no entry in M.
        tools: The available tools, in the order of M.
        solved: Whether the task was solved.
        usd: Money spent.
        seconds: Time taken on the virtual clock.

    >>> measure({"local_search": 2}, ["local_search", "python"], solved=True, usd=0.25, seconds=8.0).tolist()
    [2.0, 0.0, 1.0, -0.25, -8.0]
    """
    m = np.zeros(len(tools) + 3)  # making an array of a list takes longer
    places = _places(tuple(tools))
    for tool, count in calls.items():
        if tool in places:
            m[places[tool]] = count
    m[-3], m[-2], m[-1] = outcome_reward(solved), compute_reward(usd), latency_reward(seconds)
    return m


@functools.lru_cache(maxsize=256)  # every episode asks for them
def _places(tools: tuple[str, ...]) -> dict[str, int]:
    return {tool: place for place, tool in enumerate(tools)}


def normalise(batch: ArrayLike) -> Vector:
    """Scale each entry of M to [0, 1] over the rollouts of one task; an entry in which all agree is 0.

    Args:
        batch: M of every rollout, shape ``(rollouts, n + 3)``.
    """
    m = _matrix(batch)
    if len(m) == 0:
        return m
    low = m.min(axis=0)
    span = m.max(axis=0) - low
    scaled: Vector = np.divide(m - low, span, out=np.zeros_like(m), where=span > 0)
    return scaled


def preference_rewards(
    batch: ArrayLike, preference: Preference | ArrayLike, keep: Sequence[bool] | NDArray[np.bool_] | None = None
) -> Vector:
    """Return R(τ) = M_norm(τ) · P for solved rollouts, else 0 (Eq. 2), shape ``(rollouts,)``.

    Args:
        batch: M of every rollout of one task, shape ``(rollouts, n + 3)``.
        preference: P over the same tools as M, as a `Preference` or as its n + 3 numbers.
        keep: False for rollouts that an infrastructure or judge error ended: they shape no minimum or
            maximum, and their reward is NaN, which `toolorchestra.algos.loss.advantages` leaves out.

    Returns:
        Rewards in [0, sum of P].
    """
    rows = np.asarray(batch, dtype=np.float64)
    kept = np.ones(len(rows), dtype=np.bool_) if keep is None else np.asarray(keep, dtype=np.bool_)
    if kept.shape != (len(rows),):
        raise OptionError(f"keep needs one flag for each of the {len(rows)} rollouts, got shape {kept.shape}.")
    p = _weights(preference)
    m = _matrix(rows[kept], p)
    rewards = np.full(len(rows), np.nan)
    rewards[kept] = np.where(_solved(m), normalise(m) @ p, 0.0)
    return rewards


class EvaluationUnits(NamedTuple):
    """The units of money and time in which the floor of Eq. 5 is 1: by default the paper's, cents and minutes.

    Attributes:
        usd: US dollars of a unit of money.
        seconds: Seconds of a unit of time.

    >>> EvaluationUnits.fitting([[1, -0.0031, -0.5]], [[1, -0.0042, -0.8]])
    EvaluationUnits(usd=0.001, seconds=0.1)
    """

    usd: float = 0.01
    seconds: float = 60.0

    @classmethod
    def fitting(cls, *batches: ArrayLike) -> EvaluationUnits:
        """Return units so small that every M of `batches` costs and takes at least one of each: powers of ten.

        In such units a cheaper or quicker rollout always scores better. An entry that is 0 is left out; the paper's
        units are kept where they are small enough. The units of results that are compared must be the same.

        Args:
            batches: M of rollouts and of baselines, each of shape ``(rollouts, n + 3)``.
        """
        spent = np.concatenate([np.abs(_matrix(np.atleast_2d(batch))[:, -2:]) for batch in batches])
        units = []
        for column, unit in zip(spent.T, cls(), strict=True):
            least = min(column[column > 0], default=unit)
            units.append(unit if least >= unit else 10.0 ** math.floor(math.log10(least)))
        return cls(*units)


PAPER_UNITS = EvaluationUnits()
"""Cents and minutes, as in ToolOrchestra Table 1."""


def evaluation_normalise(m: ArrayLike, baseline: ArrayLike, units: EvaluationUnits = PAPER_UNITS) -> Vector:
    """Set M of a checkpoint against M_0 of the starting checkpoint on the same task (Eq. 5).

    Tool counts and outcome become ``M / max(1, M_0)``. Money and time, taken as positive magnitudes, become
    ``M_0 / max(1, M)`` in their units: the less the checkpoint spends, the higher. As in the paper, spending less than
    one unit earns nothing more; a warning says so where it hides a difference to the baseline.

    Args:
        m: M of the checkpoint, shape ``(n + 3,)``.
        baseline: M_0, of the same tools.
        units: Units of money and time; what costs less than a cent needs smaller ones (`EvaluationUnits.fitting`).

    >>> half, whole = [1, -0.05, -90], [1, -0.10, -180]  # five cents and 1.5 minutes against ten and three
    >>> evaluation_normalise(half, whole).tolist()
    [1.0, 2.0, 2.0]
    """
    if not all(math.isfinite(unit) and unit > 0 for unit in units):
        raise OptionError(f"Units must be finite numbers above 0, got {units}. By default they are {PAPER_UNITS}.")
    ours, theirs = _matrix(np.atleast_2d(m))[0], _matrix(np.atleast_2d(baseline))[0]
    if ours.shape != theirs.shape:
        raise OptionError(
            f"M has {len(ours)} entries but its baseline has {len(theirs)}. Run both with the same tools."
        )
    more = ours[:-2] / np.maximum(1.0, theirs[:-2])
    spent, before = np.abs(ours[-2:]) / units, np.abs(theirs[-2:]) / units
    for name, mine, other, unit in zip(("Cost", "Time"), spent, before, units, strict=True):
        if mine != other and max(mine, other) < 1:
            warnings.warn(
                f"{name} of {mine * unit:g} and of {other * unit:g} in the baseline are both below the unit of {unit:g}"
                ", so that less earns nothing more (Eq. 5). Give units=EvaluationUnits.fitting(all M, all baselines).",
                stacklevel=2,
            )
    return np.concatenate([more, before / np.maximum(1.0, spent)])


def evaluation_reward(
    m: ArrayLike, baseline: ArrayLike, preference: Preference | ArrayLike, units: EvaluationUnits = PAPER_UNITS
) -> float:
    """Return R^e(τ) of one task (Eq. 6): normalised M · P if solved, else 0.

    A benchmark's score is the sum over its tasks, all in the same `units`.
    """
    p = _weights(preference)
    ours = _matrix(np.atleast_2d(m), p)
    normalised = evaluation_normalise(ours[0], baseline, units)
    return float(normalised @ p) if _solved(ours)[0] else 0.0


def _solved(m: Vector) -> NDArray[np.bool_]:
    solved: NDArray[np.bool_] = m[:, -3] > 0.5
    return solved


def _weights(preference: Preference | ArrayLike) -> Vector:
    if isinstance(preference, Preference):
        return preference.vector
    numbers = np.asarray(preference, dtype=np.float64).ravel()
    tools = [f"tool {i + 1}" for i in range(len(numbers) - len(COMPONENTS))]
    return Preference.of(numbers, tools).vector


def _matrix(batch: ArrayLike, weights: Vector | None = None) -> Vector:
    m = np.asarray(batch, dtype=np.float64)
    if m.ndim != 2 or m.shape[1] < len(COMPONENTS):
        raise OptionError(
            f"M must have shape (rollouts, n + 3), got {m.shape}. Stack the vectors that `measure` returns."
        )
    if weights is not None and m.shape[1] != len(weights):
        raise OptionError(
            f"M has {m.shape[1]} entries but the preference has {len(weights)}. "
            "Build it for these tools with Preference.of(value, tools)."
        )
    if not np.isfinite(m).all():
        raise OptionError("M must be finite, got NaN or infinity. Leave failed rollouts out with keep=….")
    return m


def _magnitude(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise OptionError(f"{name} must be a finite number of at least 0, got {value!r}.")
    return float(value)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise OptionError(f"The weight of {name!r} must be a number in [0, 1], got {value!r}.")
    return float(value)
