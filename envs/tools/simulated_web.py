"""A corpus that stands for the web, so that `web_search` needs neither key nor network.

In a world with a search of its own, such as an encyclopaedia, the web holds what that search finds: nothing on it
contradicts the world. Everywhere else it holds the manual of the place, as public help pages, and the articles of the
fictional encyclopaedia of `MultiHopQA`: more than the local corpus, and most of it beside the point. A corpus that is
given to the local search is private and not on the web.

Not covered: the real web (`toolorchestra.envs.tools.search.search_web`), and the price and the latency of a search,
which stand in the catalogue of experts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia
from toolorchestra.envs.tools.manual import corpus_index, manual
from toolorchestra.envs.tools.search.search import BM25Index, Hit, Index, LocalSearch, Passage
from toolorchestra.envs.tools.search.search_web import DESCRIPTION
from toolorchestra.envs.world import World
from toolorchestra.toolscale.tools.tool import ToolOrigin

_SEED, _PEOPLE = 0, 240  # those of `MultiHopQA`


class _LazyIndex:
    """An index that is made at the first search; a copy makes its own."""

    def __init__(self, make: Callable[[], Index]) -> None:
        self._make = make
        self._index: Index | None = None

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of each query."""
        if self._index is None:
            self._index = self._make()
        return self._index.search(queries, k)

    def __getstate__(self) -> Callable[[], Index]:
        return self._make

    def __setstate__(self, make: Callable[[], Index]) -> None:
        self.__init__(make)  # type: ignore[misc]  # the same object, as it was made


def simulated_web(world: World, corpus: Path | None = None) -> LocalSearch:
    """Return the tool ``web_search`` of a world, free and without delay.

    Args:
        world: Where it is called.
        corpus: JSONL file of passages that stands for the web, in place of what the module says.
    """
    own = world.tools.get("local_search")
    index: Index
    if corpus is not None:
        index = _LazyIndex(functools.partial(corpus_index, corpus))
    elif isinstance(own, LocalSearch):
        index = own.index
    else:
        index = _LazyIndex(functools.partial(_pages, manual(world)))
    tool = LocalSearch(index, name="web_search", description=DESCRIPTION, latency=0.0)
    tool.origin = ToolOrigin("search", provider="web", self_hosted=False)
    return tool


def _pages(help_pages: Sequence[Passage]) -> Index:
    return BM25Index([*help_pages, *_articles()])


@functools.cache
def _articles() -> list[Passage]:
    return Encyclopaedia(_SEED, _PEOPLE).passages
