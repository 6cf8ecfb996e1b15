"""Episodes without a verdict: why each has none, and how many an evaluation may have.

An infrastructure error or an error of the judge is not the policy's, so such episodes are left out of its success. If
there are many, the rest is another set of tasks than the one that was to be evaluated: the evaluation has failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from toolorchestra.envs.episode import Episode
from toolorchestra.toolscale.errors import ToolOrchestraError

MAX_UNJUDGED = 0.01
"""The largest share of the episodes of an evaluation that may be left out."""
_LISTED = 5  # reasons
_CHARACTERS = 300  # of a reason


class EvaluationError(ToolOrchestraError):
    """Too many episodes of an evaluation were not judged."""


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
