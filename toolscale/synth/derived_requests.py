"""Intents derived from tables and their tools: what people ask of such records.

Each family of requests yields its intents; which of them hold is tried afterwards, by making their tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolorchestra.toolscale.synth.change_requests import ChangeRequests
from toolorchestra.toolscale.synth.creation_requests import CreationRequests
from toolorchestra.toolscale.synth.derived_tools import Toolbox
from toolorchestra.toolscale.synth.ownership_requests import OwnershipRequests
from toolorchestra.toolscale.synth.question_requests import QuestionRequests
from toolorchestra.toolscale.synth.request_base import Request
from toolorchestra.toolscale.synth.tables import Table

FAMILIES = (QuestionRequests, ChangeRequests, CreationRequests, OwnershipRequests)


def derive_requests(tables: Mapping[str, Table], box: Toolbox) -> Iterator[Request]:
    """Yield candidate intents for tables and their tools, by name."""
    families = [family(tables, box) for family in FAMILIES]
    for table in tables.values():
        if table.size:
            for family in families:
                yield from family.requests(table)
