from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from toolorchestra.envs.executor import ToolFaultWarning
from toolorchestra.envs.play import EpisodeLimits, Play, PlayStart
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.spaces import MAX_OBSERVATION_CHARACTERS
from toolorchestra.envs.tool_calling import CUT_NOTE, ToolCallingPlay
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import Verdict
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult

Make = Callable[..., Play]
BOMB = "An answer that makes the verifier fail."


class Broken(Tool):
    """A tool with a fault."""

    effect = "write"

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.session.execute("DELETE FROM items")
        raise KeyError("an infrastructure error")


class Bombed(Tool):
    """A tool that some arguments make fail."""

    effect = "write"

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        context.session.execute("DELETE FROM items")
        raise OverflowError(arguments["number"])


class Long(Tool):
    """A tool that returns a lot."""

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.ok('"\\\n' * 100_000)


class World:
    """The mini domain, with tools and a verifier that fail."""

    def __init__(self, domain: Domain, judge_fails: bool = False) -> None:
        self.domain = domain
        self.name = domain.name
        self.rules = domain.rules
        number = {"number": ParameterSpec(type="integer", description="n")}
        own = (Broken("broken", "d", {}), Bombed("bombed", "d", number), Long("long", "d", {}))
        self.tools = domain.tools | {tool.name: tool for tool in own}
        self.judge_fails = judge_fails

    def session(self) -> Session:
        return self.domain.session()

    def verify(self, task: Task, session: Session, answer: str) -> Verdict:
        if self.judge_fails or answer == BOMB:
            raise ZeroDivisionError("the judge has a fault")
        return self.domain.verify(task, session, answer)


@pytest.fixture
def play(mini: Domain, session: Session) -> Make:
    def make(intent: str = "order_twice", judge_fails: bool = False, **limits: Any) -> Play:
        world = World(mini, judge_fails)
        task = next(task for task in mini.tasks() if task.intent == intent)
        episode = Episode(
            env_id="e", task_id=task.id, split=task.split, difficulty=task.difficulty, prompt="p",
            instruction=task.instruction, tools=tuple(world.tools),
        )  # fmt: skip
        return ToolCallingPlay(PlayStart(world, session, task, episode, EpisodeLimits(**limits)))

    return make


def reference_calls(play: Play) -> list[Any]:
    return [[{"name": call.name, "arguments": call.arguments}] for call in play.task.reference_calls]


def test_the_reference_trajectory_and_answer_solve_the_task(play: Make) -> None:
    one = play()
    for action in reference_calls(one):
        turn = one.act(action)
        assert '"status":"OK"' in turn.observation
        assert not one.over
    one.act(one.task.answer)
    assert (one.episode.outcome, one.episode.reward, one.episode.why) == ("solved", 1.0, "solved")
    assert one.verdict is not None
    assert one.verdict.solved
    assert not one.truncated


def test_an_answer_without_the_work_fails(play: Make) -> None:
    one = play()
    one.act(one.task.answer)
    assert (one.episode.outcome, one.episode.reward) == ("failed", 0.0)
    assert one.episode.why.startswith("execution: ")


def test_the_conversation_is_kept_in_openais_form(play: Make) -> None:
    one = play("ask_price")
    one.act({"content": "Let me see.", "tool_calls": [{"id": "a", "name": "count_orders"}]})
    one.act('So.<tool_call>{"name": "count_orders"}</tool_call>')
    one.act("Forty.")
    roles = [message["role"] for message in one.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    structured, result, written, second, answer = one.messages[2:]
    assert structured["tool_calls"][0]["function"] == {"name": "count_orders", "arguments": "{}"}
    assert result == {"role": "tool", "tool_call_id": "a", "name": "count_orders", "content":
                      '{"id":"a","name":"count_orders","status":"OK","result":40}'}  # fmt: skip
    assert written["content"] == 'So.<tool_call>{"name": "count_orders"}</tool_call>'
    assert second["tool_call_id"] == "call_2"
    assert answer == {"role": "assistant", "content": "Forty."}


def test_the_metrics_are_calls_outcome_cost_and_time(play: Make) -> None:
    one = play("ask_price")
    for action in [*reference_calls(one), [{"name": "count_orders"}] * 2, [{"name": "nothing"}]]:
        one.act(action)
    one.act(one.task.answer)
    names = one.episode.tools
    expected = np.zeros(len(names) + 3)
    expected[names.index("get_order")] = 1
    expected[names.index("count_orders")] = 2
    expected[-3:] = 1.0, -0.01, -(0.25 + 0.1)
    np.testing.assert_allclose(one.metrics, expected)
    assert one.episode.metrics == tuple(one.metrics)


@pytest.mark.parametrize(
    ("limits", "why", "turns"),
    [
        ({"turns": 3}, "no answer after 3 turns", 3),
        ({"cost": 0.015}, "the budget of $0.015 is spent", 2),
        ({"seconds": 0.6}, "the time of 0.6 s is spent", 3),
    ],
)
def test_limits_end_an_episode(play: Make, limits: dict[str, Any], why: str, turns: int) -> None:
    one = play("ask_price", **limits)
    for _ in range(turns):
        assert not one.over
        one.act(reference_calls(one)[0])
    assert (one.episode.outcome, one.episode.why, one.episode.reward) == ("failed", why, 0.0)
    assert one.truncated
    called = {"get_order": turns}
    assert one.episode.metrics == pytest.approx(
        [*(called.get(name, 0) for name in one.episode.tools), 0.0, -0.01 * turns, -0.25 * turns]
    )
    with pytest.raises(OptionError, match="The episode is over"):
        one.act("again")


def test_an_answer_in_the_last_turn_counts(play: Make) -> None:
    one = play("ask_price", turns=2)
    one.act(reference_calls(one)[0])
    one.act(one.task.answer)
    assert (one.episode.outcome, one.truncated) == ("solved", False)


@pytest.mark.parametrize(("name", "value"), [("turns", 0), ("cost", -1.0), ("seconds", float("nan"))])
def test_limits_must_be_positive(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"`max_{name}` must be positive"):
        EpisodeLimits(**{name: value})  # type: ignore[arg-type]


def test_a_fault_of_a_tool_is_an_infra_error_without_a_reward(play: Make, session: Session) -> None:
    one = play()
    turn = one.act([{"name": "count_orders"}, {"name": "broken"}])
    assert (one.episode.outcome, one.episode.reward, one.truncated) == ("infra_error", None, True)
    assert "KeyError: 'an infrastructure error'" in one.episode.why
    assert one.episode.turns == [turn]
    assert session.touched() == {}
    assert one.metrics is None


def test_arguments_that_make_a_tool_fail_leave_the_episode_judged(play: Make, session: Session) -> None:
    one = play()
    with pytest.warns(ToolFaultWarning, match="'bombed' raised OverflowError"):
        turn = one.act([{"name": "bombed", "arguments": {"number": 9**15}}])
    assert (one.over, turn.calls[0].status) == (False, "EXEC_ERR")
    assert session.touched() == {}
    one.act("I give up.")
    assert (one.episode.outcome, one.episode.reward) == ("failed", 0.0)


def test_a_fault_of_the_verifier_is_a_judge_error_without_a_reward(play: Make) -> None:
    one = play(judge_fails=True)
    one.act("Done.")
    assert (one.episode.outcome, one.episode.reward, one.truncated) == ("judge_error", None, True)
    assert one.episode.why == "ZeroDivisionError: the judge has a fault"


def test_an_answer_that_makes_the_verifier_fail_is_wrong(play: Make) -> None:
    one = play()
    one.act(BOMB)
    assert (one.episode.outcome, one.episode.reward, one.truncated) == ("failed", 0.0, False)
    assert one.episode.why == "answer: the answer cannot be judged (ZeroDivisionError)"
    assert one.episode.answer == BOMB


def test_long_results_are_cut(play: Make) -> None:
    one = play(result_characters=100)
    turn = one.act([{"name": "long"}])
    assert len(turn.observation) < 500
    assert CUT_NOTE in turn.observation
    assert turn.calls[0].value == '"\\\n' * 100_000


def test_observations_are_bounded_for_any_number_of_calls(play: Make) -> None:
    one = play(result_characters=10**6)
    for count in (1, 5, 64):
        calls = [{"id": f"{chr(1) * 60}{i}", "name": "long"} for i in range(count - 1)]
        turn = one.act([*calls, {"name": chr(1) * 10**5}])
        assert len(turn.calls) == count
        assert len(turn.observation) <= MAX_OBSERVATION_CHARACTERS


def test_a_snapshot_restores_the_whole_episode(play: Make, mini: Domain) -> None:
    one = play()
    first, second, third, *rest = reference_calls(one)
    one.act(first)
    one.act(second)
    snapshot = one.snapshot()
    before = one.episode.to_json()
    outcomes = []
    for _ in range(3):
        for action in (third, *rest, one.task.answer):
            one.act(action)
        outcomes.append((one.episode.to_json(), one.messages, tuple(one.metrics)))
        session = mini.session() if len(outcomes) == 2 else one.session
        one = snapshot.restored(session)
        assert one.episode.to_json() == before
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert one.act([{"name": "count_orders"}]).calls[0].id == "call_3"
