"""The rules of tool calling by one agent: calls are run until a message without calls, or the call `submit`, answers.

A user of several requests (`FollowsUp`) makes the next one then; the answer to the last ends the episode.
Where the answer is typed, a message without calls does not. These are the rules of ToolOrchestra; ParaManager's are
built on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from toolorchestra.agents.messages.content import tool_call
from toolorchestra.agents.messages.model_message import ModelMessage, ParsedCall
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.envs.answer_modes import SubmitTool
from toolorchestra.envs.play import Play, PlayStart
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.envs.rewards import Vector, measure
from toolorchestra.envs.spaces import MAX_OBSERVATION_CHARACTERS
from toolorchestra.toolscale.answers.answers import whole_answer
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.tools.tool import Status

_NO_CALL = f"There is no call in this message. Call {SUBMIT} with your answer, or another tool."
_NOTHING = "There is neither a call nor an answer in this message, beside what is thought. Write one of them."
CUT_NOTE = "… (cut: the result is too long; ask for less)"


class ToolCallingPlay(Play):
    """An episode in which one agent calls tools and then answers.

    Attributes:
        metrics: M(τ) of the finished episode, shape ``(tools + 3,)`` (ToolOrchestra §3.2).
    """

    def __init__(self, start: PlayStart) -> None:
        super().__init__(start)
        self.metrics: Vector | None = None
        self._submits = isinstance(self.tools.get(SUBMIT), SubmitTool)  # and not a tool of the world's own

    def _read(self, action: Any) -> ModelMessage:
        message = read_message(action, self.tools, repair=self.repair)
        return submit_last(message) if self._submits else message

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        nothing = _NO_CALL if self._submits else _NOTHING
        if message.calls:
            records = self._run(agent, message.calls, message.text)
            if self._submits and (answer := submitted(message.calls, records)) is not None:
                self._answered(agent, answer if self.typed is not None else self._of_question(records[-1]))
        elif self.typed is None and message.text:
            self._answered(agent, message.text)
        elif any(turn.observations.get(agent) == nothing for turn in self.episode.turns[-1:]):
            given = f"call, the answer is given with {SUBMIT}" if self._submits else "call or an answer"
            self.close(solved=False, why=f"two messages without a {given}")
        else:
            self.observe(agent, nothing)

    def _answered(self, agent: str, answer: str) -> None:
        """Show the user's next request, or judge the answer to the last one."""
        follow_up = getattr(self.session, "follow_up", None)  # of a `FollowsUp`, for which isinstance takes longer
        request = None if follow_up is None else follow_up()
        if request is None:
            self.judge(answer)
        else:
            earlier = self._observed_messages.get(agent, ())  # the result of `submit`
            self.observe(agent, request, [*earlier, {"role": "user", "content": request}])

    def _of_question(self, submit: CallRecord) -> str:
        """Return the answer that a call of `submit` gives to a question: all of its text, and nothing but that."""
        return self.stated((submit.arguments or {})["answer"], whole_answer)

    def _run(self, agent: str, calls: Sequence[ParsedCall], text: str) -> list[CallRecord]:
        """Run the calls of a message and show their results."""
        records = self.run_calls(calls, text=text)
        limit = shared_limit(self.limits.result_characters, len(records))
        blocks, messages = [], []
        for record in records:
            content = self._show(record, limit)
            blocks.append(f"<tool_response>\n{content}\n</tool_response>")
            messages.append({"role": "tool", "tool_call_id": record.id, "name": record.name, "content": content})
        self.observe(agent, "\n".join(blocks), messages)
        return records

    def _written(self, message: ModelMessage) -> dict[str, Any]:
        """Return a message as OpenAI has it: as text when the calls were written in the text."""
        written = message.recorded
        if not message.structured or not self._calls:
            return written
        written["tool_calls"] = [
            tool_call(record.id, call.name, call.arguments.decode("utf-8", "replace"))
            for call, record in zip(message.calls, self._calls, strict=True)
        ]
        return written

    def _show(self, record: CallRecord, limit: int) -> str:
        """Return a call's result as the agent reads it, of at most about `limit` characters."""
        return shown_result(record, limit)

    def _set_reward(self, *, solved: bool) -> None:
        self._reward(float(solved))
        episode = self.episode
        counts: dict[str, int] = {}
        for turn in episode.turns:
            for call in turn.calls:
                counts[call.name] = counts.get(call.name, 0) + 1
        self.metrics = measure(counts, self.measured, solved=solved, usd=episode.cost, seconds=episode.clock)
        episode.metrics = tuple(self.metrics.tolist())


def submit_last(message: ModelMessage) -> ModelMessage:
    """Return a message in which `submit` comes last, since it ends the episode; more than one are refused."""
    calls = message.calls
    if len(calls) < 2 or all(call.name != SUBMIT for call in calls[:-1]):
        return message
    calls = tuple(sorted(calls, key=lambda call: call.name == SUBMIT))
    if calls[-2].name == SUBMIT:
        error = f"{SUBMIT} stands more than once in this message, expected once."
        calls = tuple(msgspec.structs.replace(call, error=error) if call.name == SUBMIT else call for call in calls)
    return msgspec.structs.replace(message, calls=calls)


def submitted(calls: Sequence[ParsedCall], records: Sequence[CallRecord]) -> str | None:
    """Return the typed answer that the calls of a message give, as JSON, if they give one."""
    if records[-1].name != SUBMIT or records[-1].status is not Status.OK:
        return None
    return calls[-1].arguments.decode("utf-8", "replace")


def shared_limit(characters: int, results: int) -> int:
    """Return the maximum characters of each of several results of one message."""
    return min(characters, MAX_OBSERVATION_CHARACTERS // (2 * results) - 1_000)


def shown_result(record: CallRecord, limit: int) -> str:
    """Return a call's result as an agent reads it: one JSON object, cut to about `limit` characters."""
    status = record.status
    part, content = ("result", record.value) if status is Status.OK else ("error", record.error)
    fields = {"id": record.id, "name": record.name, "status": status, part: content}
    text = msgspec.json.encode(fields).decode()
    if len(text) > limit:
        whole = msgspec.json.encode(content).decode()
        if len(whole) > limit:
            fields[part] = whole[:limit] + CUT_NOTE
            text = msgspec.json.encode(fields).decode()
    return text
