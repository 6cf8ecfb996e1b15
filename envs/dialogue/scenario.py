"""Who the user of an episode is: its goal, what it knows, how it talks, and what it can do by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from toolorchestra.envs.dialogue.request_facts import RequestFact
from toolorchestra.toolscale.tool import Tool

USER: Final = "user"
ORCHESTRATOR: Final = "orchestrator"
STOP = "###STOP###"
"""By this a user ends the talk."""
GREETING = "Hello! How can I help you?"
"""What every user hears first."""
CALL = "<tool_call>"
MAX_TEXT_CHARACTERS = 16_384
"""Characters of one text that the other one hears; what is longer is cut."""
Reveal = Literal["asked", "all"]
"""What a user tells: its facts when it is asked for them, or all of them at once."""


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
    """How a user talks. Where there are several phrases, the episode's luck chooses.

    Attributes:
        name: Name, as in the option `persona`.
        description: For a language model that plays it.
        patience: Messages that bring it no further which it bears; it gives up at the next.
        at_once: Facts that it gives in one message, or None for all that it is asked for.
        openings: How it begins, with ``{request}``.
        facts: How it gives a fact, with ``{label}`` and ``{value}``.
        insists: What it says when it is asked something that it does not know.
        checks: How it asks whether everything is done, when it is told something and not asked.
        thanks: How it ends.
        gives_up: How it ends when its patience is over.
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
    """What the user of an episode knows, and nobody else.

    Attributes:
        goal: What it wants, all facts included.
        request: What it asks at first.
        facts: What it can be asked for.
        persona: How it talks.
        tools: Names of the tools that it alone can call.
        luck: What its choice of phrases follows from.
    """

    goal: str
    request: str
    facts: tuple[RequestFact, ...]
    persona: Persona
    tools: tuple[str, ...]
    noise_seed: int

    def opening(self, tools: Iterable[Tool]) -> list[dict[str, Any]]:
        """Return the messages that the user begins with; `tools` are its own."""
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


def heard_and_said(history: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the talk as the user has it: each text that it heard, and what it said next; calls are left out.

    The first pair is the greeting and the request; of the last the answer may be missing.
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
                heard, said = pairs[-1]
                pairs[-1] = heard, f"{said}\n{text[:MAX_TEXT_CHARACTERS]}".strip()
    return pairs
