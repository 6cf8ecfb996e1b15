"""The examples in docstrings say the truth."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import toolorchestra

ROOT = Path(__file__).parent.parent
EXAMPLES = ("baselines", "searches", "studies")
PACKAGES = ("toolscale", "agents", "envs", "algos", "cli")
EXTRAS = {
    "datasets", "httpx2", "inspect_ai", "matplotlib", "mcp", "openai", "openenv", "scipy", "skyrl_gym", "torch",
    "transformers", "trl", "verifiers",
}  # fmt: skip


def modules() -> list[str]:
    names = ["toolorchestra"]
    for package in PACKAGES:
        found = importlib.import_module(f"toolorchestra.{package}")
        names.append(found.__name__)
        names += [
            module.name
            for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}.")
            if not module.name.endswith(".__main__")
        ]
    files = (file for folder in EXAMPLES for file in sorted((ROOT / "examples" / folder).glob("[a-z]*.py")))
    return [*names, *(".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files)]


@pytest.mark.parametrize("name", modules())
def test_examples_are_right(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in EXTRAS:
            pytest.skip(f"{error.name} comes with an extra")
        raise
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not result.failed, capsys.readouterr().out


def test_the_package_has_a_version() -> None:
    assert toolorchestra.__version__.count(".") == 2
