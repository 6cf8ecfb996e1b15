"""The files of the shipped recipes, by name."""

from __future__ import annotations

from pathlib import Path

from toolorchestra.toolscale.errors import UnknownNameError

_FOLDER = Path(__file__).parent


def recipe_names() -> list[str]:
    """Return the names of the shipped recipes.

    >>> recipe_names()[-1]
    'toolorchestra-8b'
    """
    return sorted(file.stem for file in _FOLDER.glob("*.yaml"))


def recipe_file(name: str) -> Path:
    """Return the file of a shipped recipe.

    Raises:
        UnknownNameError: There is none of this name.
    """
    if name not in recipe_names():
        raise UnknownNameError("recipe or file", name, recipe_names())
    return _FOLDER / f"{name}.yaml"
