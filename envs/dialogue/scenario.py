"""The scenario of a user: its goal, its facts, its persona, and its tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from toolorchestra.envs.dialogue.request_facts import RequestFact
from toolorchestra.toolscale.tool import Tool

USER: Final = "user"
ORCHESTRATOR: Final = "orchestrator"
STOP = "###STOP###"
"""The text by which a user ends the dialogue."""
GREETING = "Hello! How can I help you?"
"""The first message to every user."""
CALL = "<tool_call>"
MAX_TEXT_CHARACTERS = 16_384
"""Maximum characters of a text to the other agent; longer texts are cut."""
Reveal = Literal["asked", "all"]
"""When a user gives its facts: when it is asked for them, or all at once."""


USER_PROMPT = """\
You are somebody who asks a service for something. {persona}

What you want:
{goal}

What you know, and tell only when you are asked for it:
{facts}

Begin by writing (in your own words, the brackets as they are): {request}
Then answer what you are asked. Never tell anything that you are not asked for, never make anything up, and never say \
anything that contradicts what you want or know. When you are told that everything is done, or that it cannot be done, \
write {stop}: that ends the talk. Do not write it before. If more than {patience} messages bring you no further, give \
up by writing {stop} too.{tools}"""
USER_TOOLS_PROMPT = """

Some things only you can do, with these tools. Do them when you are asked to, and exactly so, by writing \
<tool_call>{"name": "…", "arguments": {…}}</tool_call> and nothing else; then say what came of it."""


class Persona(msgspec.Struct, frozen=True):
    """How a user writes. Of several phrases one is drawn from the episode's seed.

    Attributes:
        name: Name, as in the option `persona`.
        description: Description in the prompt of a language model that plays the user.
        patience: Maximum number of messages that ask for nothing new; the user gives up at the next.
        at_once: Maximum facts in one message, or None for all that were asked for.
        openings: How it begins, with ``{request}``.
        facts: How it gives a fact, with ``{label}`` and ``{value}``.
        insists: Replies to a question that it cannot answer.
        checks: How it asks whether everything is done, after a message that is neither question nor report.
        thanks: How it ends.
        gives_up: How it ends when it gives up.
    """

    name: str
    description: str
    patience: int
    at_once: int | None
    openings: tuple[str, ...]
    facts: tuple[str, ...]
    insists: tuple[str, ...]
    checks: tuple[str, ...]
    thanks: tuple[str, ...]
    gives_up: tuple[str, ...]


class Scenario(msgspec.Struct, frozen=True):
    """What only the user of an episode knows.

    Attributes:
        goal: What it wants, all facts included.
        request: Its first request.
        facts: What it can be asked for.
        persona: How it writes.
        tools: Names of the tools that it alone can call.
        noise_seed: Seed of its choice of phrases.
    """

    goal: str
    request: str
    facts: tuple[RequestFact, ...]
    persona: Persona
    tools: tuple[str, ...]
    noise_seed: int

    def opening(self, tools: Iterable[Tool]) -> list[dict[str, Any]]:
        """Return the user's opening; `tools` are its own."""
        facts = "\n".join(f"- {fact.label}: {fact.value}" for fact in self.facts) or "- (nothing more)"
        own = "".join(f"\n{msgspec.json.encode(tool.schema['function']).decode()}" for tool in tools)
        system = USER_PROMPT.format(
            persona=self.persona.description,
            patience=self.persona.patience,
            goal=self.goal,
            request=self.request,
            facts=facts,
            stop=STOP,
            tools=USER_TOOLS_PROMPT + own if own else "",
        )
        return [{"role": "system", "content": system}, {"role": "user", "content": GREETING}]


def received_and_replied(history: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the dialogue as pairs: each text that the user received, and its reply; calls are left out.

    The first pair is the greeting and the request; the last reply may be missing.
    """
    pairs: list[tuple[str, str]] = []
    calling = False
    for message in history:
        text = str(message["content"])
        if message["role"] == "user" and not calling:
            pairs.append((text, ""))
        elif message["role"] == "assistant":
            calling = CALL in text
            if not calling:
                received, sent = pairs[-1]
                pairs[-1] = received, f"{sent}\n{text[:MAX_TEXT_CHARACTERS]}".strip()
    return pairs
