"""Reflexion: it ends when the critic is content, and not before its rounds otherwise."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.subagents import SubAgentQuestion, chain_of_thought, reflexion

QUESTION = SubAgentQuestion("What is 2 + 2?")


@pytest.mark.parametrize(
    "content", ["<correct>True</correct>", "True", "<correct>\ntrue.\n</correct> Well done.", "True."]
)
def test_a_content_critic_ends_it(content: str) -> None:
    reply = reflexion(ScriptedChat([r"\boxed{4}", content]), QUESTION)
    assert (reply.answer, len(reply.children)) == ("4", 2)


def test_the_next_attempt_sees_those_before_and_what_was_said_of_them() -> None:
    chat = ScriptedChat([r"\boxed{3}", "You forgot one.", r"\boxed{5}", "Too many.", r"\boxed{4}", "True"])
    assert reflexion(chat, QUESTION).answer == "4"
    shown = chat.requests[4].messages[1]["content"]
    for said in (r"\boxed{3}", "You forgot one.", r"\boxed{5}", "Too many."):
        assert said in shown


def test_a_critic_who_is_never_content_is_heard_five_times() -> None:
    reply = reflexion(ScriptedChat(lambda request: r"It is not true that \boxed{4}."), QUESTION)
    assert len(reply.children) == 1 + 5 * 2


def test_reflexion_is_better_than_one_chain_of_thought(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float]
) -> None:
    model = simulated()
    assert share(functools.partial(reflexion, model), 3) > share(functools.partial(chain_of_thought, model), 3) + 0.1
