"""The personas of users: how they write. Their phrases are in `personas.yaml`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from toolorchestra.toolscale.yaml_reader import convert, parse_yaml


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


_PERSONAS = convert(parse_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")), list[Persona])
PERSONAS: dict[str, Persona] = {persona.name: persona for persona in _PERSONAS}
"""All personas by name."""
