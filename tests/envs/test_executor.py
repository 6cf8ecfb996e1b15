from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.messages.model_message import ParsedCall
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.envs import executor
from toolorchestra.envs.executor import ToolFaultWarning, execute
from toolorchestra.envs.records.episode import CallRecord, Episode
from toolorchestra.toolscale.common.errors import ExpertError, SandboxError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tools.tool import Effect, Status, Tool, ToolContext, ToolResult


class Timed(Tool):
    """Takes a while."""

    def __init__(self, name: str, effect: Effect, latency: float, extra: float = 0.0) -> None:
        super().__init__(name, "d", {}, price=0.01, latency=latency)
        self.effect = effect
        self.extra = extra

    def run(self, arguments: dict[str, Any], session: Session) -> ToolResult:
        return ToolResult(Status.OK, self.name, cost=self.extra / 10, seconds=self.extra)


TOOLS = {
    tool.name: tool
    for tool in (
        Timed("read1", "read", 1.0),
        Timed("read3", "read", 3.0),
        Timed("pure2", "pure", 2.0),
        Timed("write1", "write", 1.0),
        Timed("write2", "write", 2.0),
        Timed("slow", "read", 1.0, extra=4.0),
    )
}


def run(session: Session, *names: str, clock: float = 0.0, first: int = 1) -> list[CallRecord]:
    return execute([ParsedCall(name) for name in names], ToolContext(session, tools=TOOLS), clock=clock, first=first)


def spans(records: list[CallRecord]) -> list[tuple[float, float]]:
    return [(record.start, record.end) for record in records]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["read1"], [(0, 1)]),
        (["read1", "read3", "pure2"], [(0, 1), (0, 3), (0, 2)]),
        (["write1", "write2"], [(0, 1), (1, 3)]),
        (["read1", "read3", "write1", "read1"], [(0, 1), (0, 3), (3, 4), (4, 5)]),
        (["write2", "read1", "pure2"], [(0, 2), (2, 3), (2, 4)]),
        (["read3", "nothing", "read1"], [(0, 3), (0, 0), (0, 1)]),
        (["write2", "nothing"], [(0, 2), (2, 2)]),
        (["slow", "write1"], [(0, 5), (5, 6)]),
    ],
)
def test_reads_run_together_and_writes_are_barriers(
    session: Session, names: list[str], expected: list[tuple[float, float]]
) -> None:
    assert spans(run(session, *names)) == expected
    assert spans(run(session, *names, clock=10.0)) == [(start + 10, end + 10) for start, end in expected]


@given(st.lists(st.sampled_from(sorted(TOOLS)), max_size=12))
def test_no_call_overlaps_a_write(mini: Domain, names: list[str]) -> None:
    session = mini.session()
    records = run(session, *names)
    for i, one in enumerate(records):
        for other in records[i + 1 :]:
            assert one.start <= other.start
            if "write" in (TOOLS[one.name].effect, TOOLS[other.name].effect):
                assert one.end <= other.start
    session.close()


def test_records_hold_status_value_and_cost(session: Session) -> None:
    (record,) = run(session, "slow")
    assert record == CallRecord("call_1", "slow", {}, Status.OK, "slow", None, 0.01 + 0.4, (0, 0), 0.0, 5.0)


def test_calls_are_numbered_and_ids_are_unique(session: Session) -> None:
    assert [record.id for record in run(session, "read1", "read1", first=7)] == ["call_7", "call_8"]
    calls = [ParsedCall("read1", id="call_2"), ParsedCall("read1"), ParsedCall("read1", id="x")]
    ids = [record.id for record in execute(calls, ToolContext(session, tools=TOOLS), clock=0.0, first=1)]
    assert ids == ["call_2", "call_2_", "x"]


def test_a_call_that_errs_does_not_stop_the_others(session: Session, mini: Domain) -> None:
    calls = read_message(
        [
            {"name": "cancel_order", "arguments": {"order_id": "O999"}},
            {"name": "cancel_ordr", "arguments": {"order_id": "O030"}},
            {"name": "cancel_order", "arguments": {"order": "O030"}},
            {"name": "get_order", "arguments": {"order_id": "O030"}},
            3,
        ]
    ).calls
    records = execute(calls, ToolContext(session, tools=mini.tools), clock=0.0, first=1)
    assert [record.status for record in records] == ["EXEC_ERR", "PARSE_ERR", "PARSE_ERR", "OK", "PARSE_ERR"]
    unknown, wrong, fine, unread = records[1:]
    assert records[0].error == "No order O999."
    assert str(unknown.error).startswith("Unknown tool 'cancel_ordr'. Did you mean 'cancel_order'? Known: ")
    assert wrong.error == "Unknown argument of cancel_order 'order'. Did you mean 'order_id'? Known: order_id."
    assert (fine.error, fine.value["dishes"]) == (None, ["soup"])
    assert str(unread.error).endswith('Expected {"name": "…", "arguments": {…}}.')


def test_writes_of_one_turn_see_what_those_before_them_wrote(session: Session, mini: Domain) -> None:
    calls = read_message(
        [
            {"name": "make_order", "arguments": {"customer_id": "C02", "dishes": ["soup"], "price": 1}},
            {"name": "get_order", "arguments": {"order_id": "O041"}},
            {"name": "cancel_order", "arguments": {"order_id": "O041"}},
            {"name": "get_order", "arguments": {"order_id": "O041"}},
        ]
    ).calls
    records = execute(calls, ToolContext(session, tools=mini.tools), clock=0.0, first=1)
    assert [record.status for record in records] == ["OK", "OK", "OK", "EXEC_ERR"]
    made, found, cancelled, gone = records
    assert made.value == {"order_id": "O041", "price": 1.0}
    assert (found.value["customer_id"], found.value["dishes"]) == ("C02", ["soup"])
    assert (cancelled.value, gone.error) == ("done", "No order O041.")


def test_nothing_to_run_is_nothing(session: Session) -> None:
    tools: Mapping[str, Tool] = {}
    assert execute([], ToolContext(session, tools=tools), clock=0.0, first=1) == []


class Waiting(Tool):
    """Waits for an event, as a tool waits for a server."""

    blocking = True

    def __init__(self, name: str, work: Callable[[], ToolResult], effect: Effect = "read") -> None:
        super().__init__(name, "d", {}, latency=0.0)
        self.effect = effect
        self.work = work

    def run(self, arguments: dict[str, Any], session: Session) -> ToolResult:
        return self.work()


def waiting(*tools: Tool) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def test_blocking_reads_of_a_turn_are_under_way_at_the_same_time(session: Session) -> None:
    together = threading.Barrier(4, timeout=60)  # none gets past it before all four have come

    def meet() -> ToolResult:
        together.wait()
        return ToolResult.ok("met")

    tools = waiting(*(Waiting(f"ask{i}", meet) for i in range(4)), TOOLS["read1"])
    names = ["ask0", "ask1", "read1", "ask2", "ask3"]
    records = execute([ParsedCall(name) for name in names], ToolContext(session, tools=tools), clock=0.0, first=1)
    assert [record.name for record in records] == names
    assert [record.value for record in records] == ["met", "met", "read1", "met", "met"]


def test_a_failing_a_malformed_and_a_hanging_call_leave_the_others_alone(session: Session) -> None:
    def fail() -> ToolResult:
        raise ExpertError("the endpoint is down")

    gate = threading.Event()
    hanging = Waiting("hangs", lambda: ToolResult.ok(gate.wait(60)))
    hanging.timeout = 1.0
    tools = waiting(Waiting("fails", fail), hanging, Waiting("fine", lambda: ToolResult.ok(42)))
    calls = read_message(
        "".join(
            f"<tool_call>{body}</tool_call>"
            for body in ('{"name": "fails"}', '{"name": "fine", "arg', '{"name": "hangs"}', '{"name": "fine"}')
        )
    ).calls
    context = ToolContext(session, tools=tools)
    fails, malformed, hangs, fine = execute(calls, context, clock=0.0, first=1, outages="observed")
    gate.set()
    assert (fails.status, fails.error) == (Status.EXEC_ERR, "the endpoint is down")
    assert (malformed.status, malformed.name) == (Status.PARSE_ERR, "fine")
    assert str(malformed.error).startswith("The call is not valid: Input data was truncated. Write <tool_call>{")
    assert hangs.status is Status.TIMEOUT
    assert hangs.error == "hangs has not answered within 1 s. Try again later, or ask another."
    assert (hangs.start, hangs.end) == (0.0, 1.0)
    assert (fine.status, fine.value) == (Status.OK, 42)


def down() -> ToolResult:
    raise ExpertError("the endpoint is down")


def too_long() -> ToolResult:
    raise ExpertError("the request is too long", outage=False)


@pytest.mark.parametrize("name", ["down", "hangs"])
def test_an_outage_is_raised_unless_the_policy_is_to_observe_it(session: Session, name: str) -> None:
    gate = threading.Event()
    hangs = Waiting("hangs", lambda: ToolResult.ok(gate.wait(60)))
    hangs.timeout = 0.05
    tools = waiting(Waiting("down", down), hangs)
    with pytest.raises(ExpertError, match=r"endpoint is down|hangs has not answered within") as caught:
        execute([ParsedCall(name)], ToolContext(session, tools=tools), clock=0.0, first=1)
    gate.set()
    assert caught.value.outage


def test_a_request_that_a_server_refuses_is_an_error_of_the_call(session: Session) -> None:
    context = ToolContext(session, tools=waiting(Waiting("ask", too_long)))
    (record,) = execute([ParsedCall("ask")], context, clock=0.0, first=1)
    assert (record.status, record.error) == (Status.EXEC_ERR, "the request is too long")


class Faulty(Tool):
    """Raises what it is told to, as a tool must not."""

    errors: ClassVar[list[Exception]] = [ZeroDivisionError("n"), RecursionError(), MemoryError(), ValueError("1" * 999)]

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        if arguments["n"] == 9:
            raise SandboxError("no sandbox")
        raise self.errors[arguments["n"]]


@pytest.mark.parametrize("blocking", [False, True])
def test_what_arguments_do_to_a_tool_is_an_error_of_the_call(session: Session, blocking: bool) -> None:
    tool = Faulty("faulty", "d", {"n": ParameterSpec(type="integer", description="n")})
    tool.blocking = blocking
    context = ToolContext(session, tools=waiting(tool))
    for number, error in enumerate(Faulty.errors):
        call = ParsedCall("faulty", b'{"n": %d}' % number)
        with pytest.warns(ToolFaultWarning, match=rf"'faulty' raised {type(error).__name__}: .*test_executor\.py:"):
            (record,) = execute([call], context, clock=0.0, first=1)
        assert record.status is Status.EXEC_ERR
        assert record.error == f"faulty cannot be run with these arguments ({type(error).__name__})."
    with pytest.raises(SandboxError):
        execute([ParsedCall("faulty", b'{"n": 9}')], context, clock=0.0, first=1)


def test_the_calls_of_a_message_have_a_time_together(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "MESSAGE_SECONDS", 1.0)
    gate, started = threading.Event(), []

    def work(name: str) -> Callable[[], ToolResult]:
        return lambda: started.append(name) or ToolResult.ok(gate.wait(60))  # type: ignore[func-returns-value]

    tools = waiting(*(Waiting(name, work(name), "write") for name in ("one", "two", "three")))
    records = execute([ParsedCall(name) for name in tools], ToolContext(session, tools=tools), clock=0.0, first=1)
    gate.set()
    assert [record.status for record in records] == [Status.TIMEOUT] * 3
    assert started == ["one"]
    assert records[2].error == "three was not done when the time for one message was over. Call less at once."


def test_a_call_has_twice_the_time_of_its_tool_where_that_is_more_than_a_messages(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "time", SimpleNamespace(monotonic=lambda: 100.0))
    seen: list[float | None] = []

    class Noting(Waiting):
        def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:  # type: ignore[override]
            seen.append(context.deadline)
            return ToolResult.ok(None)

    for timeout in (None, 10.0, 500.0):
        tool = Noting("patient", lambda: ToolResult.ok(None))
        tool.timeout = timeout
        execute([ParsedCall("patient")], ToolContext(session, tools=waiting(tool)), clock=0.0, first=1)
    assert seen == [160.0, 160.0, 1100.0]


def test_a_write_waits_for_the_reads_before_it_and_holds_up_those_after_it(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    begun: list[list[int]] = []  # which calls began together: what begins too early may still end in order
    start = executor._start

    def noted(*given: Any) -> Any:
        begun.append(list(started := start(*given)))
        return started

    def note(name: str) -> Callable[[], ToolResult]:
        return lambda: order.append(name) or ToolResult.ok(name)  # type: ignore[func-returns-value]

    monkeypatch.setattr(executor, "_start", noted)
    tools = waiting(Waiting("read", note("read")), Waiting("write", note("write"), "write"), TOOLS["write1"])
    names = ["read", "write", "read", "write1", "read"]
    records = execute([ParsedCall(name) for name in names], ToolContext(session, tools=tools), clock=0.0, first=1)
    assert [record.value for record in records] == names
    assert order == ["read", "write", "read", "read"]
    assert begun == [[0], [1], [2], [4]]


def test_an_error_of_the_library_in_a_thread_is_raised(session: Session) -> None:
    def break_down() -> ToolResult:
        raise RuntimeError("an infrastructure error")

    with pytest.raises(RuntimeError, match="an infrastructure error"):
        execute(
            [ParsedCall("broken")],
            ToolContext(session, tools=waiting(Waiting("broken", break_down))),
            clock=0.0,
            first=1,
        )


class Looking(Tool):
    """Says what it was shown."""

    uses_episode = True

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult(Status.OK, [context.number, [call.name for call in context.calls]])


class LookingAtTheEnd(Looking):
    effect = "write"


def test_context_tools_see_the_calls_that_have_ended_before_them(session: Session, mini: Domain) -> None:
    tools = waiting(Looking("look", "d", {}), LookingAtTheEnd("close", "d", {}), *mini.tools.values())
    task = mini.tasks("all")[0]
    episode = Episode(env_id="e", task_id=task.id, split="train", difficulty=1, prompt="", instruction="", tools=())
    context = ToolContext(session, task, mini, episode, (), tools)
    names = ["look", "look", "close", "look"]
    records = execute([ParsedCall(name) for name in names], context, clock=0.0, first=5)
    assert [record.value for record in records] == [
        [5, []],
        [6, []],
        [7, ["look", "look"]],
        [8, ["look", "look", "close"]],
    ]
    assert (
        ToolContext(None, task, mini, episode, (), tools, number=1).seed
        != ToolContext(None, task, mini, episode, (), tools, number=2).seed
    )
