"""Chains of thought, votes over them, reflexion and debates."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.problems import Problem
from toolorchestra.agents.subagents import SubAgentQuestion, chain_of_thought, debate, reflexion, self_consistency
from toolorchestra.toolscale.common.errors import OptionError

QUESTION = SubAgentQuestion("What is 2 + 2?")


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


@pytest.mark.parametrize(
    "content", ["<correct>True</correct>", "True", "<correct>\ntrue.\n</correct> Well done.", "True."]
)
def test_a_content_critic_ends_it(content: str) -> None:
    reply = reflexion(ScriptedChat([r"\boxed{4}", content]), QUESTION)
    assert (reply.answer, len(reply.children)) == ("4", 2)


def test_the_next_attempt_sees_those_before_and_their_criticism() -> None:
    chat = ScriptedChat([r"\boxed{3}", "You forgot one.", r"\boxed{5}", "Too many.", r"\boxed{4}", "True"])
    assert reflexion(chat, QUESTION).answer == "4"
    shown = chat.requests[4].messages[1]["content"]
    for attempt in (r"\boxed{3}", "You forgot one.", r"\boxed{5}", "Too many."):
        assert attempt in shown


def test_a_critic_that_is_never_content_is_asked_five_times() -> None:
    reply = reflexion(ScriptedChat(lambda request: r"It is not true that \boxed{4}."), QUESTION)
    assert len(reply.children) == 1 + 5 * 2


def test_reflexion_is_better_than_one_chain_of_thought(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float]
) -> None:
    model = simulated()
    assert share(functools.partial(reflexion, model), 3) > share(functools.partial(chain_of_thought, model), 3) + 0.1


def test_debaters_hear_the_others_and_themselves_last_until_they_agree() -> None:
    chat = ScriptedChat([r"\boxed{3}", r"\boxed{4}", r"\boxed{4}", r"So \boxed{4.0}", r"\boxed{4}"])
    reply = debate(chat, QUESTION, roles=("a professor", "a pupil"), until_agreed=True)
    assert (reply.answer, len(reply.children)) == ("4", 5)
    professor = chat.requests[2].messages
    assert professor[0]["content"].startswith("You take part as a professor.")
    assert professor[1]["content"].startswith(
        "<answers>\n## a pupil\n\n\\boxed{4}\n\n## a professor\n\n\\boxed{3}\n</answers>\n\n<user_query>"
    )


@pytest.mark.parametrize("agree", [True, False])
def test_a_debate_lasts_all_its_rounds_and_shows_the_reasoning(agree: bool) -> None:
    def speak(request: ChatRequest) -> str:
        answer = 4 if agree or "sceptic" not in request.messages[0]["content"] else 3
        return rf"<reasoning>My view.</reasoning><answer>\boxed{{{answer}}}</answer>"

    chat = ScriptedChat(speak)
    assert len(debate(chat, QUESTION).children) == 5 * 2 + 1
    assert all("<reasoning>My view.</reasoning>" in str(one.messages[1]["content"]) for one in chat.requests[2:])
    assert len(debate(ScriptedChat(speak), QUESTION, until_agreed=True).children) == (3 if agree else 11)


def test_debaters_without_an_answer_do_not_agree() -> None:
    assert len(debate(ScriptedChat(lambda request: "Hm."), QUESTION, rounds=2).children) == 5


def test_several_models_take_the_roles_in_turn_and_the_first_decides() -> None:
    def says(text: str) -> Callable[[ChatRequest], str]:
        return lambda request: text

    models = [ScriptedChat(says(rf"\boxed{{{number}}}"), name=f"m{number}") for number in (1, 2)]
    reply = debate(models, QUESTION, roles=("one", "two", "three"), rounds=1)
    assert [child.name for child in reply.children] == ["m1", "m2", "m1", "m1"]
    assert reply.answer == "1"


def test_an_answer_for_others_to_read_needs_no_box() -> None:
    chat = ScriptedChat(lambda request: "<reasoning>So.</reasoning><answer>x = 4; y = 5</answer>")
    open_question = SubAgentQuestion("What is known?", boxed=False)
    for ask in (chain_of_thought, self_consistency, debate, reflexion):
        reply = ask(chat, open_question)
        assert reply.answer == "x = 4; y = 5"
    assert not any("boxed" in one.messages[0]["content"] for one in chat.requests if "criticise" not in str(one))


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
