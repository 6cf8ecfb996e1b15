"""What a recording says of failures: which criteria, which calls of which tools; and how reliably tasks are solved."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from toolorchestra.envs.records.episode import Episode
from toolorchestra.toolscale.tools.tool import Status

_CRITERION = re.compile(r"(?:^|; )(execution|completeness|fidelity|answer): ")
_MAX_REASON = 60


def reasons(episode: Episode) -> list[str]:
    """Return why an episode was not solved: the criteria that do not hold, or else what ended it, in a few words.

    Numbers in what ended it are left out, so that episodes can be counted by it. Nothing for a solved episode.
    """
    return ending_reasons(episode.outcome, episode.why)


def ending_reasons(outcome: str | None, why: str) -> list[str]:
    """Return the `reasons` of an episode that ended so.

    >>> ending_reasons("failed", "execution: orders['O1'] was left as it was; answer: the final answer should be '2'")
    ['execution', 'answer']
    """
    if outcome in ("solved", None):
        return []
    if outcome != "failed":
        return [f"{outcome}: {why.partition(':')[0][:_MAX_REASON]}".removesuffix(": ")]
    found = list(dict.fromkeys(_CRITERION.findall(why)))
    return found or [re.sub(r"\d[\d,.]*", "N", why)[:_MAX_REASON] or "no reason given"]


def criteria_messages(why: str) -> dict[str, list[str]]:
    """Return what did not hold by criterion, from what verification found wrong.

    >>> criteria_messages("execution: a row is missing; fidelity: 7 is not stated; fidelity: 8 is not stated")
    {'execution': ['a row is missing'], 'fidelity': ['7 is not stated', '8 is not stated']}
    >>> criteria_messages("ended after 20 turns without an answer")
    {}
    """
    found: dict[str, list[str]] = {}
    starts = [*_CRITERION.finditer(why)]
    for number, one in enumerate(starts, 1):
        end = starts[number].start() if number < len(starts) else len(why)
        found.setdefault(one[1], []).append(why[one.end() : end])
    return found


class FailureCounts:
    """Adds up why episodes failed.

    Attributes:
        by_reason: Episodes by `reasons`; one may have several.
        by_call: Calls that went wrong in episodes that were not solved, by tool and status.
    """

    def __init__(self) -> None:
        self.by_reason: Counter[str] = Counter()
        self.by_call: Counter[tuple[str, Status]] = Counter()

    def add(self, episode: Episode) -> None:
        """Count an episode; a solved one counts for nothing."""
        if found := reasons(episode):
            self.by_reason.update(found)
            wrong = (call for call in episode.calls if call.status is not Status.OK)
            self.by_call.update((call.name[:_MAX_REASON] or "(no name)", call.status) for call in wrong)

    def summary(self) -> dict[str, Any]:
        """Return the counts, the most frequent first."""
        calls = [{"tool": tool, "status": status, "calls": n} for (tool, status), n in self.by_call.most_common()]
        return {"reasons": dict(self.by_reason.most_common()), "calls": calls}


def pass_shares(samples: Mapping[str, Sequence[bool]], k: int) -> tuple[float, float]:
    """Return pass@k and pass^k: the chance that one, and that all, of k samples of a task are right.

    Both are the unbiased estimates from all samples of a task, and means over the tasks that have at least k; NaN if
    none has.

    >>> pass_shares({"a": [True, True], "b": [True, False]}, 2)
    (1.0, 0.5)
    """
    counted = [(len(one), sum(one)) for one in samples.values() if len(one) >= k]
    if not counted:
        return math.nan, math.nan
    at = (1 - math.comb(count - right, k) / math.comb(count, k) for count, right in counted)
    every = (math.comb(right, k) / math.comb(count, k) for count, right in counted)
    return sum(at) / len(counted), sum(every) / len(counted)
