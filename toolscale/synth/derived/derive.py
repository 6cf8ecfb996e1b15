"""Derivation of tools and intents from the tables of a database.

Look up by key and by name, find by reference, search by category and date, sum up, create, change, end (cancel,
return, close …), link and unlink. The rules that the guards enforce come from the schema (references, uniqueness,
CHECKs), and from what the records never do: a thing that is never in two open loans at once cannot be lent twice.

Which of the intents hold is tried afterwards, by making their tasks (`toolorchestra.toolscale.synth.from_sqlite`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolorchestra.toolscale.synth.derived.change_requests import ChangeRequests
from toolorchestra.toolscale.synth.derived.composite_requests import CompositeRequests
from toolorchestra.toolscale.synth.derived.creation_requests import CreationRequests
from toolorchestra.toolscale.synth.derived.derived_tools import Toolbox, lifecycle_of, observe
from toolorchestra.toolscale.synth.derived.ownership_requests import OwnershipRequests
from toolorchestra.toolscale.synth.derived.question_requests import QuestionRequests
from toolorchestra.toolscale.synth.derived.read_tools import ReadTools
from toolorchestra.toolscale.synth.derived.request_base import Request
from toolorchestra.toolscale.synth.derived.write_tools import WriteTools
from toolorchestra.toolscale.synth.tables.tables import Table


def derive_tools(tables: Mapping[str, Table], today: str) -> Toolbox:
    """Return the tools for tables in the order of their references; `today` is the domain's date."""
    lifecycles = {name: life for name, table in tables.items() if (life := lifecycle_of(table))}
    box = Toolbox(lifecycles=lifecycles, today=today)
    observe(tables, box)
    families = (ReadTools(tables, box), WriteTools(tables, box))
    for table in tables.values():
        for family in families if table.size else ():
            family.tools(table)
    return box


def derive_requests(tables: Mapping[str, Table], box: Toolbox) -> Iterator[Request]:
    """Yield candidate intents for tables and their tools, by name."""
    kinds = (QuestionRequests, CompositeRequests, ChangeRequests, CreationRequests, OwnershipRequests)
    families = [kind(tables, box) for kind in kinds]
    for table in tables.values():
        for family in families if table.size else ():
            yield from family.requests(table)
