"""Every public name has a docstring, and its section in the API reference."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SITE = runpy.run_path(str(ROOT / "docs" / "_site" / "pages.py"))
PACKAGES = list(SITE["public_packages"]())
REFERENCE = dict(SITE["reference"]())


def documented(place: str) -> bool:
    """Whether what a module assigns has a text below it."""
    module, _, name = place.rpartition(".")
    file = inspect.getsourcefile(importlib.import_module(module))
    assert file is not None
    body = ast.parse(Path(file).read_text(encoding="utf-8")).body
    for node, following in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
    return False


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_a_docstring_and_a_section(package: str) -> None:
    module = importlib.import_module(package)
    for name in SITE["public_names"](module):
        found: Any = getattr(module, name)
        place = SITE["place"](package, name, found)
        own = inspect.isclass(found) or inspect.isroutine(found)
        assert found.__doc__ if own else documented(place), f"{package}.{name} has no docstring"
        if inspect.isclass(found):
            public = {
                key: one for key, one in vars(found).items() if not key.startswith("_") and inspect.isroutine(one)
            }
            assert all(inspect.getdoc(getattr(found, key)) for key in public), f"a method of {package}.{name}"
        page = REFERENCE[SITE["api_page"](package)]
        assert re.search(rf"^(::: {re.escape(place)}|## {name})$", page, re.MULTILINE), f"{package}.{name}"
        assert f"`{name}`" in REFERENCE["api/index.md"]


def test_every_package_with_public_names_is_in_the_reference() -> None:
    stubs = {
        ".".join(("toolorchestra", *stub.parent.relative_to(ROOT).parts))
        for layer in ("toolscale", "agents", "envs", "algos")
        for stub in (ROOT / layer).rglob("__init__.pyi")
    }
    assert {*PACKAGES} == {"toolorchestra", *stubs}
