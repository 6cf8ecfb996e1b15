"""ReAct, RestGPT, depth-first search and DyLAN: the behaviour that defines each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import msgspec
import pytest

from examples.baselines.acting import DepthFirstSearch, ReAct, RestGPT
from examples.baselines.network import DyLAN, importance
from toolorchestra.agents.policies.base import Policy, play_episode
from toolorchestra.agents.policies.baselines import NO_ANSWER, Direct
from toolorchestra.agents.policies.expert_roles import ExpertRole, slug
from toolorchestra.agents.policies.scripted_questions import worded
from toolorchestra.envs.records.episode import ABANDONED, CallRecord
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import InnerCall, Status


def tool(name: str, price: float = 1.0, **parameters: Any) -> dict[str, Any]:
    about = f"Does {name}. ${price} per million tokens read, ${price} per million written."
    return {
        "type": "function",
        "function": {"name": name, "description": about, "parameters": {"properties": parameters}},
    }


EXPERTS = [
    tool(f"ask_{name}", price, question={"type": "string"}, context={"type": "array"})
    for name, price in (("big", 9), ("small", 1))
]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments}}


class Desk(gym.Env[Any, Any]):
    """An environment with scripted tools, whose state is the list of calls that were made and not taken back."""

    max_calls_per_message = 64

    def __init__(self, answer: Callable[[str, list[tuple[str, dict[str, Any]]], int], Any]) -> None:
        self.answer = answer
        self.state: list[tuple[str, dict[str, Any]]] = []
        self.asked = 0
        self.restored = 0
        self.notes: list[tuple[str, list[str]]] = []
        self.final_answer: str | None = None
        self.messages: list[dict[str, Any]] = []

    @property
    def play(self) -> Desk:
        return self

    def final(self, text: str) -> str:
        return f"final: {text}"

    def snapshot(self) -> Any:
        return list(self.state)

    def restore(self, snapshot: Any, *, keep_costs: bool = False) -> None:
        assert keep_costs
        self.state = list(snapshot)
        self.restored += 1

    def reset(self, **_: Any) -> tuple[str, dict[str, Any]]:
        self.messages = [{"role": "system", "content": "Rules."}, {"role": "user", "content": "Book it."}]
        return "", {"tools": [*EXPERTS, tool("look"), tool("book")], "messages": self.messages, "task_id": "t"}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if isinstance(action, str):
            self.final_answer = action.removeprefix("final: ")
            return "", 0.0, True, False, {"outcome": "solved"}
        if isinstance(action, dict):
            functions = [one["function"] for one in action["tool_calls"]]
            made = [(one["name"], msgspec.json.decode(one["arguments"])) for one in functions]
            self.notes.append((action["content"], [name for name, _ in made]))
        else:
            made = [(one["name"], one["arguments"]) for one in action]
        records = []
        for name, arguments in made:
            value = self.answer(name, self.state, self.asked)
            self.asked += name.startswith("ask_")
            if not name.startswith("ask_"):
                self.state.append((name, arguments))
            children = (InnerCall("m", value=f"<reasoning>Because of {self.asked}.</reasoning>"),)
            status = Status.EXEC_ERR if value is None else Status.OK
            records.append(CallRecord("c", name, arguments, status, value, children=children))
        return "", 0.0, False, False, {"calls": tuple(records), "messages": self.messages}


def play(policy: Policy, answer: Any) -> Desk:
    desk = Desk(answer)
    play_episode(desk, policy)
    return desk


def scripted(*replies: Any) -> Callable[..., Any]:
    """Return an answer function: experts give the replies in turn, and of the other tools only `broken` fails."""
    return lambda name, _, asked: replies[min(asked, len(replies) - 1)] if name.startswith("ask_") else "fine"


# ------------------------------------------------------------------------------------------------- ReAct, RestGPT


def test_react_keeps_each_thought_beside_the_action_that_it_led_to():
    desk = play(ReAct(), scripted(call("look"), call("book", day=1), {"answer": "Booked."}))
    assert desk.notes == [("Because of 1.", ["look"]), ("Because of 2.", ["book"])]
    assert desk.state == [("look", {}), ("book", {"day": 1})]
    assert desk.final_answer == "Booked."


def test_react_answers_after_its_last_action():
    desk = play(ReAct(steps=2), scripted(call("look"), call("look"), {"answer": "Enough."}))
    assert [name for name, _ in desk.state] == ["look", "look"]
    assert desk.final_answer == "Enough."
    assert play(ReAct(steps=2), scripted(call("look"))).final_answer == NO_ANSWER  # not even then


def test_rest_gpt_plans_in_words_and_lets_a_cheaper_expert_choose_the_call():
    desk = play(RestGPT(), scripted(call("book", day=1), call("look", day=1), {"answer": "Done."}))
    assert desk.notes == [("Plan: Does book. With: day 1.", ["ask_small"])]
    assert desk.state == [("look", {"day": 1})]  # what the selector chose
    assert worded(Call("book", {"days": ["Monday", "Friday"], "note": None}), "Book. Twice.") == (
        "Book. With: days Monday and Friday."
    )


def test_rest_gpt_makes_the_planners_call_where_the_selector_has_none():
    desk = play(RestGPT(), scripted(call("book", day=1), {"answer": "Which?"}, {"answer": "Done."}))
    assert desk.state == [("book", {"day": 1})]
    with pytest.raises(UnknownNameError, match="available expert"):
        play(RestGPT(selector="zoe"), scripted({"answer": "Done."}))


def test_the_planner_hears_of_errors_and_plans_anew():
    env = gym.make("ToolOrchestra-Restaurant-v0", tools="full").unwrapped
    asked = []
    for seed in range(8):
        play_episode(env, RestGPT(), seed=seed, options={"split": "test"})
        names = [one.name for one in env.episode.calls]  # type: ignore[attr-defined]
        asked.append([name for name in names if name.startswith("ask_")])
    assert {name for names in asked for name in names[::2]} == {"ask_gpt_5"}
    assert any(len(set(names[1::2])) == 1 and names[1] != "ask_gpt_5" for names in asked if len(names) > 1)


# ---------------------------------------------------------------------------------------------- depth-first search


def test_a_call_that_fails_is_taken_back_and_another_is_tried():
    def answer(name: str, state: Sequence[Any], asked: int) -> Any:
        if name == "book":
            return None
        replies = [call("book"), call("look"), {"answer": "Done."}]
        return replies[asked] if name.startswith("ask_") else "fine"

    desk = play(DepthFirstSearch(), answer)
    assert desk.restored == 1
    assert desk.state == [("look", {})]  # nothing is left of the failed booking
    ((note, names),) = desk.notes
    assert "tried from here and taken back: book {}" in note
    assert names == ["ask_big"]
    assert desk.final_answer == "Done."


def test_a_state_at_which_the_expert_gives_up_is_left_for_the_one_before():
    replies = [call("look"), {"answer": "Give up: there is no table."}, call("book"), {"answer": "Booked."}]
    desk = play(DepthFirstSearch(), scripted(*replies))
    assert desk.restored == 1
    assert desk.state == [("book", {})]
    assert desk.final_answer == "Booked."


def test_what_was_tried_is_not_tried_again_until_the_search_ends():
    desk = play(DepthFirstSearch(width=2, depth=1), lambda name, state, asked: _stubborn(name, state))
    assert desk.restored == 1  # below the first call nothing may be called: back to the root, where nothing is new
    assert desk.final_answer == "After all."


def _stubborn(name: str, state: Sequence[Any]) -> Any:
    return ({"answer": "After all."} if len(state) > 1 else call("look", n=len(state))) if "ask" in name else "fine"


def test_what_abandoned_branches_cost_stays_in_the_record_and_their_writes_do_not():
    env = gym.make("ToolOrchestra-Restaurant-v0", tools="full").unwrapped
    for seed in range(40):
        play_episode(env, DepthFirstSearch(expert="qwen3_32b"), seed=seed, options={"split": "test"})
        episode = env.episode  # type: ignore[attr-defined]
        if ABANDONED in episode.details:
            break
    spent = episode.details[ABANDONED]
    assert spent["turns"] >= 1 <= spent["calls"]
    assert spent["cost"] > 0 < spent["clock"]
    assert episode.cost_parts[ABANDONED] == spent["cost"]
    assert sum(episode.cost_parts.values()) == pytest.approx(episode.cost)
    assert sum(episode.clock_parts.values()) == pytest.approx(episode.clock)
    assert all(one.status is Status.OK for one in episode.calls)  # the failed calls were taken back
    kept, outcome = list(episode.turns), episode.outcome
    env.reset(seed=seed, options={"split": "test"})
    for turn in kept:  # the branch that is left comes to the same, without those that were abandoned
        env.step(turn.message)
    again = env.episode  # type: ignore[attr-defined]
    assert again.outcome == outcome
    assert again.cost == pytest.approx(episode.cost - spent["cost"])


def test_costs_of_another_episode_are_not_kept():
    env = gym.make("ToolOrchestra-Restaurant-v0").unwrapped
    env.reset(seed=1)
    snapshot = env.snapshot()  # type: ignore[attr-defined]
    env.reset(seed=2)
    with pytest.raises(OptionError, match="snapshot of the episode in progress"):
        env.restore(snapshot, keep_costs=True)  # type: ignore[attr-defined]


# ----------------------------------------------------------------------------------------------------------- DyLAN


def experts(*names: str) -> list[ExpertRole]:
    return [ExpertRole(name, "answer", f"ask_{name}", "question") for name in names]


def answers(**of: str) -> Callable[..., Any]:
    """Return an answer function: each expert gives the letters of its word in turn."""
    counts = dict.fromkeys(of, 0)

    def answer(name: str, *_: Any) -> Any:
        who = name.removeprefix("ask_")
        counts[who] += 1
        return {"answer": of[who][min(counts[who], len(of[who])) - 1]}

    return answer


def test_dylan_stops_as_soon_as_enough_agree_and_goes_on_otherwise():
    assert play(DyLAN(), answers(big="A", small="A")).asked == 2
    desk = play(DyLAN(rounds=3), answers(big="ABC", small="BCC"))
    assert desk.asked == 6
    assert desk.final_answer == "C"
    assert play(DyLAN(rounds=2), answers(big="ABC", small="BCC")).asked == 4
    assert play(DyLAN(rounds=2, keep=1), answers(big="AC", small="B")).final_answer == "C"


def test_importance_flows_back_along_agreement():
    a, b, c = experts("a", "b", "c")
    one_round = importance([[(a, "1"), (b, "1"), (c, "2")]], "1")
    assert one_round == {"a": 0.5, "b": 0.5, "c": 0.0}
    two = importance([[(a, "1"), (b, "2"), (c, "3")], [(a, "1"), (b, "1")]], "1")
    assert two == pytest.approx({"a": 0.5 + 1.0, "b": 0.5, "c": 0.0})  # both came to what a had said first


def test_the_team_is_chosen_without_outcomes_and_beats_one_expert():
    env = gym.make("ToolOrchestra-Math-v0", tools="full")
    policy = DyLAN.fit(env, questions=20, size=3)
    assert len(policy.team or ()) == 3
    assert {"gpt_5", "gpt_5_mini"} <= set(policy.team or ())
    solved = [
        sum(play_episode(env, one, seed=seed, options={"split": "test"})["outcome"] == "solved" for seed in range(100))
        for one in (Direct(expert=slug("gpt-5-mini")), policy)
    ]
    assert solved[1] > solved[0] + 3


@pytest.mark.parametrize(
    "make", [lambda: ReAct(steps=0), lambda: DepthFirstSearch(width=0), lambda: DyLAN(rounds=0), lambda: DyLAN(team=[])]
)
def test_impossible_options_are_refused(make: Callable[[], Policy]):
    with pytest.raises(OptionError):
        make()
