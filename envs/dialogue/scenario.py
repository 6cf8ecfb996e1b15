"""The scenario of a user: its goal, facts, persona and tools, with texts of `prompts.yaml` and `personas.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from toolorchestra.envs.dialogue.request_facts import RequestFact
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.tools.tool import Tool

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


def _texts(name: str) -> Any:
    return read_yaml(Path(__file__).with_name(name))


PROMPTS: dict[str, str] = _texts("prompts.yaml")
"""What the agents are shown first, by name."""


class Persona(msgspec.Struct, frozen=True, kw_only=True):
    """How a user writes. Of several phrases one is drawn from the episode's seed.

    Attributes:
        name: Name, as in the option `persona`.
        description: Description in the prompt of a language model that plays the user.
        max_unhelpful: Maximum number of messages that ask for nothing new; the user gives up at the next.
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
    max_unhelpful: int
    at_once: int | None = None
    openings: tuple[str, ...]
    facts: tuple[str, ...]
    insists: tuple[str, ...]
    checks: tuple[str, ...]
    thanks: tuple[str, ...]
    gives_up: tuple[str, ...]


PERSONAS = {persona.name: persona for persona in convert(_texts("personas.yaml"), list[Persona])}
"""All personas by name."""


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
        own = schemas(tools)
        system = PROMPTS["user"].format(
            persona=self.persona.description,
            max_unhelpful=self.persona.max_unhelpful,
            goal=self.goal,
            request=self.request,
            facts="\n".join(f"- {fact.label}: {fact.value}" for fact in self.facts) or "- (nothing more)",
            stop=STOP,
            tools=f"\n\n{PROMPTS['user_tools']}\n{own}" if own else "",
        )
        return [{"role": "system", "content": system}, {"role": "user", "content": GREETING}]


def schemas(tools: Iterable[Tool]) -> str:
    """Return the schemas of tools, one a line, as they stand in prompts."""
    return "\n".join(msgspec.json.encode(tool.schema["function"]).decode() for tool in tools)


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
