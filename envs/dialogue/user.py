"""Users: policies that play the agent ``user``. A script that is always the same, and any chat model."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.envs.dialogue.request_facts import RequestFact
from toolorchestra.envs.dialogue.scenario import CALL, STOP, Scenario, received_and_replied
from toolorchestra.envs.dialogue.user_reading import asks_if_done, questions, reports_done, requested_facts, requests
from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.tasks.task import Call


class ScriptedUser:
    """A user without a model; the same scenario and history give the same text.

    It knows no more than its scenario. It gives a fact only when a question asks for it, never makes one up, makes the
    calls that it is asked to make, and ends the dialogue only after a report that everything is done, or after more
    messages that ask for nothing new than its persona allows.
    """

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the user's next message; `info` is that of the agent ``user``."""
        return reply(info["scenario"], info["messages"])


def reply(scenario: Scenario, history: Sequence[Mapping[str, Any]]) -> str:
    """Return the scripted user's message after its private history."""
    persona = scenario.persona
    rng = random.Random(f"{scenario.noise_seed}/{len(history)}")
    if history[-2]["role"] == "assistant" and CALL in str(history[-2]["content"]):
        return f"I have done that. This came of it:\n{history[-1]['content']}"
    *before, (received, _) = received_and_replied(history)
    if not before:
        return rng.choice(persona.openings).format(request=scenario.request)
    if wanted := requests(received, scenario.tools):
        return write_calls(wanted)
    requested = requested_facts(received, scenario.facts)
    new = facts_not_given(requested, before)
    if not new and reports_done(received, after_question=asks_if_done(before[-1][1])):
        return f"{rng.choice(persona.thanks)} {STOP}"
    if unhelpful(scenario, history) > persona.max_unhelpful:
        return f"{rng.choice(persona.gives_up)} {STOP}"
    if given := (new or requested)[: persona.at_once]:
        return " ".join(rng.choice(persona.facts).format(label=fact.label, value=fact.value) for fact in given)
    return rng.choice(persona.insists if questions(received) else persona.checks)


def facts_not_given(facts: Sequence[RequestFact], conversation: Sequence[tuple[str, str]]) -> list[RequestFact]:
    """Return those of `facts` that the user has not given in `conversation`."""
    given = tokens("\n".join(reply for _, reply in conversation)) if facts else []
    return [fact for fact in facts if not mentions(given, fact.value)]


def unhelpful(scenario: Scenario, history: Sequence[Mapping[str, Any]]) -> int:
    """Return how many messages asked the user for nothing new."""
    conversation = received_and_replied(history)
    count = 0
    made: list[Call] = []
    for number, (received, _) in enumerate(conversation[1:], 1):
        wanted = requests(received, scenario.tools)
        new = facts_not_given(requested_facts(received, scenario.facts), conversation[:number])
        count += not new and all(call in made for call in wanted)
        made += wanted
    return count


@dataclass(eq=False)
class ChatUser:
    """A user played by a chat model.

    Attributes:
        model: Model asked.
        temperature: Sampling temperature; 0 is greedy.
        max_tokens: Maximum tokens of one message.
        seed: Sampling seed, for models that take one.
    """

    model: ChatModel
    _: KW_ONLY
    temperature: float = 0.0
    max_tokens: int = 512
    seed: int = 0

    def __call__(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the model's next message; `info` is that of the agent ``user``."""
        request = ChatRequest(
            messages=tuple(info["messages"]), temperature=self.temperature, max_tokens=self.max_tokens, seed=self.seed
        )
        return self.model.complete([request])[0].text
