"""Debate: who hears whom, when it ends, and what it is worth."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.problems import Problem
from toolorchestra.agents.subagents import SubAgentQuestion, chain_of_thought, debate
from toolorchestra.toolscale.errors import OptionError

QUESTION = SubAgentQuestion("What is 2 + 2?")


def test_debaters_hear_the_others_and_themselves_last_until_they_agree() -> None:
    chat = ScriptedChat([r"\boxed{3}", r"\boxed{4}", r"\boxed{4}", r"So \boxed{4.0}", r"\boxed{4}"])
    reply = debate(chat, QUESTION, roles=("a professor", "a pupil"))
    assert (reply.answer, len(reply.children)) == ("4", 5)
    professor = chat.requests[2].messages
    assert professor[0]["content"].startswith("You take part as a professor.")
    assert professor[1]["content"].startswith(
        "<answers>\n## a pupil\n\n\\boxed{4}\n\n## a professor\n\n\\boxed{3}\n</answers>\n\n<user_query>"
    )


def test_a_debate_without_agreement_ends_after_its_rounds() -> None:
    chat = ScriptedChat(lambda request: r"\boxed{3}" if "sceptic" in request.messages[0]["content"] else r"\boxed{4}")
    reply = debate(chat, QUESTION)
    assert len(reply.children) == 5 * 2 + 1


def test_debaters_without_an_answer_do_not_agree() -> None:
    assert len(debate(ScriptedChat(lambda request: "Hm."), QUESTION, rounds=2).children) == 5


def test_several_models_take_the_roles_in_turn_and_the_first_decides() -> None:
    def says(text: str) -> Callable[[ChatRequest], str]:
        return lambda request: text

    models = [ScriptedChat(says(rf"\boxed{{{number}}}"), name=f"m{number}") for number in (1, 2)]
    reply = debate(models, QUESTION, roles=("one", "two", "three"), rounds=1)
    assert [child.name for child in reply.children] == ["m1", "m2", "m1", "m1"]
    assert reply.answer == "1"


def test_one_cannot_debate_alone() -> None:
    with pytest.raises(OptionError, match="at least two roles and one model"):
        debate(ScriptedChat([]), QUESTION, roles=("a hermit",))
    with pytest.raises(OptionError, match="got 2 and 0"):
        debate([], QUESTION)


def test_debate_is_better_than_one_chain_of_thought_and_costs_more(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float]
) -> None:
    model = simulated()
    assert share(functools.partial(debate, model), 3) > share(functools.partial(chain_of_thought, model), 3) + 0.08
    question = SubAgentQuestion("What is it?", Problem.chain("p", "math", 3, "12", ("13",)))
    assert debate(model, question).cost > 2 * chain_of_thought(model, question).cost


def test_different_models_debate_better_than_one(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float]
) -> None:
    ada, bob = simulated("ada", own_noise=0.6), simulated("bob", own_noise=0.6)
    both = share(functools.partial(debate, [ada, bob]), 4)
    assert both > (share(functools.partial(debate, ada), 4) + share(functools.partial(debate, bob), 4)) / 2 + 0.02
