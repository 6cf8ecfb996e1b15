"""Trades: which kind of work suits an expert in which role.

A model that is asked for a step by name works by the means of its role: a programmer writes a program, a query writer
looks things up. Work that these means do not suit goes wrong more often, and then comes out in the form of the trade.
Whoever delegates the whole request, without naming a step, gets the model itself, whatever its role.

Not covered: how skilled a model is in a subject (`toolorchestra.agents.experts.catalog`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from toolorchestra.agents.experts.specification import Role

WorkKind = Literal["lookup", "change", "computation", "answer"]
"""Kinds of work: finding something out, changing the state of the world, calculating, and wording the answer."""

HARDER_OUTSIDE = 2.5
"""How much harder, in logits, work is for a trade that it does not suit: an estimate. A model that is right in 98 % of
what suits it is right in 80 % then."""

UNSUITED: Mapping[Role, frozenset[WorkKind]] = {
    "generalist": frozenset(),
    "math": frozenset({"lookup", "change"}),
    "code": frozenset({"lookup"}),
    "query": frozenset({"change", "computation"}),
}
"""The kinds of work that do not suit a role. Anyone can word an answer."""

MISTAKES: Mapping[Role, str] = {
    "generalist": "I would have to think about that again.",
    "math": "Let x be what is asked for. Then x solves the equation that the request states.",
    "code": "import records\nprint(records.search(request))",
    "query": "Search for: what the request asks, step by step",
}
"""What comes of work that does not suit a role, when it goes wrong."""


def outside_specialty(role: Role | None, work: WorkKind) -> bool:
    """Return whether a kind of work does not suit a role; None is a model without one.

    >>> outside_specialty("query", "computation"), outside_specialty("math", "computation")
    (True, False)
    """
    return role is not None and work in UNSUITED[role]
