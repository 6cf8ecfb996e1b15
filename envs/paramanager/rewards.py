"""ParaManager's reward and budget as pure functions of an episode's turns (§3.3).

``R = R_task + R_fmt + R_div + R_eff``, each at most 1. All parts but R_task can be computed again from the record.
Where the paper leaves something open, the docstring of the function gives the choice. Not covered: playing
(`toolorchestra.envs.paramanager.play`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.messages.token_counts import CountTokens, estimate_tokens
from toolorchestra.envs.records.episode import CallRecord, Turn
from toolorchestra.toolscale.answers.thoughts import thoughts_in
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.float_sums import float_sum
from toolorchestra.toolscale.tools.tool import Status

FINAL = "final_answer"
"""The tool that ends an episode."""
MAX_CALLS = 4
"""Calls of one round, n_max (§4.3)."""
Counting = Literal["paper", "run"]
"""What counts for R_par and R_fmt: see `reward_parts`."""
PARTS = ("task", "format", "diversity", "efficiency")
"""The four parts of the reward, as they are named in the record; the halves of the last two stand beside them."""


@dataclass(frozen=True)
class Targets:
    """Thresholds and targets of the reward (§4.3, Table 5).

    Attributes:
        parallel: Minimum mean calls of a round for the reward for parallelism, θ_par.
        tools: Minimum number of different tools for the reward for tools, θ_tool.
        length: Tokens up to which the reward for length is full, L_tar; it is 0 at twice as many.
        cost: Cost units up to which the reward for cost is full, C_tar; likewise.
    """

    parallel: float = 1.25
    tools: int = 3
    length: int = 12_288
    cost: float = 8.0

    def __post_init__(self) -> None:
        for name in ("parallel", "tools"):
            if not getattr(self, name) >= 0:
                raise OptionError(f"The target `{name}` must be at least 0, got {getattr(self, name)!r}.")
        for name in ("length", "cost"):
            if not getattr(self, name) > 0:
                raise OptionError(f"The target `{name}` must be positive, got {getattr(self, name)!r}.")


@dataclass(frozen=True)
class Budget:
    """The budget left: b_t of the state (§3.1).

    Attributes:
        rounds: Messages that may still be written.
        cost: Cost units until the reward for cost is 0.
        tokens: Tokens until the reward for length is 0.
    """

    rounds: int
    cost: float
    tokens: int

    def __str__(self) -> str:
        """Return the budget as in an observation; tokens are rounded down to hundreds."""
        return f"Budget left: {self.rounds} rounds, {self.cost:g} cost units, {self.tokens // 100 * 100} tokens."


def soft_budget(spent: float, target: float) -> float:
    """Return f(x; x_tar) of Eq. 16 and 17: 1 up to the target, then falling to 0 at twice the target.

    >>> [soft_budget(units, 8) for units in (8, 10, 12, 16, 40)]
    [1.0, 0.75, 0.5, 0.0, 0.0]
    """
    return 1.0 if spent <= target else max(0.0, (2 * target - spent) / target)


def well_formed(message: Mapping[str, Any]) -> bool:
    """Return Fmt(y) of Eq. 12 for an assistant message: whether it keeps to the template.

    The template is ``<reasoning>…</reasoning>``, then one ``<tool_call>`` or more with readable calls, and nothing
    else. In a message with structured ``tool_calls`` the content is the reasoning, or empty. Whether a call fits its
    tool is not looked at: a call that does not is answered by its status.

    >>> well_formed({"content": '<reasoning>Look.</reasoning><tool_call>{"name": "local_search"}</tool_call>'})
    True
    >>> well_formed({"content": '<tool_call>{"name": "local_search"}</tool_call>'})
    False
    """
    text = message.get("content") or ""
    if calls := message.get("tool_calls"):
        return (not text.strip() or _is_reasoning(text)) and all(map(_is_call, calls))
    read = read_message(text)
    thoughts, _ = thoughts_in(text)
    return (
        bool(read.calls)
        and all(call.error is None and call.arguments.startswith(b"{") for call in read.calls)
        and not read.repaired
        and not read.text
        and len(thoughts) == 1
        and text.lstrip().startswith(thoughts[0].written)
        and _is_reasoning(thoughts[0].written)
    )


def is_action(turn: Turn, max_calls_per_message: int = MAX_CALLS) -> bool:
    """Return whether a round is an action of Eq. 3: so many calls at most, and nothing after the one that ends it."""
    names = [call.name for call in turn.calls]
    return len(names) <= max_calls_per_message and FINAL not in names[:-1]


def _is_reasoning(text: str) -> bool:
    text = text.strip()
    opening, closing = "<reasoning>", "</reasoning>"
    return text.startswith(opening) and text.find(closing) == len(text) - len(closing)


def _is_call(call: Mapping[str, Any]) -> bool:
    function = call["function"]
    try:
        msgspec.json.decode(function["arguments"], type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return bool(function["name"])


def calls_made(turn: Turn) -> list[CallRecord]:
    """Return the calls of a turn that were run; refused and malformed calls do not count."""
    return [call for call in turn.calls if call.status is not Status.PARSE_ERR]


def length(turn: Turn, count_tokens: CountTokens = estimate_tokens) -> int:
    """Return the tokens that a turn adds to a trajectory: the orchestrator's message and observation.

    Tokens of sub-agents do not count; cost units account for them.
    """
    message = turn.message
    parts = [message.get("content") or ""]
    for call in message.get("tool_calls") or ():
        parts += (call["function"]["name"], call["function"]["arguments"])
    return count_tokens("".join(parts)) + count_tokens(turn.observation)


def cost_units(turns: Sequence[Turn], units: Mapping[str, float]) -> float:
    """Return C(τ): the cost units of all calls that were made, successful or not."""
    return float_sum(units.get(call.name, 0.0) for turn in turns for call in calls_made(turn))


def reward_parts(
    turns: Sequence[Turn],
    *,
    solved: bool,
    units: Mapping[str, float],
    targets: Targets = Targets(),
    max_calls_per_message: int = MAX_CALLS,
    count_tokens: CountTokens = estimate_tokens,
    counting: Counting = "paper",
) -> dict[str, float]:
    """Return the parts of the reward of an episode (Eq. 11 to 18).

    `PARTS` add up to R. ``diversity`` is the mean of ``parallelism`` and ``tools``, ``efficiency`` that of ``length``
    and ``cost``, which stand beside them. The final round counts as a round of the calls in it. `units` are the cost
    units of a call, by tool; `max_calls_per_message` is how many a round may have.

    With `counting` ``paper``, n_t of Eq. 14 is the number of calls that the round emits, the malformed ones included
    (Eq. 3, 6), up to the maximum n_max, and Fmt of Eq. 12 looks at the template alone. With ``run`` only calls that
    were run count, and a round with calls beyond the maximum or after the final one breaks the format. Different tools
    (Eq. 15) and cost units are those of calls that were run, either way.
    """
    rounds = max(1, len(turns))
    made = [[call.name for call in calls_made(turn)] for turn in turns]
    different = {name for names in made for name in names} - {FINAL}
    emitted = counting == "paper"
    counts = [min(len(turn.calls), max_calls_per_message) for turn in turns] if emitted else list(map(len, made))
    formed = [well_formed(turn.message) and (emitted or is_action(turn, max_calls_per_message)) for turn in turns]
    parallelism = float(sum(counts) / rounds >= targets.parallel)
    tools = float(len(different) >= targets.tools)
    short = soft_budget(sum(length(turn, count_tokens) for turn in turns), targets.length)
    cheap = soft_budget(cost_units(turns, units), targets.cost)
    return {
        "task": float(solved),
        "format": sum(formed) / rounds,
        "diversity": (parallelism + tools) / 2,
        "efficiency": (short + cheap) / 2,
        "parallelism": parallelism,
        "tools": tools,
        "length": short,
        "cost": cheap,
    }


def total(parts: Mapping[str, float], *, diversity: bool = True) -> float:
    """Return R of Eq. 10, or with `diversity` False R without R_div (App. B)."""
    return float_sum(parts[name] for name in PARTS if diversity or name != "diversity")
