"""The rules of ParaManager (§3.1): rounds of up to four calls, a budget in the observations, and `final_answer`.

Beyond tool calling: calls beyond the maximum and calls after the final one are refused without being parsed; a message
without a call is answered and costs a round; each observation ends with what is left of the budget; the final answer is
written by a summariser and judged; the reward is the sum of four parts (`toolorchestra.envs.paramanager.rewards`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from toolorchestra.agents.messages.model_message import ModelMessage, ParsedCall
from toolorchestra.agents.messages.reading import spoken
from toolorchestra.agents.messages.text_parts import tag
from toolorchestra.agents.messages.token_counts import CountTokens, estimate_tokens, text_size
from toolorchestra.envs.paramanager.prompts import TEXTS
from toolorchestra.envs.paramanager.rewards import (
    FINAL,
    MAX_CALLS,
    Budget,
    Counting,
    Targets,
    cost_units,
    length,
    reward_parts,
    total,
)
from toolorchestra.envs.paramanager.tools import RoleTool
from toolorchestra.envs.play import EpisodeLimits, PlayStart
from toolorchestra.envs.records.episode import CallRecord, Outcome, Turn
from toolorchestra.envs.tool_calling import ToolCallingPlay
from toolorchestra.toolscale.common.errors import ExpertError, OptionError
from toolorchestra.toolscale.tools.tool import Status

MAX_ROUNDS = 12
"""Rounds of an episode, H (§4.3)."""
MAX_RESULT_TOKENS = 4_096
"""Maximum tokens of one tool's response in an observation (Table 5)."""
TOOL_NAMES = {"search": "local_search"}
"""Names of tools in the paper (Table 7) that are other ones here."""
ARGUMENT_NAMES = {"sub_task": "subtask", "model": "model_id"}
"""Names by which the paper's prompt (Fig. 10) speaks of arguments, and those of its Table 7."""
_MIN_CHARACTERS = 64  # characters


@dataclass(frozen=True)
class Rules(EpisodeLimits):
    """The limits of an episode, and the targets of its reward.

    Attributes:
        calls: Maximum calls of one round.
        targets: Thresholds and targets of the reward.
        diversity: Whether R_div is part of the reward.
        counting: What counts for R_par and R_fmt: see `reward_parts`.
        count_tokens: Counts the tokens of a text.
        result_tokens: Maximum tokens of one result in an observation.
    """

    turns: int = MAX_ROUNDS
    calls: int = MAX_CALLS
    targets: Targets = field(default_factory=Targets)
    diversity: bool = True
    counting: Counting = "paper"
    count_tokens: CountTokens = estimate_tokens
    result_characters: int = 16 * MAX_RESULT_TOKENS  # tokens decide, and few are longer
    result_tokens: int = MAX_RESULT_TOKENS

    def __post_init__(self) -> None:
        for name, value in {"max_rounds": self.turns, "max_calls": self.calls}.items():
            if not value >= 1:
                raise OptionError(f"`{name}` must be at least 1, got {value!r}.")
        super().__post_init__()


class ParaManagerPlay(ToolCallingPlay):
    """An episode played by ParaManager's rules; `limits` are `Rules`.

    Attributes:
        units: Cost units of the tools that cost some, by name.
    """

    def __init__(self, start: PlayStart) -> None:
        super().__init__(start)
        assert isinstance(start.limits, Rules)
        self.rules = start.limits
        self.units = {name: tool.units for name, tool in self.tools.items() if isinstance(tool, RoleTool)}
        self._tokens = sum(length(turn, self.rules.count_tokens) for turn in self.episode.turns)
        self._cost_units = cost_units(self.episode.turns, self.units)
        self._reminder = ""  # at the end of the last observation
        self.messages[-1]["content"] += f"\n\n{self.budget}"

    @property
    def budget(self) -> Budget:
        """The budget left."""
        targets = self.rules.targets
        return Budget(
            self.rules.turns - len(self.episode.turns),
            max(0.0, 2 * targets.cost - self._cost_units),
            max(0, 2 * targets.length - self._tokens),
        )

    def act(self, action: Any) -> Turn:
        """Take one message of the orchestrator and return the round; never raises for what the message says."""
        self._reminder = ""
        turn = super().act(action)
        self._tokens += length(turn, self.rules.count_tokens)
        self._cost_units += cost_units((turn,), self.units)
        return turn if self.over else self._remind(turn)

    def stop(self, why: str, outcome: Outcome = "failed") -> None:
        """End the episode; the budget left is not shown, and not counted, where no message follows."""
        turns, messages, reminder = self.episode.turns, self.messages, self._reminder
        if reminder and not self.over:
            turn, last = turns[-1], messages[-1]
            observation = turn.observation.removesuffix(f"\n{reminder}")
            turns[-1] = msgspec.structs.replace(turn, observations={turn.agent: observation})
            shown = last["content"].removesuffix(reminder).removesuffix("\n")
            messages[-1:] = [{**last, "content": shown}] if shown else []
            self._reminder = ""
        super().stop(why, outcome)

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        if not message.calls:
            self.observe(agent, TEXTS["no_call"])
            return
        said = message.raw if message.structured else message.beside  # r_t
        records = self._run(agent, message.calls, said)
        final = next((call for call in records if call.name == FINAL and call.status is not Status.PARSE_ERR), None)
        if final is not None and final.status is Status.OK:
            self._conclude(final.value)
        elif final is not None:  # the summariser belongs to the environment: its failure is not the orchestrator's
            self._break_off("infra_error", ExpertError(f"The summariser did not answer: {final.error}"))

    def _conclude(self, reply: str) -> None:
        """End the episode with the summariser's answer, which its reply has in a tag."""
        answer = concluding_answer(reply)
        self.judge(answer if tag(spoken(reply), "answer") is None else self.stated(answer))

    def _read(self, action: Any) -> ModelMessage:
        """Return an action as a message in which the calls that may not be run are marked."""
        message = super()._read(action)
        calls, max_calls = tuple(map(self._as_published, message.calls)), self.rules.calls
        if calls != message.calls:
            message = msgspec.structs.replace(message, calls=calls)
        ends = (place for place, call in enumerate(calls, 1) if call.name == FINAL and call.error is None)
        allowed = min(max_calls, next(ends, len(calls)))
        if len(calls) <= allowed:
            return message
        checked = list(calls)
        for place, call in enumerate(calls):
            if place >= allowed and call.error is None:
                reason = TEXTS["too_many"].format(max_calls=max_calls) if place >= max_calls else TEXTS["after_final"]
                checked[place] = msgspec.structs.replace(call, error=reason)
        return msgspec.structs.replace(message, calls=tuple(checked))

    def _as_published(self, call: ParsedCall) -> ParsedCall:
        """Return a call by the names of this library, where it has those of the paper (Table 7, Fig. 10)."""
        name = call.name if call.name in self.tools else TOOL_NAMES.get(call.name, call.name)
        arguments = call.arguments
        if isinstance(self.tools.get(name), RoleTool) and any(
            f'"{old}"'.encode() in arguments for old in ARGUMENT_NAMES
        ):
            try:
                given = msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
            except (msgspec.DecodeError, RecursionError, UnicodeError):
                return call  # it is answered with what is wrong
            renamed = {ARGUMENT_NAMES.get(key, key): value for key, value in given.items()}
            if len(renamed) == len(given):
                arguments = msgspec.json.encode(renamed)
        if (name, arguments) == (call.name, call.arguments):
            return call
        return msgspec.structs.replace(call, name=name, arguments=arguments)

    def _remind(self, turn: Turn) -> Turn:
        """Add the budget left to the end of the observation."""
        left, count = str(self.budget), self.rules.count_tokens
        self._reminder = left
        observation = f"{turn.observation}\n{left}"
        self._tokens += count(observation) - count(turn.observation)
        if turn.agent in self._conversations:
            self._conversations[turn.agent] += text_size(observation) - text_size(turn.observation)
        turn = self.episode.turns[-1] = msgspec.structs.replace(turn, observations={turn.agent: observation})
        if self.messages[-1]["role"] == "user":
            self.messages[-1] = {"role": "user", "content": f"{self.messages[-1]['content']}\n{left}"}
        else:
            self.messages.append({"role": "user", "content": left})
        return turn

    def _show(self, record: CallRecord, limit: int) -> str:
        text = super()._show(record, limit)
        count, max_tokens = self.rules.count_tokens, self.rules.result_tokens
        while limit > _MIN_CHARACTERS and len(text.encode()) > max_tokens and (tokens := count(text)) > max_tokens:
            limit = max(_MIN_CHARACTERS, min(limit, len(text)) * max_tokens // tokens)
            text = super()._show(record, limit)
        return text

    def _set_reward(self, *, solved: bool) -> None:
        super()._set_reward(solved=solved)
        rules = self.rules
        parts = reward_parts(
            self.episode.turns,
            solved=solved,
            units=self.units,
            targets=rules.targets,
            max_calls_per_message=rules.calls,
            count_tokens=rules.count_tokens,
            counting=rules.counting,
        )
        self._reward(total(parts, diversity=rules.diversity), parts)


def concluding_answer(reply: str) -> str:
    r"""Return the answer in a summariser's reply, without its reasoning.

    >>> concluding_answer(r"<reasoning>Both say so.</reasoning> <answer> It is \boxed{12}. </answer>")
    'It is \\boxed{12}.'
    """
    answer = tag(spoken(reply), "answer")
    return spoken(reply) if answer is None else answer
