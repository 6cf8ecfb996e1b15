"""Tools derived from tables: what a person at the desk would want to do with such records.

Look up by key and by name, find by reference, search by category and date, sum up, create, change, end (cancel,
return, close …), tie and untie. The rules that the guards enforce come from the schema (references, uniqueness,
CHECKs), and from what the records never do: a thing that is never in two open loans at once cannot be lent twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from toolorchestra.toolscale.synth.derived_tools import Toolbox, life_of, observe
from toolorchestra.toolscale.synth.read_tools import ReadTools
from toolorchestra.toolscale.synth.tables import Table
from toolorchestra.toolscale.synth.write_tools import WriteTools


def derive_tools(tables: Mapping[str, Table]) -> Toolbox:
    """Return the tools for tables in the order of their references."""
    box = Toolbox()
    for table in tables.values():
        if life := life_of(table):
            box.lifecycles[table.name] = life
    observe(tables, box)
    families = (ReadTools(tables, box), WriteTools(tables, box))
    for table in tables.values():
        if table.size:
            for family in families:
                family.tools(table)
    return box
