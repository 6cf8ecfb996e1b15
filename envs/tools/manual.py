"""Local searches that an environment adds to a world: of the world's manual, or of a file of passages.

A manual is the rules, tools and tables of a world as passages. It says nothing of the world's records.
"""

from __future__ import annotations

import functools
from pathlib import Path

from toolorchestra.envs.tools.search.search import BM25Index, LocalSearch, Passage, read_passages
from toolorchestra.envs.world import World
from toolorchestra.toolscale.domain import Domain


def manual(world: World) -> list[Passage]:
    """Return the passages of a world's manual.

    >>> from toolorchestra.toolscale.domain_folder import load_domain
    >>> [passage.title for passage in manual(load_domain("restaurant"))][:2]
    ['Rules', 'The tool look_calendar']
    """
    passages = [Passage("rules", "Rules", world.rules)]
    for name, tool in world.tools.items():
        takes = (f"{key}: {spec.description.rstrip('.')}." for key, spec in tool.parameters.items())
        changes = "It changes records." if tool.effect == "write" else "It changes nothing."
        text = " ".join([tool.description, changes, *takes])
        passages.append(Passage(f"tool/{name}", f"The tool {name}", text))
    for name, table in world.spec.tables.items() if isinstance(world, Domain) else ():
        columns = (
            f"{column}: {spec.description.rstrip('.')}." if spec.description else f"{column}."
            for column, spec in table.columns.items()
        )
        text = " ".join([table.description, *columns]).strip()
        passages.append(Passage(f"table/{name}", f"The table {name}", text))
    return passages


def manual_search(world: World, description: str) -> LocalSearch:
    """Return a search of a world's manual; `description` is that of the tool, for the orchestrator."""
    return LocalSearch(BM25Index(manual(world)), description=description)


@functools.cache
def corpus_index(file: Path) -> BM25Index:
    """Return the index of a JSONL file of passages, which is made once per process."""
    return BM25Index(read_passages(file))


@functools.cache
def corpus_search(file: Path) -> LocalSearch:
    """Return the search of a JSONL file of passages, which is indexed once per process."""
    return LocalSearch(corpus_index(file))
