"""The packages show what users need, and nothing else."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize("name", ["toolorchestra.toolscale", "toolorchestra.toolscale.synth"])
def test_a_package_shows_its_names_and_has_them(name: str) -> None:
    package = importlib.import_module(name)
    assert dir(package) == sorted(package.__all__)
    for one in package.__all__:
        assert getattr(package, one).__class__ is not type(package), f"{one} is a module"
    with pytest.raises(AttributeError, match="nothing"):
        _ = package.nothing
