"""Options that several of the `experts` commands have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from toolorchestra.agents.experts.catalog import Catalog

Name = Annotated[Positional[str], arg(metavar="NAME")]


@dataclass(kw_only=True)
class CatalogOptions:
    """The option that says which catalogue of experts is meant."""

    catalog: tuple[Path, ...] = ()
    """Catalogue files of your own, which extend and override the shipped one."""

    def _catalog(self) -> Catalog:
        from toolorchestra.agents.experts.catalog import Catalog

        return Catalog.load(*self.catalog)
