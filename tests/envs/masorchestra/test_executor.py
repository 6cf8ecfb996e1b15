from __future__ import annotations

import threading
import time

import msgspec
import pytest

from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.executor import Ask, RunLimits, Work, run_design, was_run
from toolorchestra.toolscale.errors import ExpertError, OptionError
from toolorchestra.toolscale.tool import InnerCall, Status, ToolResult


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

    def ask(work: Work) -> ToolResult:
        took = by_agent.get(work.agent.id, seconds)
        return ToolResult(Status.OK, work.agent.id, cost=cost, seconds=took, tokens=(10, 2))

    return ask


def test_a_wide_diamond_takes_little_more_than_its_critical_path_in_real_time() -> None:
    def ask(work: Work) -> ToolResult:
        time.sleep(0.1)
        return ToolResult.ok("done")

    runs = [run_design(DIAMOND, "?", ask, clock="wall") for _ in range(3)]  # the machine may be busy once
    assert (DIAMOND.shape.agents, DIAMOND.shape.width) == (16, 8)
    assert {run.answer for run in runs} == {"done"}
    assert min(run.seconds for run in runs) <= 1.25 * 0.1 * DIAMOND.shape.length


def test_a_hanging_agent_is_cut_at_its_timeout_and_its_dependants_are_marked() -> None:
    freed = threading.Event()

    def ask(work: Work) -> ToolResult:
        if work.agent.id == "w0":
            freed.wait(60)
        return ToolResult.ok("done")

    run = run_design(DIAMOND, "?", ask, clock="wall", limits=RunLimits(timeout=0.3))
    freed.set()
    calls = {call.id: call for call in run.calls}
    assert run.answer is None
    assert calls["w0"].status is Status.TIMEOUT
    assert calls["w0"].end - calls["w0"].start == pytest.approx(0.3, abs=0.2)
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

    def ask(work: Work) -> ToolResult:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.005 if clock == "wall" else 0)
        with lock:
            at_work -= 1
        return ToolResult(Status.OK, "done", seconds=1.0)

    run = run_design(DIAMOND, "?", ask, clock=clock, limits=RunLimits(concurrency=3))  # type: ignore[arg-type]
    assert run.answer == "done"
    if clock == "wall":
        assert 2 <= most <= 3
    else:
        assert run.seconds == 1 + (8 + 4) / 3 + 1 + 1
        ends = [call.end for call in run.calls]
        assert max(ends.count(end) for end in ends) == 3


def test_only_the_answer_takes_the_place_of_a_reference_and_is_not_read_again() -> None:
    asked: dict[str, Work] = {}

    def ask(work: Work) -> ToolResult:
        asked[work.agent.id] = work
        return ToolResult.ok({"a": "${b} costs $5", "b": "7"}.get(work.agent.id, "done"))

    design = graph(
        reader("a"), reader("b"), Agent("c", "CoTAgent", "Take ${a} and ${b}, and ${a} again; ${ d } stays.")
    )
    run = run_design(design, "How much?", ask)
    assert run.answer == "done"
    assert asked["a"].text == "How much?"
    assert asked["c"].input == "Take ${b} costs $5 and 7, and ${b} costs $5 again; ${ d } stays."
    assert asked["c"].text.startswith("How much?\n")
    assert asked["c"].text.endswith(asked["c"].input)
    assert asked["c"].given == {"a": "${b} costs $5", "b": "7"}
    assert run.calls[2].arguments == {"agent_input": asked["c"].input}


def test_with_a_low_degree_an_input_is_taken_as_it_is() -> None:
    agent = Agent("out", "CoTAgent", "Solve ${x}^2 = 4$.")
    design = Design(dom="low", thinking="A test.", agents=(agent,), answer="out")
    run = run_design(design, "?", lambda work: ToolResult.ok(work.input))
    assert run.answer == "Solve ${x}^2 = 4$."


def test_a_direct_answer_needs_no_agent() -> None:
    run = run_design(Design(dom="high", thinking="Easy.", answer="42"), "?", answering())
    assert (run.answer, run.calls, run.seconds, run.cost) == ("42", (), 0.0, 0.0)


def failing(times: int, error: Exception | None = None) -> Ask:
    def ask(work: Work) -> ToolResult:
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
    def ask(work: Work) -> ToolResult:
        if work.agent.id == "a":
            raise ExpertError("the server is down")
        return ToolResult.ok("done")

    run = run_design(graph(reader("a"), reader("b"), reader("c", "a", "b")), "?", ask)
    assert run.broken == "ExpertError: the server is down"
    assert run.answer is None
    assert [call.status for call in run.calls] == [Status.EXEC_ERR, Status.OK, Status.EXEC_ERR]
    assert run_design(graph(reader("a")), "?", failing(1, ExpertError("busy"))).broken == ""


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


def test_whoever_watches_is_told_every_record_once() -> None:
    seen: list[str] = []
    run_design(DIAMOND, "?", answering(), watch=lambda call: seen.append(call.id))
    assert sorted(seen) == sorted(agent.id for agent in DIAMOND.agents)
    assert seen[0] == "start"


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"retries": -1}, {"timeout": 0}, {"cost": -1.0}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=r"Expected|must be positive"):
        RunLimits(**wrong)  # type: ignore[arg-type]
