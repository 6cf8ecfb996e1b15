"""TMATR's reward as a pure function of the record of an episode (§3.2).

``R = (1 − ε) R_corr + ε R̃_aux``, where ``R_aux = α (2 R_tool − 1) − β R_rep + γ R_len`` is scaled to [0, 1] by the
smallest and the largest value that it can take (Eq. 18, 19). The paper gives α, β and γ (App. D), names what R_tool,
R_rep and R_len measure, and says that ε "increases when correctness is low". All else is this library's choice: the
formulas of the parts, which the functions' docstrings give, the scale, and ``ε = ε_max (1 − R_corr) + ε_min R_corr``
with ε_min and ε_max.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolorchestra.agents.messages.token_counts import estimate_tokens
from toolorchestra.envs.records.episode import CallRecord, Episode
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.float_sums import float_sum
from toolorchestra.toolscale.tools.tool import Status

_MAX_CHARACTERS = 20_000  # characters of a message in which repetitions are looked for
_TAG = re.compile(r"</?[A-Z_]+>")
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class RewardRule:
    """The weights and limits of the reward: `alpha`, `beta` and `gamma` are the paper's (App. D), the others are not.

    Attributes:
        alpha: Weight of R_tool.
        beta: Weight of R_rep.
        gamma: Weight of R_len.
        epsilon_min: Share of the auxiliary part in the reward of a right answer (ε of the paper, which gives no value).
        epsilon_max: Share of it in the reward of a wrong answer (likewise).
        calls_needed: Calls that an episode may need; R_tool falls with those beyond.
        length_cap: Tokens, of all agents together, at which R_len has fallen to 0.
        ngram: Words and marks of which a repetition consists.
    """

    alpha: float = 0.22
    beta: float = 0.1
    gamma: float = 0.1
    epsilon_min: float = 0.1
    epsilon_max: float = 0.3
    calls_needed: int = 2
    length_cap: int = 12_288
    ngram: int = 4

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "gamma"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise OptionError(f"The weight `{name}` must be a finite number of at least 0.")
        if not 0 <= self.epsilon_min <= self.epsilon_max <= 1:
            raise OptionError("Expected 0 <= `epsilon_min` <= `epsilon_max` <= 1.")
        for name in ("calls_needed", "length_cap", "ngram"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` must be at least 1, got {getattr(self, name)!r}.")


def tool_success(calls: Iterable[CallRecord], needed: int) -> float:
    """Return R_tool: the share of calls that ended OK, times ``needed / calls`` where there are more than needed.

    Without any call it is ½, which adds nothing to R_aux.
    """
    ended = [call.status is Status.OK for call in calls]
    return float_sum(ended) / len(ended) * min(1.0, needed / len(ended)) if ended else 0.5


def repetition(texts: Iterable[str], n: int) -> float:
    """Return R_rep: the share of n-grams that have stood in the messages before, tags aside.

    >>> repetition(["so it is so it is"], 2)
    0.4
    """
    seen: set[tuple[str, ...]] = set()
    total = 0
    for text in texts:
        words = _WORD.findall(_TAG.sub(" ", text[:_MAX_CHARACTERS]))
        grams = [tuple(words[place : place + n]) for place in range(len(words) - n + 1)]
        seen.update(grams)
        total += len(grams)
    return 1 - len(seen) / total if total else 0.0


def brevity(tokens: int, cap: int) -> float:
    """Return R_len: 1 up to half of the cap, from there to the cap falling to 0, ever faster.

    >>> [brevity(tokens, 100) for tokens in (0, 50, 75, 100, 200)]
    [1.0, 1.0, 0.75, 0.0, 0.0]
    """
    beyond = max(0.0, 2 * tokens / cap - 1)
    return max(0.0, 1 - beyond**2)


def reward_parts(episode: Episode, rule: RewardRule = RewardRule()) -> dict[str, float]:
    """Return the reward of an episode that is over and judged, and its parts.

    Returns:
        ``correct`` (R_corr), ``tool``, ``repetition``, ``length``, ``auxiliary`` (R̃_aux), ``epsilon``, ``reward`` (R):
        each in [0, 1].
    """
    messages = [str(move.message["content"]) for move in episode.turns]
    correct = float(episode.outcome == "solved")
    tool = tool_success(episode.calls, rule.calls_needed)
    repeated = repetition(messages, rule.ngram)
    length = brevity(sum(map(estimate_tokens, messages)), rule.length_cap)
    lowest, highest = -rule.alpha - rule.beta, rule.alpha + rule.gamma
    raw = rule.alpha * (2 * tool - 1) - rule.beta * repeated + rule.gamma * length
    auxiliary = (raw - lowest) / (highest - lowest) if highest > lowest else 0.0
    epsilon = rule.epsilon_max * (1 - correct) + rule.epsilon_min * correct
    return {
        "correct": correct,
        "tool": tool,
        "repetition": repeated,
        "length": length,
        "auxiliary": auxiliary,
        "epsilon": epsilon,
        "reward": (1 - epsilon) * correct + epsilon * auxiliary,
    }
