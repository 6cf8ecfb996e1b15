"""Chains of thought and votes over them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.subagents import SubAgentQuestion, chain_of_thought, self_consistency


def test_a_chain_of_thought_is_one_call_at_temperature_one_half() -> None:
    chat = ScriptedChat(["<reasoning>2 + 2 is 4.</reasoning>\n<answer>\\boxed{4}</answer>"])
    reply = chain_of_thought(chat, SubAgentQuestion("What is 2 + 2?"))
    assert (reply.answer, reply.error, len(reply.children)) == ("4", None, 1)
    assert reply.text == "<reasoning>2 + 2 is 4.</reasoning>\n<answer>\\boxed{4}</answer>"
    (request,) = chat.requests
    assert (request.temperature, request.ground_truth) == (0.5, None)
    assert request.messages[1]["content"] == "<user_query>\nWhat is 2 + 2?\n</user_query>"


def test_the_answer_given_most_often_wins_in_whatever_form_it_comes() -> None:
    chat = ScriptedChat([r"\boxed{3}", r"\boxed{0.5}", "I give up.", r"<answer>\frac{1}{2}</answer>", r"\boxed{3x}"])
    reply = self_consistency(chat, SubAgentQuestion("How much is it?"))
    assert reply.answer == "0.5"
    assert reply.text == "Votes of 5: 3: 1, 0.5: 2, 3x: 1.\n\\boxed{0.5}"


def test_of_answers_given_equally_often_the_first_wins() -> None:
    assert self_consistency(ScriptedChat([r"\boxed{3}", r"\boxed{4}"]), SubAgentQuestion("?"), samples=2).answer == "3"


def test_a_vote_without_answers_has_none() -> None:
    reply = self_consistency(ScriptedChat(["Hm.", "Well."]), SubAgentQuestion("?"), samples=2)
    assert (reply.text, reply.answer) == ("Hm.", "")


def test_more_samples_are_better_and_no_number_of_them_is_perfect(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float]
) -> None:
    model = simulated()
    one, five, fifteen = (
        share(functools.partial(self_consistency, model, samples=samples, temperature=1.0), 3) for samples in (1, 5, 15)
    )
    assert one + 0.08 < five < fifteen < 0.85
    assert share(functools.partial(chain_of_thought, model), 3) == pytest.approx(one, abs=0.07)
