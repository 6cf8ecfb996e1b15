"""The documentation's site: what its hooks do, in the checkout that tests run in. CI builds the whole site."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

mkdocs_config = pytest.importorskip("mkdocs.config", reason="comes with the extra `dev`")
pytest.importorskip("mkdocstrings", reason="comes with the extra `dev`")
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def config() -> Any:
    """The site's configuration after all that is done to it before a build."""
    found = mkdocs_config.load_config(str(ROOT / "mkdocs.yml"))
    return found.plugins.on_config(found)


def test_mkdocstrings_reads_this_checkout_however_it_is_installed(config: Any) -> None:
    handler = config.plugins["mkdocstrings"].get_handler("python")
    griffe = pytest.importorskip("griffe")
    _, package = griffe.ModuleFinder(handler._paths).find_spec("toolorchestra")
    assert package.path.resolve() == ROOT / "__init__.py"


def test_pictures_in_html_are_found_from_the_address_of_their_page(config: Any) -> None:
    files_module = pytest.importorskip("mkdocs.structure.files")
    markdown = (ROOT / "docs" / "viewer.md").read_text(encoding="utf-8")
    files = files_module.get_files(config)
    page = SimpleNamespace(file=files.get_file_from_path("viewer.md"), url="viewer/")
    hooks = config.hooks["docs/_site/hooks.py"]
    text = hooks.on_page_markdown(markdown, page=page, config=config, files=files)
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert len(shown) == 18
    assert all((ROOT / "docs" / "viewer" / name).exists() for name in shown), shown
    with pytest.raises(pytest.importorskip("mkdocs.exceptions").PluginError, match=r"no\.webp, which is not there"):
        hooks.on_page_markdown('<img src="no.webp">', page=page, config=config, files=files)
