"""Tasks: an instruction and what is needed to check an answer. Plain data; nothing runs here."""

from __future__ import annotations

from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of a tool, as a golden path names it.

    Calls of one `stage` do not need each other's results: an orchestrator may make them in one turn.
    """

    name: str
    arguments: dict[str, Any]
    stage: int = 0


class Task(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A verifiable task (ToolOrchestra §3.3): instruction, golden calls, information to communicate.

    Attributes:
        id: Unique and stable, ``{domain}/{intent}/{number}``.
        domain: Name of the domain in which it takes place.
        intent: Kind of request it is an instance of.
        split: ``train``, ``test`` (new bindings) or ``test_intents`` (intents never trained on).
        difficulty: 1 (one call) to 5; see `toolorchestra.toolscale.intents.difficulty`.
        instruction: What the user asks.
        golden: Calls that lead to the right state, in order.
        communicate: What the user must be told; of each tuple, any one phrase is enough.
        answer: A final answer that communicates all of it.
        alternatives: Further golden paths, whose end states are right as well.
        bindings: The values that make this task of its intent.
        branches: What is right depends on what a look-up returns.
        refuses: The right answer is to refuse, or to report that it cannot be done.
        parent: Id of the task that it was evolved from, if any (or ``{domain}/{intent}``, if its whole intent was).
        operator: Name of the evolution operator, if any.
    """

    id: str
    domain: str
    intent: str
    split: str
    difficulty: int
    instruction: str
    golden: tuple[Call, ...]
    communicate: tuple[tuple[str, ...], ...] = ()
    answer: str
    alternatives: tuple[tuple[Call, ...], ...] = ()
    bindings: dict[str, Any] = {}
    branches: bool = False
    refuses: bool = False
    parent: str | None = None
    operator: str | None = None
