"""Faces of packages: what a package exports, imported when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_face(
    package: str, exported: Sequence[str], modules: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose exports are imported when they are first used.

    Args:
        package: Name of the package, its ``__name__``.
        exported: Its ``__all__``.
        modules: Names that are imported late, by the module of the package that defines them.
    """
    home = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: list(exported)
