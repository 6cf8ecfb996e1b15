from __future__ import annotations

import random
import threading
import zlib
from collections.abc import Callable

import msgspec
import pytest

from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.design_runner import AgentRun, Ask, RunLimits, run_design, was_run
from toolorchestra.envs.masorchestra.orchestrators import random_design
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.toolscale.common.errors import ExpertError, OptionError
from toolorchestra.toolscale.tools.tool import InnerCall, Status, ToolResult


def reader(agent_id: str, *parents: str) -> Agent:
    return Agent(agent_id, "CoTAgent", " and ".join(f"${{{parent}}}" for parent in parents))


def graph(*agents: Agent) -> Design:
    edges = tuple((parent, agent.id) for agent in agents for parent in agent.references)
    return Design(dom="high", thinking="A test.", agents=agents, edges=edges)


DIAMOND = graph(
    reader("start"),
    *(reader(f"w{i}", "start") for i in range(8)),
    *(reader(f"m{i}", f"w{2 * i}", f"w{2 * i + 1}") for i in range(4)),
    *(reader(f"n{i}", f"m{2 * i}", f"m{2 * i + 1}") for i in range(2)),
    reader("end", "n0", "n1"),
)


def answering(seconds: float = 1.0, cost: float = 0.5, **by_agent: float) -> Ask:
    """Agents that answer with their id; seconds may differ by agent."""

    def ask(work: AgentRun) -> ToolResult:
        took = by_agent.get(work.agent.id, seconds)
        return ToolResult(Status.OK, work.agent.id, cost=cost, seconds=took, tokens=(10, 2))

    return ask


def test_all_agents_of_a_rank_of_a_wide_diamond_are_at_work_at_the_same_time() -> None:
    ranks = {"start": 1, "w": 8, "m": 4, "n": 2, "end": 1}
    together = {rank: threading.Barrier(size, timeout=60) for rank, size in ranks.items()}

    def ask(work: AgentRun) -> ToolResult:
        together[work.agent.id.rstrip("0123456789")].wait()  # nobody answers before all of the rank are asked
        return ToolResult.ok("done")

    run = run_design(DIAMOND, "?", ask, clock="wall")
    assert (DIAMOND.shape.agents, DIAMOND.shape.width) == (16, 8)
    assert run.answer == "done"


# -------------------------------------------------------------------------------------------- random graphs, in threads


class Conductor:
    """Lets agents that work in threads end in the order of a time of its own, each after the one before was recorded.

    An agent that is asked takes `seconds(agent_id)` from now. Time goes on to the next end once all those are at work
    whose parents have ended.
    """

    def __init__(self, design: Design, seconds: Callable[[str], float]) -> None:
        self.now = 0.0
        self._design, self._seconds = design, seconds
        self._changed = threading.Condition()
        self._ends: dict[str, float] = {}  # of agents at work
        self._ended: set[str] = set()

    def ask(self, work: AgentRun) -> ToolResult:
        with self._changed:
            self._ends[work.agent.id] = self.now + self._seconds(work.agent.id)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_next(work.agent.id), 60)
            self.now = self._ends.pop(work.agent.id)
            self._ended.add(work.agent.id)
            self._changed.notify_all()
        return ToolResult.ok(work.agent.id)

    def _is_next(self, agent_id: str) -> bool:
        """Whether all agents that can be at work are, and this one ends first."""
        parents = self._design.parents
        startable = {one.id for one in self._design.agents if set(parents(one.id)) <= self._ended} - self._ended
        return startable == set(self._ends) and agent_id == min(self._ends, key=lambda one: (self._ends[one], one))


def seconds_of(seed: int) -> Callable[[str], float]:
    return lambda agent_id: 20.0 + zlib.crc32(f"{seed}/{agent_id}".encode()) % 61


def critical_path(design: Design, seconds: Callable[[str], float]) -> float:
    ends: dict[str, float] = {}
    for agent_id in design.order:
        start = max((ends[parent] for parent in design.parents(agent_id)), default=0.0)
        ends[agent_id] = start + seconds(agent_id)
    return max(ends.values())


def digesting(seed: int = 0) -> Ask:
    """Agents whose answer depends on all that they read; some fail the first time, and some always."""

    def ask(work: AgentRun) -> ToolResult:
        digest = zlib.crc32(f"{seed}/{work.text}/{sorted(work.given.items())}".encode())
        if digest % 11 == 0 or (digest % 5 == 0 and not work.attempt):
            return ToolResult(Status.EXEC_ERR, error=f"no luck {digest}", cost=0.25, tokens=(1, 0), seconds=1.0)
        return ToolResult(Status.OK, str(digest), cost=0.5, tokens=(3, 1), seconds=1 + digest % 7)

    return ask


def drawn(seed: int, most: int) -> Design:
    return random_design(random.Random(seed), ("CoTAgent",), most)


@pytest.mark.parametrize("seed", range(6))
def test_agents_of_random_graphs_begin_as_soon_as_those_that_they_read_have_ended(seed: int) -> None:
    design, seconds = drawn(seed, 24), seconds_of(seed)
    conductor = Conductor(design, seconds)
    run = run_design(design, "?", conductor.ask, limits=RunLimits(concurrency=64), clock="wall")
    assert run.answer is not None
    assert conductor.now == critical_path(design, seconds)


def results(calls: tuple[CallRecord, ...]) -> list[tuple[object, ...]]:
    """What does not depend on when an agent was at work; which of several failures kept one from it does."""
    return [
        (call.id, call.arguments, call.status, call.value, call.error if was_run(call) else "", call.cost, call.tokens)
        for call in calls
    ]


def test_results_are_those_of_running_one_agent_after_the_other() -> None:
    failures = 0
    for seed in range(25):
        design = drawn(seed, 40)
        one_by_one = run_design(design, "?", digesting(seed), limits=RunLimits(concurrency=1))
        for clock, concurrency in (("virtual", 64), ("wall", 64), ("wall", 3), ("wall", 1)):
            run = run_design(design, "?", digesting(seed), limits=RunLimits(concurrency), clock=clock)  # type: ignore[arg-type]
            assert results(run.calls) == results(one_by_one.calls)
            assert run.answer == one_by_one.answer
        failures += one_by_one.answer is None
    assert 2 < failures < 23


# -------------------------------------------------------------------------------------------------------- cancelling


class CancelledError(Exception):
    """Raised by whoever watches, to end a run."""


@pytest.mark.parametrize("seed", range(4))
def test_cancelling_leaves_no_thread_behind_and_starts_no_further_agent(seed: int) -> None:
    before = set(threading.enumerate())
    design = drawn(seed, 40)
    started: list[str] = []
    at_work: list[threading.Thread] = []
    enough, lock = min(3, design.shape.agents), threading.Lock()

    def ask(work: AgentRun) -> ToolResult:
        with lock:
            started.append(work.agent.id)
            place = len(started)
        if place <= enough:
            return ToolResult.ok("done")
        assert work.stop.wait(60)  # at work until the run is cancelled
        return ToolResult.failed("again")

    def watch(record: CallRecord) -> None:
        if len(started) >= enough:
            at_work.extend(set(threading.enumerate()) - before)
            raise CancelledError

    with pytest.raises(CancelledError):
        run_design(design, "?", ask, clock="wall", limits=RunLimits(concurrency=8, retries=9), watch=watch)
    assert not set(threading.enumerate()) - before
    assert not any(thread.is_alive() for thread in at_work)
    assert len(set(started)) == len(started)  # nobody was asked again


def test_an_agent_that_is_left_behind_is_not_asked_again() -> None:
    started = []

    def ask(work: AgentRun) -> ToolResult:
        started.append(work.attempt)
        assert work.stop.wait(60)
        return ToolResult.failed("too late")

    run = run_design(graph(reader("a")), "?", ask, clock="wall", limits=RunLimits(timeout=1, retries=5))
    for left in [thread for thread in threading.enumerate() if thread.name == "a"]:
        left.join(60)
    assert run.calls[0].status is Status.TIMEOUT
    assert started == [0]


def test_a_hanging_agent_is_cut_at_its_timeout_and_its_dependants_are_marked() -> None:
    freed = threading.Event()

    def ask(work: AgentRun) -> ToolResult:
        if work.agent.id == "w0":
            freed.wait(60)
        return ToolResult.ok("done")

    run = run_design(DIAMOND, "?", ask, clock="wall", limits=RunLimits(timeout=1))
    freed.set()
    calls = {call.id: call for call in run.calls}
    assert run.answer is None
    assert calls["w0"].status is Status.TIMEOUT
    assert calls["w0"].end - calls["w0"].start >= 1
    assert [call.id for call in run.calls if not was_run(call)] == ["m0", "n0", "end"]
    assert calls["m0"].error == "not run: it reads 'w0', which failed"
    assert calls["end"].error == "not run: it reads 'n0', which was not"
    assert {call.id for call in run.calls if call.status is Status.OK} == set(calls) - {"w0", "m0", "n0", "end"}


def test_virtual_time_is_that_of_the_longest_path_and_cost_is_that_of_all() -> None:
    run = run_design(DIAMOND, "?", answering(w3=4.0))
    assert run.seconds == 8.0
    assert run.cost == 8.0
    assert run.tokens == (160, 32)
    assert {call.id: (call.start, call.end) for call in run.calls}["m1"] == (5.0, 6.0)
    assert run == run_design(DIAMOND, "?", answering(w3=4.0))


@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_no_more_agents_work_at_a_time_than_the_limit_allows(clock: str) -> None:
    at_work, most, lock = 0, 0, threading.Lock()
    three = threading.Barrier(3, timeout=60)

    def ask(work: AgentRun) -> ToolResult:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        if clock == "wall" and work.agent.id in {"w0", "w1", "w2"}:
            three.wait()  # the first three of the eight that could be at work are, before one of them answers
        with lock:
            at_work -= 1
        return ToolResult(Status.OK, "done", seconds=1.0)

    run = run_design(DIAMOND, "?", ask, clock=clock, limits=RunLimits(concurrency=3))  # type: ignore[arg-type]
    assert run.answer == "done"
    if clock == "wall":
        assert most == 3
    else:
        assert run.seconds == 1 + (8 + 4) / 3 + 1 + 1
        ends = [call.end for call in run.calls]
        assert max(ends.count(end) for end in ends) == 3


def test_the_reply_takes_the_place_of_a_reference_and_is_not_read_again() -> None:
    started: dict[str, AgentRun] = {}

    def ask(work: AgentRun) -> ToolResult:
        started[work.agent.id] = work
        return ToolResult.ok({"a": "${b} costs $5", "b": "7"}.get(work.agent.id, "done"))

    design = graph(
        reader("a"), reader("b"), Agent("c", "CoTAgent", "Take ${a} and ${b}, and ${a} again; ${ d } stays.")
    )
    run = run_design(design, "How much?", ask)
    assert run.answer == "done"
    assert started["a"].text == "How much?"
    assert started["c"].input == "Take ${b} costs $5 and 7, and ${b} costs $5 again; ${ d } stays."
    assert started["c"].text.startswith("How much?\n")
    assert started["c"].text.endswith(started["c"].input)
    assert started["c"].given == {"a": "${b} costs $5", "b": "7"}
    assert run.calls[2].arguments == {"agent_input": started["c"].input}


def test_agents_are_given_whole_replies_and_the_run_answers_what_is_found_in_the_last() -> None:
    def ask(work: AgentRun) -> ToolResult:
        return ToolResult.ok(f"{work.agent.id} thinks: 4" if work.agent.id == "a" else f"[{work.input}|{work.given}]")

    run = run_design(graph(reader("a"), reader("b", "a")), "?", ask, read=lambda reply: reply[-1] + "!")
    assert run.calls[1].value == "[a thinks: 4|{'a': '4!'}]"
    assert run.answer == "]!"


def test_with_a_low_degree_an_input_is_taken_as_it_is() -> None:
    agent = Agent("out", "CoTAgent", "Solve ${x}^2 = 4$.")
    design = Design(dom="low", thinking="A test.", agents=(agent,), answer="out")
    run = run_design(design, "?", lambda work: ToolResult.ok(work.input))
    assert run.answer == "Solve ${x}^2 = 4$."


def test_a_direct_answer_needs_no_agent() -> None:
    run = run_design(Design(dom="high", thinking="Easy.", answer="42"), "?", answering())
    assert (run.answer, run.calls, run.seconds, run.cost) == ("42", (), 0.0, 0.0)


def failing(times: int, error: Exception | None = None) -> Ask:
    def ask(work: AgentRun) -> ToolResult:
        if work.attempt < times:
            if error is not None:
                raise error
            return msgspec.structs.replace(ToolResult.failed("no luck"), cost=0.25, seconds=2.0)
        inner = InnerCall("model", start=0.0, end=1.0)
        return ToolResult(Status.OK, "done", cost=0.5, seconds=1.0, children=(inner,))

    return ask


def test_an_agent_that_failed_is_asked_again_and_its_attempts_add_up() -> None:
    run = run_design(graph(reader("a")), "?", failing(2), limits=RunLimits(retries=2))
    assert run.answer == "done"
    assert (run.cost, run.seconds) == (1.0, 5.0)
    assert [(child.start, child.end) for child in run.calls[0].children] == [(4.0, 5.0)]


def test_an_agent_that_keeps_failing_is_recorded_as_failed_and_gives_no_answer() -> None:
    run = run_design(graph(reader("a"), reader("b", "a")), "?", failing(9), limits=RunLimits(retries=1))
    assert run.answer is None
    assert [(call.status, call.error) for call in run.calls] == [
        (Status.EXEC_ERR, "no luck"),
        (Status.EXEC_ERR, "not run: it reads 'a', which failed"),
    ]
    assert run.broken == ""


def test_a_model_that_cannot_be_reached_breaks_the_run_but_not_the_other_agents() -> None:
    def ask(work: AgentRun) -> ToolResult:
        if work.agent.id == "a":
            raise ExpertError("the server is down")
        return ToolResult.ok("done")

    run = run_design(graph(reader("a"), reader("b"), reader("c", "a", "b")), "?", ask)
    assert run.broken == "ExpertError: the server is down"
    assert run.answer is None
    assert [call.status for call in run.calls] == [Status.EXEC_ERR, Status.OK, Status.EXEC_ERR]
    assert run_design(graph(reader("a")), "?", failing(1, ExpertError("busy"))).broken == ""
    refused = run_design(graph(reader("a")), "?", failing(9, ExpertError("too long", outage=False)))
    assert (refused.answer, refused.broken, refused.calls[0].error) == (None, "", "ExpertError: too long")


def test_an_empty_answer_is_a_failure() -> None:
    run = run_design(graph(reader("a")), "?", lambda work: ToolResult.ok("  "))
    assert run.answer is None
    assert run.calls[0].error == "gave no answer"


def test_a_slow_simulated_agent_is_cut_at_its_timeout() -> None:
    run = run_design(graph(reader("a"), reader("b", "a")), "?", answering(a=7.0), limits=RunLimits(timeout=3.0))
    assert run.calls[0].status is Status.TIMEOUT
    assert (run.calls[0].end, run.seconds) == (3.0, 3.0)


def test_an_agent_that_costs_more_than_it_may_has_failed() -> None:
    run = run_design(graph(reader("a")), "?", failing(1), limits=RunLimits(agent_cost=0.6, retries=5))
    assert run.answer is None
    assert run.cost == 0.75
    assert run.calls[0].error == "cost $0.75, more than the $0.6 that an agent may"


def test_no_agent_is_started_when_the_budget_is_spent() -> None:
    run = run_design(DIAMOND, "?", answering(w0=0.5), limits=RunLimits(cost=1.0))
    assert run.answer is None
    assert run.cost == 4.5  # the eight agents side by side had been started before the first of them was paid
    assert {call.error for call in run.calls if call.id.startswith("m")} == {"not run: the budget of $1 is spent"}


def test_the_watcher_gets_every_record_once() -> None:
    seen: list[str] = []
    run_design(DIAMOND, "?", answering(), watch=lambda call: seen.append(call.id))
    assert sorted(seen) == sorted(agent.id for agent in DIAMOND.agents)
    assert seen[0] == "start"


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"retries": -1}, {"timeout": 0}, {"cost": -1.0}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=r"Expected|must be positive"):
        RunLimits(**wrong)  # type: ignore[arg-type]
