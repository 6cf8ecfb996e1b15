from __future__ import annotations

import random
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.envs.dialogue import ChatUser, DialogueEnv, ScriptedUser, random_message, raw_env
from toolorchestra.envs.dialogue.request_facts import vocabulary_of
from toolorchestra.envs.dialogue.scenario import PERSONAS, STOP
from toolorchestra.envs.dialogue.user import facts_not_given
from toolorchestra.envs.dialogue.user_reading import reports_done, requested_facts
from toolorchestra.envs.registration import domain_sources
from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.domain_folder import load_domain

TASK = "restaurant/pay_with_coupon/005"
"""Hugo pays the bill for August 6, 2025 with the app, and before that the coupon DILL is applied."""


def new(**options: Any) -> DialogueEnv:
    env = raw_env("Restaurant", **options)
    env.reset(seed=0, options={"task_id": TASK})
    return env


def talk(env: DialogueEnv, *texts: str) -> list[str]:
    """Return what the scripted user says at first, and in reply to each text."""
    user, messages = ScriptedUser(), []
    for text in (None, *texts):
        if text is not None:
            env.step(text)
        messages.append(user(env.observe("user"), env.infos["user"]))
        env.step(messages[-1])
    return messages


def test_the_user_begins_with_its_request_and_leaves_facts_open() -> None:
    (message,) = talk(new())
    assert "[customer] would like to pay the bill for [date] ahead of time, with the app." in message
    assert "please apply the coupon [coupon]." in message


def test_with_reveal_all_it_gives_all_facts_at_once() -> None:
    (message,) = talk(new(reveal="all"))
    assert "Hugo would like to pay the bill for August 6, 2025" in message
    assert "please apply the coupon DILL." in message


def test_it_gives_only_the_facts_that_it_is_asked_for() -> None:
    _, first, second = talk(new(), "Whose bill is it? Please tell me the customer.", "For which date, and what coupon?")
    assert first == "The customer is Hugo."
    assert second == "The date is August 6, 2025. The coupon is DILL."


def test_it_gives_a_fact_again_when_asked_again() -> None:
    assert talk(new(), "Which date?", "Which date?")[2] == "The date is August 6, 2025."


def test_it_makes_nothing_up() -> None:
    _, answer, guessed = talk(new(), "What is your phone number?", "Is it for Wanda?")
    insisted = "I cannot tell you more about that than I have said. Please do as I have asked."
    assert answer == guessed == insisted


def test_a_terse_user_gives_one_fact_at_a_time() -> None:
    messages = talk(new(persona="terse"), *["Which coupon, customer and date?"] * 3)
    assert messages[1:] == ["customer: Hugo", "date: August 6, 2025", "coupon: DILL"]


@pytest.mark.parametrize(
    "text", ["Let me look.", "The total was 44.1.", "I cannot do that.", "Is everything done?", "No.", "DONE"]
)
def test_it_does_not_stop_before_a_report_that_everything_is_done(text: str) -> None:
    messages = talk(new(), text)
    assert STOP not in messages[-1]


def test_it_asks_whether_everything_is_done_and_takes_yes_for_an_answer() -> None:
    _, question, bye = talk(new(), "The total was 44.1.", "Yes, it is.")
    assert "everything done" in question
    assert bye.endswith(STOP)


def test_it_stops_after_a_report_that_everything_is_done() -> None:
    assert talk(new(), "The total was 44.1. Everything is done. Anything else?")[-1].endswith(STOP)


def test_a_question_beside_the_report_is_answered_first() -> None:
    assert talk(new(), "Everything is done, but for which date was it?")[-1] == "The date is August 6, 2025."


@pytest.mark.parametrize("persona", PERSONAS)
def test_every_persona_ends_the_dialogue(persona: str) -> None:
    env = new(persona=persona, answer="text")
    messages = talk(env, *["Let me look."] * (PERSONAS[persona].max_unhelpful + 1))
    assert [STOP in one for one in messages] == [False] * (PERSONAS[persona].max_unhelpful + 1) + [True]
    assert env.episode.outcome == "failed"


def test_asking_for_what_is_new_is_never_too_much() -> None:
    env = new(persona="impatient")
    talk(env, "Hm.", "Hm.", "Hm.", "Which coupon?", "Which customer?", "Which date?")
    assert not env.play.over


def test_same_history_same_text_and_the_seed_chooses_phrases() -> None:
    assert talk(new(), "Which date?") == talk(new(), "Which date?")
    openings = set()
    for seed in range(12):
        env = raw_env("Restaurant", persona="mixed")
        env.reset(seed=seed, options={"task_id": TASK})
        openings.add(talk(env)[0])
    assert len(openings) >= 4


@pytest.mark.parametrize("source", domain_sources())
def test_after_any_messages_it_never_leaks_never_invents_and_never_stops_early(source: str) -> None:
    env = raw_env(source, persona="mixed")
    rng = random.Random(source)
    for seed in range(6):
        env.reset(seed=seed)
        scenario, user = env.play.scenario, ScriptedUser()
        requested: set[str] = set()
        unhelpful = 0
        heard: list[str] = []
        while not env.play.over:
            if env.agent_selection == "orchestrator":
                wanted = rng.choice([*scenario.facts]).label if scenario.facts else "date"
                text = rng.choice((f"What is the {wanted}?", random_message(env, rng), "Let me see.", "Fine."))
                env.step(text)
                continue
            new_messages = env.play.new_messages("user")[-1]["content"] if heard or env.episode.turns else ""
            message = user(env.observe("user"), env.infos["user"])
            if new_messages:
                new_facts = {fact.label for fact in requested_facts(new_messages, scenario.facts)} - requested
                requested |= new_facts
                unhelpful += not new_facts
            left = {fact.label for fact in facts_not_given(scenario.facts, [("", one) for one in (*heard, message)])}
            told = [tokens(fact.value) for fact in scenario.facts if fact.label in requested]
            same = {fact.label for fact in scenario.facts if any(mentions(one, fact.value) for one in told)}
            assert {fact.label for fact in scenario.facts} - left <= requested | same, "a fact that nobody asked for"
            for span in env.play.vocabulary.spans(message):
                assert tokens(span.value)[0] in tokens(scenario.goal), "a value that it does not know"
            if STOP in message:
                gave_up = unhelpful > scenario.persona.max_unhelpful
                assert reports_done(new_messages, after_question="done" in heard[-1]) or gave_up
            heard.append(message)
            env.step(message)


@pytest.mark.parametrize("source", domain_sources())
def test_no_phrase_of_a_persona_is_a_value_of_a_domain(source: str) -> None:
    vocabulary = vocabulary_of(load_domain(source.lower()))
    for persona in PERSONAS.values():
        for phrase in (
            *persona.openings,
            *persona.facts,
            *persona.insists,
            *persona.checks,
            *persona.thanks,
            *persona.gives_up,
        ):
            text = phrase.replace("{request}", "").replace("{label}", "").replace("{value}", "")
            assert vocabulary.spans(text) == []
            assert not [token for token in tokens(text) if token[0] in "#@~"]


def test_a_chat_model_can_be_the_user() -> None:
    def answer(request: ChatRequest) -> str:
        assert request.messages[0]["role"] == "system"
        received = str(request.messages[-1]["content"])
        if received == "Hello! How can I help you?":
            return "Take a coupon off my bill, please."
        return f"Thanks. {STOP}" if "done" in received else "It is Hugo's."

    chat = ScriptedChat(answer)
    env, user = new(answer="text"), ChatUser(chat)
    env.step(user(env.observe("user"), env.infos["user"]))
    env.step("Whose bill is it?")
    env.step(user(env.observe("user"), env.infos["user"]))
    assert env.observe("orchestrator") == "It is Hugo's."
    env.step("Everything is done.")
    env.step(user(env.observe("user"), env.infos["user"]))
    assert env.play.over
    prompt = str(chat.requests[0].messages[0]["content"])
    for words in (env.task.instruction, "- coupon: DILL", "[coupon]", STOP, "friendly"):
        assert words in prompt
