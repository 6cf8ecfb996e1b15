"""Derivation of tools and intents from the tables of a database.

Look up by key and by name, find by reference, search by category and date, sum up, create, change, end (cancel,
return, close …), link and unlink. The rules that the guards enforce come from the schema (references, uniqueness,
CHECKs), and from what the records never do: a thing that is never in two open loans at once cannot be lent twice.

Which of the intents hold is tried afterwards, by making their tasks (`toolorchestra.toolscale.synth.from_sqlite`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolorchestra.toolscale.synth.derived.read_requests import ReadRequests
from toolorchestra.toolscale.synth.derived.read_tools import ReadTools
from toolorchestra.toolscale.synth.derived.request_parts import Request
from toolorchestra.toolscale.synth.derived.toolbox import Toolbox, lifecycle_of, observe
from toolorchestra.toolscale.synth.derived.write_requests import WriteRequests
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
    reading, writing = ReadRequests(tables, box), WriteRequests(tables, box)
    for table in tables.values():
        if not table.size:
            continue
        yield from reading.about(table)
        yield from writing.about(table)
        for rows in reading.owned_rows(table):
            yield from reading.totals(rows)
            yield from reading.counts(rows)
            if rows.listing and len(table.key) == 1:
                yield from reading.below(rows)
                yield from writing.of_owner(rows)
            if rows.listing:
                yield from reading.traces(rows)
