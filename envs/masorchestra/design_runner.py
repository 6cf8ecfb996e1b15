"""The executor: runs a design's graph, every agent as soon as those that it reads have answered.

Agents are asked through one function, `Ask`; models are not covered here. On the virtual clock the schedule is computed
and is the same each time; on the wall clock time is measured (`toolorchestra.envs.masorchestra.run_clocks`). On either,
an agent that fails is recorded as failed, those that need its answer as not run, and all others finish. A run that is
cancelled (by Ctrl-C, or by an error that `watch` raises) starts no further agent, makes running ones stop, and
waits for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.run_clocks import VirtualClock, WallClock
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.toolscale.common.errors import OptionError, is_outage
from toolorchestra.toolscale.common.float_sums import float_sum
from toolorchestra.toolscale.tools.tool import Status, ToolResult

MAX_REPLY_CHARACTERS = 65_536
"""Characters of an agent's reply that are kept, its last ones."""


class AgentRun(msgspec.Struct, frozen=True):
    """What one agent is asked.

    Attributes:
        agent: The agent.
        input: Its input, with the replies of others put in; empty: the question itself.
        text: The whole text: the question, and then its input.
        given: The answers in the replies that it reads, by the ids of the agents that gave them.
        attempt: 0 at first, then counting retries.
        stop: Set when the answer is no longer needed: no further model should be asked.
    """

    agent: Agent
    input: str
    text: str
    given: Mapping[str, str]
    attempt: int = 0
    stop: threading.Event = msgspec.field(default_factory=threading.Event)


Ask = Callable[[AgentRun], ToolResult]
"""Asks an agent: the value of the result is its reply, a text. An error that it raises is the agent's failure."""
Read = Callable[[str], str]
"""Returns the answer in an agent's reply."""
Clock = Literal["virtual", "wall"]


@dataclass(frozen=True)
class RunLimits:
    """What a run may take.

    Attributes:
        concurrency: Maximum number of agents at work at a time.
        timeout: Maximum seconds of one agent, its retries included; None for no end.
        retries: Further attempts of an agent that failed.
        agent_cost: Maximum US dollars of one agent, its retries included: an agent that costs more has failed.
        cost: US dollars after which no further agent is started.
    """

    concurrency: int = 16
    timeout: float | None = None
    retries: int = 1
    agent_cost: float | None = None
    cost: float | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.retries < 0:
            got = f"{self.concurrency} and {self.retries}"
            raise OptionError(f"Expected a concurrency of at least 1 and no fewer than 0 retries, got {got}.")
        for name in ("timeout", "agent_cost", "cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"The limit `{name}` must be positive or None, got {value!r}.")


class DesignRun(msgspec.Struct, frozen=True):
    """What became of a design.

    Attributes:
        calls: One record for each agent, in the order of the design: ``id`` is the agent's, ``name`` its kind,
            ``arguments`` the input that it read (None for one that was not run), ``value`` its reply.
        answer: What the design answers; None when the agent that answers failed or was not run.
        seconds: From the start to the end of the last agent.
        broken: The outage that an agent met, if one did, instead of failing by itself: its model could not be reached,
            or on the wall clock has not answered in time.
    """

    calls: tuple[CallRecord, ...]
    answer: str | None
    seconds: float = 0.0
    broken: str = ""

    @property
    def cost(self) -> float:
        """US dollars of all agents."""
        return float_sum(call.cost for call in self.calls)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens read and written by all agents."""
        return sum(call.tokens[0] for call in self.calls), sum(call.tokens[1] for call in self.calls)


def was_run(call: CallRecord) -> bool:
    """Return whether an agent was run at all."""
    return call.arguments is not None


def result_of(design: Design, records: Mapping[str, CallRecord], read: Read, broken: str = "") -> DesignRun:
    """Return what became of a design, given the records of its agents by their ids."""
    if not design.agents:
        return DesignRun((), design.answer)
    calls = tuple(records[agent.id] for agent in design.agents)
    last = records[str(design.sink)]
    answer = read(last.value) if last.status is Status.OK else None
    return DesignRun(calls, answer, max(call.end for call in calls), broken)


def run_design(
    design: Design,
    question: str,
    ask: Ask,
    *,
    limits: RunLimits = RunLimits(),
    clock: Clock = "virtual",
    watch: Callable[[CallRecord], object] | None = None,
    spent: float = 0.0,
    read: Read = str,
) -> DesignRun:
    """Run a design and return what became of it.

    Args:
        design: The design.
        question: What the whole is asked.
        ask: Asks one agent; on the wall clock it is called in several threads at once.
        limits: What the run may take.
        clock: ``virtual``: agents say how long they took. ``wall``: time is measured, and an agent that hangs is left
            behind at its timeout.
        watch: Called with the record of each agent when it has ended.
        spent: US dollars spent before the run, which count towards the limit of its cost.
        read: Finds the answer in a reply; by default the reply is the answer. Other agents read the whole reply.
    """
    if not design.agents:
        return result_of(design, {}, read)
    clocks = VirtualClock() if clock == "virtual" else WallClock()
    return _Running(design, question, ask, limits, clocks, watch, spent, read).run()


@dataclass
class _Running:
    """A run in progress; its fields are the arguments of `run_design`."""

    design: Design
    question: str
    ask: Ask
    limits: RunLimits
    clock: VirtualClock | WallClock
    watch: Callable[[CallRecord], object] | None
    spent: float
    read: Read

    def __post_init__(self) -> None:
        self._agents = {agent.id: agent for agent in self.design.agents}
        self._missing = {agent_id: len(self.design.parents(agent_id)) for agent_id in self._agents}
        self._ready = [agent_id for agent_id, missing in self._missing.items() if not missing]
        self._working: dict[str, tuple[str, float]] = {}  # input and start of agents at work
        self._records: dict[str, CallRecord] = {}
        self._cost = self.spent
        self._broken = ""

    def run(self) -> DesignRun:
        try:
            while len(self._records) < len(self._agents):
                while self._ready and len(self._working) < self.limits.concurrency:
                    self._start(self._ready.pop(0))
                if self._working:
                    self._end(*self.clock.wait())
        except BaseException:
            self.clock.cancel()
            raise
        return result_of(self.design, self._records, self.read, self._broken)

    def _start(self, agent_id: str) -> None:
        if self.limits.cost is not None and self._cost >= self.limits.cost:
            self._leave(agent_id, f"not run: the budget of ${self.limits.cost:g} is spent")
            return
        agent = self._agents[agent_id]
        replies = {one: self._records[one].value for one in self.design.parents(agent_id) if one in agent.references}
        filled = agent.filled(replies)
        given = {one: self.read(reply) for one, reply in replies.items()}
        text = f"{self.question}\n\nYour part of this:\n{filled}" if filled else self.question
        job = AgentRun(agent, filled, text, given)
        self._working[agent_id] = (filled, self.clock.now)
        self.clock.start(agent_id, lambda: _answered(self.ask, job, self.limits), self.limits.timeout, job.stop)

    def _end(self, agent_id: str, result: ToolResult, broken: str) -> None:
        filled, start = self._working.pop(agent_id)
        self._broken = self._broken or broken
        self._cost += result.cost
        kind, arguments = self._agents[agent_id].kind, {"agent_input": filled}
        outcome = result.status, result.value, result.error, result.cost, result.tokens
        self._note(CallRecord(agent_id, kind, arguments, *outcome, start, self.clock.now, result.children))

    def _leave(self, agent_id: str, why: str) -> None:
        """Record that an agent was not run."""
        now = self.clock.now
        kind = self._agents[agent_id].kind
        self._note(CallRecord(agent_id, kind, None, Status.EXEC_ERR, error=why, start=now, end=now))

    def _note(self, record: CallRecord) -> None:
        """Keep a record, and start or leave the agents that waited for this one."""
        self._records[record.id] = record
        if self.watch is not None:
            self.watch(record)
        for child in self.design.children(record.id):
            self._missing[child] -= 1
            if child in self._records:
                continue
            if record.status is not Status.OK:
                what = "failed" if was_run(record) else "was not"
                self._leave(child, f"not run: it reads {record.id!r}, which {what}")
            elif not self._missing[child]:
                self._ready.append(child)


def _answered(ask: Ask, job: AgentRun, limits: RunLimits) -> tuple[ToolResult, str]:
    """Ask an agent until it answers or may not be asked again; return the result, and why it broke down if it did."""
    total, broken = ToolResult.ok(None), ""
    for attempt in range(limits.retries + 1):
        broken = ""
        try:
            result = _with_answer(ask(msgspec.structs.replace(job, attempt=attempt)))
        except Exception as error:  # whatever becomes of one agent, the others finish
            why = f"{type(error).__name__}: {error}"
            broken = why if is_outage(error) or isinstance(error, OptionError) else ""  # a model set up wrongly
            result = ToolResult.failed(why)
        total = _after(total, result)
        if limits.agent_cost is not None and total.cost > limits.agent_cost:
            why = f"cost ${total.cost:.4g}, more than the ${limits.agent_cost:g} that an agent may"
            return msgspec.structs.replace(total, status=Status.EXEC_ERR, value=None, error=why), broken
        late = limits.timeout is not None and total.seconds >= limits.timeout
        if result.status is not Status.EXEC_ERR or late or job.stop.is_set():
            break
    return total, broken


def _with_answer(result: ToolResult) -> ToolResult:
    """Return a result whose reply is a text of bounded length; one that is empty is none."""
    if result.status is not Status.OK:
        return result
    reply = str(result.value or "").strip()[-MAX_REPLY_CHARACTERS:]  # the answer is at the end
    if reply:
        return msgspec.structs.replace(result, value=reply)
    return msgspec.structs.replace(result, status=Status.EXEC_ERR, value=None, error="gave no answer")


def _after(earlier: ToolResult, result: ToolResult) -> ToolResult:
    """Return a result with what the attempts before it cost and took."""
    by = earlier.seconds
    later = [msgspec.structs.replace(child, start=child.start + by, end=child.end + by) for child in result.children]
    return msgspec.structs.replace(
        result,
        cost=earlier.cost + result.cost,
        seconds=by + result.seconds,
        tokens=(earlier.tokens[0] + result.tokens[0], earlier.tokens[1] + result.tokens[1]),
        children=(*earlier.children, *later),
    )
