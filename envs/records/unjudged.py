"""Whose failure it was that an episode is not solved, and how many episodes of an evaluation may have no verdict.

The rule, for environments of ours and of others, and for all who play them: what the policy wrote, or did not write
within a limit, is its own failure (``failed``), whoever has set the limit; an exception is not (``infra_error``), nor
is an error of the judge (``judge_error``). Episodes of the last two kinds are unscored, counted and shown. If there are
many, the rest is another set of tasks than the one that was to be evaluated: the evaluation has failed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from gymnasium.spaces import Text
from gymnasium.spaces.text import alphanumeric

from toolorchestra.agents.messages.reading import spoken
from toolorchestra.envs.records.episode import Episode, Outcome
from toolorchestra.toolscale.common.errors import (
    DomainError,
    OptionError,
    TaskError,
    ToolOrchestraError,
    UnknownNameError,
)

INVALID_OUTCOMES = ("infra_error", "judge_error")
"""Outcomes that say nothing about the policy: retried, and never part of a group."""
MISTAKES = (OptionError, UnknownNameError, DomainError, TaskError)
"""Errors of who has set an environment up: they end no episode, but what was begun."""
MAX_UNJUDGED = 0.01
"""The largest share of the episodes of an evaluation that may be left out."""
_UNNAMED = frozenset(alphanumeric)  # the characters of a space of text for which none were named
_LISTED = 5  # reasons
_CHARACTERS = 300  # of a reason


class EvaluationError(ToolOrchestraError):
    """Too many episodes of an evaluation were not judged."""


def named_outcome(info: Mapping[str, Any], reward: float, *, terminated: bool) -> Outcome:
    """Return the outcome of an episode of any environment: ``info["outcome"]``, where it names one.

    Otherwise it is solved if the environment itself has ended it, and not by a limit, with a reward above 0.

    >>> named_outcome({}, 1.0, terminated=True), named_outcome({}, 1.0, terminated=False)
    ('solved', 'failed')
    """
    named = info.get("outcome")
    if isinstance(named, str) and named in get_args(Outcome):
        return named  # type: ignore[return-value]  # it is one of them
    return "solved" if terminated and reward > 0 else "failed"


def no_answer_after(turns: int) -> str:
    """Return why an episode ends that has reached a maximum of turns."""
    return f"no answer after {turns} turns"


def no_answer_within(ids: int) -> str:
    """Return why an episode ends that has reached a maximum of ids."""
    return f"no answer within {ids} ids"


def error_text(error: Exception) -> str:
    """Return an exception in words, as an episode that it ended records it."""
    return f"{type(error).__name__}: {error}"


def finite(reward: Any) -> float:
    """Return a reward that an environment gave, as a number; a `ValueError` if it is none, or not finite."""
    value = float(reward or 0.0)
    if not math.isfinite(value):
        raise ValueError(f"expected a finite reward, got {value}")
    return value


def fitted(space: Any, action: Any) -> tuple[Any, str]:
    """Return an action for an environment of others, and what is wrong with it: the failure of who acts, or nothing.

    White space and thoughts around a text do not count, where it is outside of the action space with them. Gymnasium's
    `Text` with no characters named bounds the length alone: its default, without a space, fits no sentence. Calls as a
    list are not looked at: spaces of text do not describe them.

    >>> from gymnasium.spaces import Text
    >>> fitted(Text(3, charset="0123456789"), "<think>Even.</think> 8")
    ('8', '')
    >>> fitted(Text(3, charset="0123456789"), "seven")[1]
    "expected an action in Text(1, 3, charset=0123456789), got 'seven'"
    """
    if space is None or isinstance(action, list) or _holds(space, action):
        return action, ""
    if isinstance(action, str) and _holds(space, said := spoken(action)):
        return said, ""
    shown, given = (
        text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…" for text in (str(space), repr(action))
    )
    return action, f"expected an action in {shown}, got {given}"


def _holds(space: Any, action: Any) -> bool:
    if isinstance(space, Text) and isinstance(action, str) and space.character_set == _UNNAMED:
        return space.min_length <= len(action) <= space.max_length
    return bool(space.contains(action))


def unjudged_reason(episode: Episode) -> str | None:
    """Return why an episode that is over was not judged; None if it was."""
    return None if episode.outcome in ("solved", "failed") else f"{episode.outcome}: {episode.why}"


def unjudged_error(reasons: Iterable[str | None]) -> str:
    """Return what is wrong with an evaluation, given why each of its episodes was not judged; nothing if all is well.

    >>> unjudged_error([None] * 99 + ["infra_error: status 500"])
    ''
    >>> print(unjudged_error([None] * 6 + ["infra_error: status 500", "infra_error: status 500"]))
    2 of 8 episodes were not judged, and at most 1% may be left out: 2 × infra_error: status 500
    """
    every = list(reasons)
    found, count = Counter(reason for reason in every if reason is not None), len(every)
    if found.total() <= MAX_UNJUDGED * count:
        return ""
    listed = [f"{n} × {reason[:_CHARACTERS]}" for reason, n in found.most_common(_LISTED)]
    if len(found) > _LISTED:
        listed.append(f"and {len(found) - _LISTED} other reasons")
    return (
        f"{found.total():,} of {count:,} episodes were not judged, and at most {MAX_UNJUDGED:.0%} may be left out: "
        + "; ".join(listed)
    )


def require_judged(reasons: Iterable[str | None]) -> None:
    """Check that an evaluation may stand, given why each of its episodes was not judged (None if it was).

    Raises:
        EvaluationError: More than `MAX_UNJUDGED` of the episodes were not.
    """
    if error := unjudged_error(reasons):
        raise EvaluationError(f"{error}. Repair what failed and evaluate again.")
