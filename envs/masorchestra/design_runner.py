"""The executor: runs a design's graph, every agent as soon as those that it reads have answered.

Agents are asked through one function, `Ask`, so that the executor knows nothing of models. On the virtual clock
simulated agents answer at once and say how long they took; the schedule is then computed, the same each time. On the
wall clock agents are asked in threads and time is measured. On either, an agent that fails is recorded as failed, those
that need its answer as not run, and all others finish. A run that is cancelled (by Ctrl-C, or by an error that
`watch` raises) starts no further agent, tells those at work to stop, and waits for them.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.tool import Status, ToolResult

MAX_ANSWER_CHARACTERS = 16_384
"""Characters of an agent's answer that others read."""


class AgentJob(msgspec.Struct, frozen=True):
    """What one agent is asked.

    Attributes:
        agent: The agent.
        input: Its input, with the answers of others put in; empty: the question itself.
        text: The whole text: the question, and then its input.
        given: The answers that it reads, by the ids of the agents that gave them.
        attempt: 0 at first, then counting retries.
        stop: Set when the answer is no longer needed: no further model should be asked.
    """

    agent: Agent
    input: str
    text: str
    given: Mapping[str, str]
    attempt: int = 0
    stop: threading.Event = msgspec.field(default_factory=threading.Event)


Ask = Callable[[AgentJob], ToolResult]
"""Asks an agent: the value of the result is its answer, a text. An error that it raises is the agent's failure."""
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
            raise OptionError(
                f"Expected a concurrency of at least 1 and no fewer than 0 retries, got {self.concurrency} and "
                f"{self.retries}."
            )
        for name in ("timeout", "agent_cost", "cost"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise OptionError(f"The limit `{name}` must be positive or None, got {value!r}.")


class DesignRun(msgspec.Struct, frozen=True):
    """What became of a design.

    Attributes:
        calls: One record for each agent, in the order of the design: ``id`` is the agent's, ``name`` its kind,
            ``arguments`` the input that it read (None for one that was not run), ``value`` its answer.
        answer: What the design answers; None when the agent that answers failed or was not run.
        seconds: From the start to the end of the last agent.
        broken: The error of an agent that broke down instead of failing by itself (its model could not be reached).
    """

    calls: tuple[CallRecord, ...]
    answer: str | None
    seconds: float = 0.0
    broken: str = ""

    @property
    def cost(self) -> float:
        """US dollars of all agents."""
        return sum(call.cost for call in self.calls)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens read and written by all agents."""
        return sum(call.tokens[0] for call in self.calls), sum(call.tokens[1] for call in self.calls)


def was_run(call: CallRecord) -> bool:
    """Return whether an agent was run at all."""
    return call.arguments is not None


def run_design(
    design: Design,
    question: str,
    ask: Ask,
    *,
    limits: RunLimits = RunLimits(),
    clock: Clock = "virtual",
    watch: Callable[[CallRecord], object] | None = None,
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
    """
    if not design.agents:
        return DesignRun((), design.answer)
    return _Running(design, question, ask, limits, _Virtual() if clock == "virtual" else _Wall(), watch).run()


class _Running:
    """A run in progress."""

    def __init__(
        self,
        design: Design,
        question: str,
        ask: Ask,
        limits: RunLimits,
        clock: _Clock,
        watch: Callable[[CallRecord], object] | None,
    ) -> None:
        self._design, self._question, self._ask, self._limits = design, question, ask, limits
        self._clock, self._watch = clock, watch
        self._agents = {agent.id: agent for agent in design.agents}
        self._missing = {agent.id: len(design.parents(agent.id)) for agent in design.agents}
        self._ready = [agent.id for agent in design.agents if not self._missing[agent.id]]
        self._working: dict[str, tuple[str, float]] = {}  # input and start of agents at work
        self._records: dict[str, CallRecord] = {}
        self._cost = 0.0
        self._broken = ""

    def run(self) -> DesignRun:
        try:
            while len(self._records) < len(self._agents):
                while self._ready and len(self._working) < self._limits.concurrency:
                    self._start(self._ready.pop(0))
                if self._working:
                    self._end(*self._clock.wait())
        except BaseException:
            self._clock.cancel()
            raise
        calls = tuple(self._records[agent.id] for agent in self._design.agents)
        answer = self._records[str(self._design.sink)].value
        return DesignRun(calls, answer, max(call.end for call in calls), self._broken)

    def _start(self, agent_id: str) -> None:
        if self._limits.cost is not None and self._cost >= self._limits.cost:
            self._leave(agent_id, f"not run: the budget of ${self._limits.cost:g} is spent")
            return
        agent = self._agents[agent_id]
        given = {parent: str(self._records[parent].value) for parent in self._design.parents(agent_id)}
        filled = agent.filled(given)
        text = f"{self._question}\n\nYour part of this:\n{filled}" if filled else self._question
        work = AgentJob(agent, filled, text, given)
        self._working[agent_id] = (filled, self._clock.now)
        self._clock.start(work, lambda: _asked(self._ask, work, self._limits), self._limits.timeout)

    def _end(self, agent_id: str, result: ToolResult, broken: str) -> None:
        filled, start = self._working.pop(agent_id)
        self._broken = self._broken or broken
        self._cost += result.cost
        arguments = {"agent_input": filled}
        self._note(
            CallRecord(
                agent_id,
                self._agents[agent_id].kind,
                arguments,
                result.status,
                result.value,
                result.error,
                result.cost,
                result.tokens,
                start,
                self._clock.now,
                result.children,
            )
        )

    def _leave(self, agent_id: str, why: str) -> None:
        """Record that an agent was not run."""
        now = self._clock.now
        kind = self._agents[agent_id].kind
        self._note(CallRecord(agent_id, kind, None, Status.EXEC_ERR, error=why, start=now, end=now))

    def _note(self, record: CallRecord) -> None:
        """Keep a record, and see to those that wait for the agent."""
        self._records[record.id] = record
        if self._watch is not None:
            self._watch(record)
        for child in self._design.children(record.id):
            self._missing[child] -= 1
            if child in self._records:
                continue
            if record.status is not Status.OK:
                self._leave(
                    child, f"not run: it reads {record.id!r}, which {'failed' if was_run(record) else 'was not'}"
                )
            elif not self._missing[child]:
                self._ready.append(child)


def _asked(ask: Ask, work: AgentJob, limits: RunLimits) -> tuple[ToolResult, str]:
    """Ask an agent until it answers or may not be asked again; return the result, and why it broke down if it did."""
    total = ToolResult.ok(None)
    while True:
        broken = ""
        try:
            result = _with_answer(ask(work))
        except Exception as error:  # whatever becomes of one agent, the others finish
            broken = f"{type(error).__name__}: {error}"
            result = ToolResult.failed(broken)
        total = _after(total, result)
        if limits.agent_cost is not None and total.cost > limits.agent_cost:
            why = f"cost ${total.cost:.4g}, more than the ${limits.agent_cost:g} that an agent may"
            return msgspec.structs.replace(total, status=Status.EXEC_ERR, value=None, error=why), broken
        late = limits.timeout is not None and total.seconds >= limits.timeout
        if result.status is not Status.EXEC_ERR or work.attempt == limits.retries or late or work.stop.is_set():
            return total, broken
        work = msgspec.structs.replace(work, attempt=work.attempt + 1)


def _with_answer(result: ToolResult) -> ToolResult:
    """Return a result whose answer is a text of bounded length; one that is empty is none."""
    if result.status is not Status.OK:
        return result
    answer = str(result.value or "").strip()[:MAX_ANSWER_CHARACTERS]
    if answer:
        return msgspec.structs.replace(result, value=answer)
    return msgspec.structs.replace(result, status=Status.EXEC_ERR, value=None, error="gave no answer")


def _after(earlier: ToolResult, result: ToolResult) -> ToolResult:
    """Return a result with what the attempts before it cost and took."""
    children = tuple(
        msgspec.structs.replace(child, start=child.start + earlier.seconds, end=child.end + earlier.seconds)
        for child in result.children
    )
    return msgspec.structs.replace(
        result,
        cost=earlier.cost + result.cost,
        seconds=earlier.seconds + result.seconds,
        tokens=(earlier.tokens[0] + result.tokens[0], earlier.tokens[1] + result.tokens[1]),
        children=earlier.children + children,
    )


def _timed_out(seconds: float, result: ToolResult = ToolResult.ok(None)) -> ToolResult:  # noqa: B008
    error = f"has not answered within {seconds:g} s"
    return msgspec.structs.replace(result, status=Status.TIMEOUT, value=None, error=error)


# ------------------------------------------------------------------------------------------------------------ clocks

_Job = Callable[[], tuple[ToolResult, str]]


class _Clock(ABC):
    """Lets agents work, and says who ends next."""

    now: float

    @abstractmethod
    def start(self, work: AgentJob, job: _Job, timeout: float | None) -> None:
        """Let an agent begin."""

    @abstractmethod
    def wait(self) -> tuple[str, ToolResult, str]:
        """Return who ends next, and with what; the time is then that of its end."""

    @abstractmethod
    def cancel(self) -> None:
        """Tell all agents at work to stop, and return when they have."""


class _Virtual(_Clock):
    """Agents answer where they stand, and end when they say that they do."""

    def __init__(self) -> None:
        self.now = 0.0
        self._ends: list[tuple[float, int, str, ToolResult, str]] = []
        self._started = 0

    def start(self, work: AgentJob, job: _Job, timeout: float | None) -> None:
        result, broken = job()
        seconds = result.seconds
        if timeout is not None and seconds > timeout:
            seconds, result = timeout, _timed_out(timeout, result)
        self._started += 1
        heapq.heappush(self._ends, (self.now + seconds, self._started, work.agent.id, result, broken))

    def wait(self) -> tuple[str, ToolResult, str]:
        self.now, _, agent_id, result, broken = heapq.heappop(self._ends)
        return agent_id, result, broken

    def cancel(self) -> None:
        """Do nothing: agents have answered as soon as they are asked."""


class _Wall(_Clock):
    """Every agent works in a thread of its own; who hangs is left behind."""

    def __init__(self) -> None:
        self._origin = time.monotonic()
        self._done: queue.SimpleQueue[tuple[str, ToolResult, str]] = queue.SimpleQueue()
        self._deadlines: dict[str, tuple[float, float]] = {}  # of those at work: when, and after how long
        self._at_work: dict[str, tuple[threading.Thread, threading.Event]] = {}

    @property
    def now(self) -> float:  # type: ignore[override]  # it passes by itself
        return time.monotonic() - self._origin

    def start(self, work: AgentJob, job: _Job, timeout: float | None) -> None:
        agent_id = work.agent.id
        self._deadlines[agent_id] = (self.now + timeout, timeout) if timeout else (threading.TIMEOUT_MAX, 0.0)
        # a daemon: what hangs for good must not keep the process from ending
        thread = threading.Thread(target=lambda: self._done.put((agent_id, *job())), name=agent_id, daemon=True)
        self._at_work[agent_id] = thread, work.stop
        thread.start()

    def wait(self) -> tuple[str, ToolResult, str]:
        while True:
            latest = min(self._deadlines, key=lambda agent_id: self._deadlines[agent_id][0])
            deadline, timeout = self._deadlines[latest]
            try:
                agent_id, result, broken = self._done.get(timeout=max(0.0, deadline - self.now))
            except queue.Empty:
                agent_id, result, broken = latest, _timed_out(timeout), ""
                self._at_work[agent_id][1].set()
            if self._deadlines.pop(agent_id, None) is not None:  # else it was left behind before
                del self._at_work[agent_id]
                return agent_id, result, broken

    def cancel(self) -> None:
        for _, stop in self._at_work.values():
            stop.set()
        for thread, _ in self._at_work.values():
            thread.join()
