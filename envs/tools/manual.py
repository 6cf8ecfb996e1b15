"""The manual of a world: its rules, tools and tables as passages that a search can find.

It says what an orchestrator may know of the place, and nothing of its records.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolorchestra.envs.tools.search import Passage
from toolorchestra.envs.world import World
from toolorchestra.toolscale.domain import Domain


def manual(world: World) -> list[Passage]:
    """Return the passages of a world's manual.

    >>> from toolorchestra.toolscale.domain_folder import load_domain
    >>> [passage.title for passage in manual(load_domain("restaurant"))][:2]
    ['Rules', 'The tool look_calendar']
    """
    return list(_passages(world))


def _passages(world: World) -> Iterator[Passage]:
    yield Passage("rules", "Rules", world.rules)
    for name, tool in world.tools.items():
        takes = (f"{key}: {spec.description.rstrip('.')}." for key, spec in tool.parameters.items())
        changes = "It changes records." if tool.effect == "write" else "It changes nothing."
        yield Passage(f"tool/{name}", f"The tool {name}", " ".join([tool.description, changes, *takes]))
    if isinstance(world, Domain):
        for name, table in world.spec.tables.items():
            columns = (
                f"{column}: {spec.description.rstrip('.')}." if spec.description else f"{column}."
                for column, spec in table.columns.items()
            )
            yield Passage(f"table/{name}", f"The table {name}", " ".join([table.description, *columns]).strip())
