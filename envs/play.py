"""One episode being played: the rules of the game, with no environment around them.

A `Play` takes actions, runs their calls on a session, keeps the conversation, the clock and the ledger, and at
the end asks for the verdict. The Gymnasium and PettingZoo environments translate between their interfaces and
this class; evaluation and search may use it directly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np

from toolorchestra.envs.episode import CallRecord, Episode, Outcome, Turn
from toolorchestra.envs.executor import execute
from toolorchestra.envs.parsing import Message, parse
from toolorchestra.envs.rewards import Vector, measure
from toolorchestra.toolscale.database import Changes
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Status, Tool, ToolContext, ToolResult
from toolorchestra.toolscale.verify import Verdict

MAX_OBSERVATION_CHARACTERS = 262_144
"""Characters of what is shown in reply to one message; the results of many calls share them."""
CUT_NOTE = "… (cut: the result is too long; ask for less)"


class WorldSession(Protocol):
    """The state of a world in one episode. `toolorchestra.toolscale.session.Session` is one, with a database."""

    def reset(self) -> None:
        """Return to the initial state."""

    def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run `tool` with valid `arguments`; a call that does not end OK leaves nothing behind."""

    def touched(self) -> Changes:
        """Return what was written since the reset."""

    def snapshot(self) -> Any:
        """Return the state, to be restored in this or any other session of the world."""

    def restore(self, snapshot: Any) -> None:
        """Put the session into the state of `snapshot`."""

    def close(self) -> None:
        """Release what it holds."""


class World(Protocol):
    """Where tasks take place.

    `toolorchestra.toolscale.domain.Domain` is one, and so is a `toolorchestra.envs.sources.questions.QuestionWorld`,
    which has no database.
    """

    @property
    def name(self) -> str:
        """Unique name."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Tools by name, in a fixed order."""

    @property
    def rules(self) -> str:
        """What an orchestrator must know of the place: part of its prompt."""

    def session(self) -> WorldSession:
        """Return a new session in the initial state."""

    def verify(self, task: Task, session: Any, answer: str) -> Verdict:
        """Judge an episode by its effects in `session` (one of the world's) and its final answer."""


@dataclass(frozen=True)
class EpisodeLimits:
    """When an episode ends without an answer.

    Attributes:
        turns: Most messages of the orchestrator (ToolOrchestra §4.4: 50).
        cost: Most US dollars, or None.
        seconds: Most virtual seconds, or None.
        result_characters: Longest result shown; more is cut.
    """

    turns: int = 50
    cost: float | None = None
    seconds: float | None = None
    result_characters: int = 16_384

    def __post_init__(self) -> None:
        for name in ("turns", "cost", "seconds", "result_characters"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"The limit `{name}` must be positive, got {value!r}.")


@dataclass(frozen=True)
class PlaySnapshot:
    """All that a `Play` is made of; restores into any play of the same world."""

    session: Any
    episode: Episode
    messages: tuple[dict[str, Any], ...]
    task: Task
    tools: Mapping[str, Tool]


class Play:
    """An episode of `task` in `world`.

    Args:
        world: Where it takes place.
        session: A session of the world; it is reset.
        task: What is asked.
        episode: The record to be filled, with the prompt, instruction and tools on offer.
        limits: When it ends without an answer.
        tools: Tools on offer by name, in the order of the record; those of the world that the record names by default.

    Attributes:
        episode: The record so far.
        tools: Tools on offer by name.
        messages: The conversation so far, as OpenAI messages.
        verdict: The judgement, once an answer was given.
        metrics: M(τ) of the finished episode, shape ``(tools + 3,)``.
        truncated: Whether a limit or an error of ours ended it.
    """

    def __init__(
        self,
        world: World,
        session: WorldSession,
        task: Task,
        episode: Episode,
        limits: EpisodeLimits,
        tools: Mapping[str, Tool] | None = None,
    ) -> None:
        self.world = world
        self.session = session
        self.task = task
        self.episode = episode
        self.limits = limits
        every = world.tools
        if tools is None:
            tools = every if len(episode.tools) == len(every) else {name: every[name] for name in episode.tools}
        self.tools = tools
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": episode.prompt},
            {"role": "user", "content": episode.instruction},
        ]
        self.verdict: Verdict | None = None
        self.metrics: Vector | None = None
        self.truncated = False
        self._calls_made = 0
        session.reset()

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.episode.outcome is not None

    def act(self, action: Any) -> Turn:
        """Take one action of the orchestrator and return the turn; never raises for what the action says."""
        if self.over:
            raise OptionError("The episode is over. Call reset() to begin another.")
        message = parse(action)
        if not message.calls:
            self.messages.append({"role": "assistant", "content": message.text})
            return self._answer(message)
        turn = self._call(message)
        if not self.over and (reason := self._spent()):
            self.truncated = True
            self._close("failed", reason)
        return turn

    def _call(self, message: Message) -> Turn:
        """Run the calls of a message, book and show their results, and return the turn."""
        context = ToolContext(
            self.session, self.task, self.world, self.episode, self.messages, self.tools, message.text
        )
        try:
            records = execute(
                message.calls,
                self.tools,
                self.session,
                clock=self.episode.clock,
                first=self._calls_made + 1,
                context=context,
            )
        except Exception as error:  # a fault of the library or its tools, not of the policy
            turn = Turn({"role": "assistant", "content": message.written or message.text})
            self.episode.turns.append(turn)
            self._break_off("infra_error", error)
            return turn
        self._calls_made += len(records)
        self._book(records)
        written = _assistant_message(message, records)
        self.messages.append(written)
        shown = []
        limit = min(self.limits.result_characters, MAX_OBSERVATION_CHARACTERS // (2 * len(records)) - 1_000)
        for record in records:
            content = self._show(record, limit)
            shown.append(f"<tool_response>\n{content}\n</tool_response>")
            self.messages.append({"role": "tool", "tool_call_id": record.id, "name": record.name, "content": content})
        turn = Turn(written, tuple(records), "\n".join(shown))
        self.episode.turns.append(turn)
        return turn

    def _show(self, record: CallRecord, limit: int) -> str:
        """Return a call's result as the orchestrator reads it, of at most about `limit` characters."""
        return shown_result(record, limit)

    def sampled(self, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Note the policy's own tokens of the last message, and their log-probabilities, in the record."""
        turns = self.episode.turns
        turns[-1] = msgspec.structs.replace(turns[-1], token_ids=tuple(token_ids), logprobs=tuple(logprobs))

    def _answer(self, message: Message) -> Turn:
        turn = Turn(self.messages[-1])
        self.episode.turns.append(turn)
        self._judge(message.spoken)
        return turn

    def _judge(self, said: str) -> None:
        """End the episode with a final answer."""
        try:
            self.verdict = self.world.verify(self.task, self.session, said)
        except Exception as error:  # a fault of the verifier must not be graded as the policy's
            self._break_off("judge_error", error)
        else:
            self.episode.answer = said
            self._close("solved" if self.verdict.solved else "failed", str(self.verdict))

    def _break_off(self, outcome: Outcome, error: Exception) -> None:
        self.truncated = True
        self.episode.outcome, self.episode.why = outcome, f"{type(error).__name__}: {error}"

    def _book(self, records: list[CallRecord]) -> None:
        """Add the cost of a turn, and let the clock pass to the end of its last call."""
        episode = self.episode
        for record in records:
            episode.cost += record.cost
            if record.end > episode.clock:
                episode.clock = record.end

    def _spent(self) -> str:
        """Return which limit is reached, or nothing."""
        episode, limits = self.episode, self.limits
        if limits.cost is not None and episode.cost > limits.cost:
            return f"the budget of ${limits.cost:g} is spent"
        if limits.seconds is not None and episode.clock > limits.seconds:
            return f"the time of {limits.seconds:g} s is spent"
        if len(episode.turns) >= limits.turns:
            return f"no answer after {limits.turns} turns"
        return ""

    def _close(self, outcome: Outcome, why: str) -> None:
        episode = self.episode
        solved = outcome == "solved"
        counts: dict[str, int] = {}
        for call in episode.calls:
            counts[call.name] = counts.get(call.name, 0) + 1
        episode.outcome, episode.why, episode.reward = outcome, why, float(solved)
        self.metrics = measure(counts, episode.tools, solved=solved, usd=episode.cost, seconds=episode.clock)
        episode.metrics = tuple(self.metrics.tolist())

    def snapshot(self) -> PlaySnapshot:
        """Return the whole state of the episode."""
        episode = _copied(self.episode)
        return PlaySnapshot(self.session.snapshot(), episode, tuple(self.messages), self.task, self.tools)

    @classmethod
    def restored(cls, snapshot: PlaySnapshot, world: World, session: WorldSession, limits: EpisodeLimits) -> Play:
        """Return a play in the state of `snapshot`."""
        play = cls(world, session, snapshot.task, _copied(snapshot.episode), limits, snapshot.tools)
        session.restore(snapshot.session)
        play.messages = list(snapshot.messages)
        play._calls_made = sum(1 for _ in play.episode.calls)
        if play.episode.metrics is not None:
            play.metrics = np.array(play.episode.metrics)
        return play


def shown_result(record: CallRecord, limit: int) -> str:
    """Return a call's result as the orchestrator reads it: one JSON object."""
    part, content = ("result", record.value) if record.status is Status.OK else ("error", record.error)
    shown = {"id": record.id, "name": record.name, "status": record.status, part: content}
    text = msgspec.json.encode(shown).decode()
    if len(text) > limit:
        whole = msgspec.json.encode(content).decode()
        if len(whole) > limit:
            shown[part] = whole[:limit] + CUT_NOTE
            text = msgspec.json.encode(shown).decode()
    return text


def _copied(episode: Episode) -> Episode:
    """Return a copy of a record with a list of turns of its own (turns themselves never change)."""
    copy = msgspec.structs.replace(episode)
    copy.turns = list(episode.turns)
    return copy


def _assistant_message(message: Message, records: Sequence[CallRecord]) -> dict[str, Any]:
    """Return a message with calls as OpenAI has it: as text when the calls were written in the text."""
    if message.written is not None:
        return {"role": "assistant", "content": message.written}
    calls = [
        {
            "id": record.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments.decode("utf-8", "replace")},
        }
        for call, record in zip(message.calls, records, strict=True)
    ]
    return {"role": "assistant", "content": message.text, "tool_calls": calls}
