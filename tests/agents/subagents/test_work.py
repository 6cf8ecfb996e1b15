"""What sub-agents cost: the reply's dollars, tokens and seconds are those of its children, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion, ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.agents.subagents import (
    SUBAGENTS,
    SubAgentQuestion,
    SubAgentReply,
    chain_of_thought,
    code_reasoner,
    critical_reviewer,
    debate,
    ensemble_solver,
    final_answer,
    knowledge_searcher,
    reflexion,
    search_agent,
    self_consistency,
    standard_reasoner,
)
from toolorchestra.agents.subagents.work import Ask, Work, found_in
from toolorchestra.toolscale.common.errors import ExpertError, OptionError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import InnerCall, Status, Tool, ToolResult

REASON = [chain_of_thought, self_consistency, debate, reflexion, standard_reasoner, ensemble_solver]
READ = [critical_reviewer, final_answer]
SEARCH = [knowledge_searcher, search_agent]
ALL = [*REASON, *READ, *SEARCH, code_reasoner]
FACTS = Problem("f", "search", (Step("Ada Lovelace", ("Bea",)), Step("Thornby", ("Wend",), (0,))))
WORDS = ("Who wrote The Notes?", "Where was Ada Lovelace born?")


def reply_of(agent: Any, model: Any, search: Tool, python: Tool, seed: int = 0) -> SubAgentReply:
    question = SubAgentQuestion(
        "What is it?",
        FACTS if agent in SEARCH else Problem.chain(f"p{seed}", "math", 4, "12", ("13", "14")),
        WORDS if agent in SEARCH else (),
        candidates=("13", "12") if agent in READ else (),
        seed=seed,
    )
    tools = {"search": search} if agent in SEARCH else {"python": python} if agent is code_reasoner else {}
    return agent(model, question, **tools)


@pytest.mark.parametrize("agent", ALL)
def test_a_reply_costs_what_its_calls_cost(
    agent: Any, simulated: Callable[..., SimulatedChat], search: Tool, python: Tool
) -> None:
    for seed in range(30):
        model = simulated()
        reply = reply_of(agent, model, search, python, seed)
        assert reply.children
        assert reply.cost == sum(child.cost for child in reply.children)
        assert reply.tokens == tuple(sum(child.tokens[i] for child in reply.children) for i in (0, 1))
        assert reply.seconds == max(child.end for child in reply.children)
        # and nothing that the model was asked is left out
        models = [child for child in reply.children if child.name == "ada"]
        assert model.meter.usage.calls == len(models)
        assert (model.meter.usage.prompt_tokens, model.meter.usage.completion_tokens) == reply.tokens
        assert model.meter.usage.cost == pytest.approx(sum(child.cost for child in models))


@pytest.mark.parametrize("agent", ALL)
def test_the_same_question_has_the_same_reply(
    agent: Any, simulated: Callable[..., SimulatedChat], search: Tool, python: Tool
) -> None:
    first, second, other = (reply_of(agent, simulated(), search, python, seed) for seed in (0, 0, 1))
    assert first == second
    assert first.seconds != other.seconds


@pytest.mark.parametrize("agent", ALL)
def test_a_model_that_fails_for_good_passes_through(agent: Any, search: Tool, python: Tool) -> None:
    down = ScriptedChat(lambda request: ExpertError("The server is down."))
    with pytest.raises(ExpertError, match="The server is down"):
        reply_of(agent, down, search, python)


def test_a_simulated_model_needs_the_truth(simulated: Callable[..., SimulatedChat]) -> None:
    with pytest.raises(OptionError, match="expected a request with `ground_truth`"):
        chain_of_thought(simulated(), SubAgentQuestion("What is it?"))


def test_requests_made_at_once_run_concurrently_and_others_in_turn() -> None:
    seconds = iter((3.0, 1.0, 2.0, 4.0))
    chat = ScriptedChat(lambda request: Completion("4", latency=next(seconds), cost=0.5, prompt_tokens=2))
    work = Work(SubAgentQuestion("What is it?"), 0.5)
    ask = Ask("You add.", "2 + 2")
    work.ask(chat, ask, ask, ask)
    work.ask(chat, ask)
    reply = work.reply("4", "4")
    assert [(child.start, child.end) for child in reply.children] == [(0, 3), (0, 1), (0, 2), (3, 7)]
    assert (reply.seconds, reply.cost, reply.tokens) == (7.0, 2.0, (8, 0))


def test_several_models_are_each_asked_in_one_batch() -> None:
    class Counting(ScriptedChat):
        batches: list[int]

        def complete(self, requests: Any) -> list[Completion]:
            self.batches = [*getattr(self, "batches", []), len(requests)]
            return super().complete(requests)

    first, second = (Counting(lambda request, name=name: name, name=name) for name in ("first", "second"))
    work = Work(SubAgentQuestion("What is it?"), 0.5)
    ask = Ask("You add.", "2 + 2")
    assert work.ask_all([(first, ask), (second, ask), (first, ask)]) == ["first", "second", "first"]
    assert [child.name for child in work.reply("", "").children] == ["first", "second", "first"]
    assert (first.batches, second.batches) == ([2], [1])


def test_requests_differ_in_their_seeds_and_questions_in_theirs() -> None:
    seeds: list[int | None] = []

    def answer(request: ChatRequest) -> str:
        seeds.append(request.seed)
        return r"\boxed{4}"

    for seed in (0, 1, 7**30):
        self_consistency(ScriptedChat(answer), SubAgentQuestion("What is it?", seed=seed))
    assert len(set(seeds)) == 15
    assert all(seed is not None and 0 <= seed < 2**31 for seed in seeds)


def test_a_tools_own_calls_stand_under_it() -> None:
    class Asking(Tool):
        def run(self, arguments: dict[str, Any], session: Any) -> ToolResult:
            inner = (InnerCall("expert", cost=0.5, tokens=(3, 4), end=2.0),)
            return ToolResult(Status.OK, "4", cost=0.5, seconds=2.0, tokens=(3, 4), children=inner)

    work = Work(SubAgentQuestion("What is it?"), 0.5)
    work.run(Asking("ask", "Asks.", {}, price=0.25, latency=1.0), {})
    reply = work.reply("4", "4")
    (child,) = reply.children
    assert (child.name, child.value, child.cost, child.tokens, child.start, child.end) == (
        "ask",
        "4",
        0.75,
        (3, 4),
        0,
        3,
    )
    assert child.children[0].name == "expert"
    assert (reply.cost, reply.tokens, reply.seconds) == (0.75, (3, 4), 3.0)


def test_arguments_that_do_not_fit_a_tool_are_a_failed_call() -> None:
    class Strict(Tool):
        def run(self, arguments: dict[str, Any], session: Any) -> ToolResult:
            raise AssertionError("It must not run.")

    work = Work(SubAgentQuestion("What is it?"), 0.5)
    short = ParameterSpec(type="string", description="The program.", max_length=3)
    result = work.run(Strict("python", "Runs Python.", {"code": short}), {"code": "print(4)"})
    assert result.status is Status.PARSE_ERR
    assert work.reply("", "").children[0].error == result.error


def test_facts_are_found_where_passages_state_them() -> None:
    reply_of = SubAgentQuestion("Where?", FACTS, WORDS)
    assert found_in(reply_of, "The Notes were written by Ada Lovelace.") == (0,)
    assert found_in(reply_of, "Ada Lovelace was born in Thornby.") == (0, 1)
    assert found_in(reply_of, "Nothing of the sort.") == ()
    listed = Problem("l", "search", (Step("the opera Elm, the opera Oak and the opera Yew"),))
    works = "Known works: the opera Elm (1811), the opera Oak (1812) and the opera Yew (1813)."
    assert found_in(SubAgentQuestion("Which?", listed, ("Which operas?",)), works) == (0,)
    river = Problem("r", "search", (Step("the Wend"),))
    assert found_in(SubAgentQuestion("Where?", river, ("On which river?",)), "Thornby lies on the river Wend.") == (0,)


def test_where_no_words_of_steps_are_known_the_answer_stands_for_all() -> None:
    chain = Problem.chain("c", "search", 3, "Thornby")
    assert found_in(SubAgentQuestion("Where?", chain), "The right place: Thornby.") == (0, 1, 2)
    assert found_in(SubAgentQuestion("Where?", chain), "The right place.") == ()


def test_batches_that_fail_in_part_raise_what_the_model_raises() -> None:
    answers = iter(["4", ExpertError("Too long.")])
    with pytest.raises(BatchError, match="1 of 2 requests failed"):
        Work(SubAgentQuestion("?"), 0.5).ask(
            ScriptedChat(lambda request: next(answers)), *[Ask("You add.", "2 + 2")] * 2
        )


def test_general_sub_agents_are_known_by_their_names_and_describe_themselves() -> None:
    described = {
        name: (agent.__doc__ or "").partition("\n")[0].partition("; for ") for name, agent in SUBAGENTS.items()
    }
    assert {name: use or text for name, (text, _, use) in described.items()} == {
        "CoTAgent": "Think step by step, then answer: one call of the model, the cheapest way to an answer.",
        "SCAgent": "answers that vary by chance.",
        "DebateAgent": "problems that gain from more than one view.",
        "ReflexionAgent": "problems that reward checking.",
        "SearchAgent": "facts that no model knows by heart.",
    }
