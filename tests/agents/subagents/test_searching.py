"""Sub-agents that search: what they look up, what they do without results, and that searching pays."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.agents.subagents import SubAgentQuestion, chain_of_thought, knowledge_searcher, search_agent
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult

WORDS = ("Who wrote The Notes?", "Where was Ada Lovelace born?", "On which river does Thornby lie?")


def rivers(number: int, difficulty: float = 0.0, hops: int = 3) -> SubAgentQuestion:
    steps = (
        Step("Ada Lovelace", ("Bea",), (), difficulty),
        Step("Thornby", ("Elmby",), (0,), difficulty),
        Step("the Wend", ("the Ouse",), (1,), difficulty),
    )
    problem = Problem(f"rivers {number}", "search", steps[:hops])
    return SubAgentQuestion("On which river was the author of The Notes born?", problem, WORDS[:hops], seed=number)


# ---------------------------------------------------------------------------------------------------- scripted


def test_a_knowledge_searcher_searches_once_and_answers_from_what_it_found(search: Any) -> None:
    chat = ScriptedChat(["<query>\nThe Notes\nAda Lovelace\n</query>", r"<answer>\boxed{Thornby}</answer>"])
    reply = knowledge_searcher(chat, SubAgentQuestion("Where was the author of The Notes born?"), search=search)
    assert reply.answer == "Thornby"
    assert search.calls == [["The Notes", "Ada Lovelace"]]
    assert [child.name for child in reply.children] == ["scripted", "local_search", "scripted"]
    assert "The Notes: The Notes were written by Ada Lovelace." in chat.requests[1].messages[1]["content"]
    assert reply.text.startswith(
        "<query>\nThe Notes\nAda Lovelace\n</query>\n<search_result>\n# The Notes\nThe Notes: "
    )
    assert reply.text.endswith(r"<answer>\boxed{Thornby}</answer>")


@pytest.mark.parametrize("written", ["<query>\n\n</query>", "I will search.", ""])
def test_without_a_query_the_question_itself_is_one(search: Any, written: str) -> None:
    reply = knowledge_searcher(
        ScriptedChat([written, r"\boxed{Wend}"]), SubAgentQuestion("Where is Thornby?"), search=search
    )
    assert search.calls == [["Where is Thornby?"]]
    assert reply.answer == "Wend"


def test_a_model_that_answers_at_once_need_not_search(search: Any) -> None:
    assert (
        knowledge_searcher(ScriptedChat([r"\boxed{4}"]), SubAgentQuestion("What is 2 + 2?"), search=search).answer
        == "4"
    )
    assert search_agent(ScriptedChat([r"\boxed{4}"]), SubAgentQuestion("What is 2 + 2?"), search=search).answer == "4"
    assert search.calls == []


def test_a_search_agent_asks_on_from_what_it_has_found(search: Any) -> None:
    chat = ScriptedChat(["<query>The Notes</query>", "<query>Ada Lovelace</query>", r"\boxed{Thornby}"])
    reply = search_agent(chat, SubAgentQuestion("Where was the author of The Notes born?"), search=search)
    assert (reply.answer, search.calls) == ("Thornby", [["The Notes"], ["Ada Lovelace"]])
    shown = chat.requests[2].messages[1]["content"]
    assert "written by Ada Lovelace" in shown
    assert "born in Thornby" in shown


def test_a_model_without_a_new_query_must_answer(search: Any) -> None:
    chat = ScriptedChat(["<query>The Notes</query>", "<query>The Notes</query>", "<answer>Ada</answer>"])
    assert search_agent(chat, SubAgentQuestion("Who?"), search=search).answer == "Ada"
    assert search.calls == [["The Notes"]]


def test_a_search_agent_searches_a_bounded_number_of_times(search: Any) -> None:
    asking = ScriptedChat(lambda request: f"<query>Thornby {len(asking.requests)}</query>")
    reply = search_agent(asking, SubAgentQuestion("Where?"), search=search, turns=3)
    assert (len(search.calls), reply.answer) == (3, "")
    assert len(reply.children) == 3 * 2 + 1


def test_the_model_sees_that_a_search_failed() -> None:
    class Broken(Tool):
        def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return ToolResult.failed("The index is away.")

    queries = ParameterSpec(type="array", items="string", description="Queries.")
    chat = ScriptedChat(["<query>Thornby</query>", r"\boxed{Wend}"])
    reply = knowledge_searcher(
        chat, SubAgentQuestion("?"), search=Broken("search", "Searches.", {"query_list": queries})
    )
    assert "The search failed: The index is away." in chat.requests[1].messages[1]["content"]
    assert (reply.answer, reply.error) == ("Wend", None)
    assert reply.children[1].error == "The index is away."


@pytest.mark.parametrize(
    ("value", "shown"), [("Thornby lies north.", "Thornby lies north."), ({"hits": 1}, '{"hits":1}')]
)
def test_a_search_may_show_what_it_finds_in_its_own_way(value: Any, shown: str) -> None:
    class Other(Tool):
        def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return ToolResult.ok(value)

    queries = ParameterSpec(type="array", items="string", description="Queries.")
    chat = ScriptedChat(["<query>Thornby</query>", r"\boxed{Wend}"])
    knowledge_searcher(chat, SubAgentQuestion("?"), search=Other("search", "Searches.", {"query_list": queries}))
    assert f"<search_result>\n{shown}\n</search_result>" in chat.requests[1].messages[1]["content"]


# --------------------------------------------------------------------------------------------------- simulated


def test_a_simulated_search_agent_goes_from_hop_to_hop(simulated: Callable[..., SimulatedChat], search: Any) -> None:
    reply = search_agent(simulated(), rivers(0, difficulty=-50), search=search)
    assert search.calls == [[words] for words in WORDS]
    assert reply.answer == "the Wend"


def test_one_search_finds_the_first_hop_only(simulated: Callable[..., SimulatedChat], search: Any) -> None:
    knowledge_searcher(simulated(), rivers(0, difficulty=-50), search=search)
    assert search.calls == [[WORDS[0]]]


def test_searching_beats_recalling_and_turn_by_turn_beats_searching_once(
    simulated: Callable[..., SimulatedChat], search: Any
) -> None:
    model = simulated(skills={"other": 0.95})
    agents = (
        lambda question: chain_of_thought(model, question),
        lambda question: knowledge_searcher(model, question, search=search),
        lambda question: search_agent(model, question, search=search),
    )
    for hops, right in ((1, "Ada Lovelace"), (3, "the Wend")):
        questions = [rivers(number, hops=hops) for number in range(200)]
        recalled, once, turns = (mean(agent(question).answer == right for question in questions) for agent in agents)
        if hops == 1:
            assert recalled + 0.25 < once <= turns
        else:
            assert recalled < once < turns - 0.3


def test_a_question_of_which_only_the_answer_is_known_is_searched_in_its_own_words(
    simulated: Callable[..., SimulatedChat], search: Any
) -> None:
    problem = Problem.chain("t", "search", 2, "the Wend", ("the Ouse",), -50)
    question = SubAgentQuestion("Where does Thornby lie?", problem)
    for agent in (knowledge_searcher, search_agent):
        assert agent(simulated(), question, search=search).answer == "the Wend"
    assert search.calls == [["Where does Thornby lie?"]] * 2
