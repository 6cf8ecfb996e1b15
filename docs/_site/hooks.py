"""Hooks of the site: where the package is read from, and links to files of the repository that are no pages."""

from __future__ import annotations

import atexit
import posixpath
import re
import runpy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[2]
FIGURES = "benchmarks/results"
PICTURE = re.compile(r"""(?:(?<=<img src=")|(?<=" src=")|(?<=" srcset="))[^":]+(?=")""")
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")


@event_priority(100)  # before mkdocstrings' own, which makes the handler with the options that it finds
def on_config(config: Any) -> Any:
    """Let mkdocstrings read the sources, which lie at the root of the repository, as the package toolorchestra."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = folder / "toolorchestra"
    package.mkdir()
    for name in ("agents", "algos", "cli", "envs", "toolscale", "__init__.py", "__init__.pyi"):
        (package / name).symlink_to(ROOT / name)
    handlers = config.plugins["mkdocstrings"].config["handlers"]
    handlers["python"] = {**handlers["python"], "paths": [str(folder)]}
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made from the code, and the figures of the benchmarks."""
    for path, text in runpy.run_path(str(Path(__file__).with_name("pages.py")))["pages"]():
        files.append(File.generated(config, path, content=text))
    for figure in sorted((ROOT / FIGURES).glob("*.svg")):
        files.append(File.generated(config, f"figures/{figure.name}", abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links to files of the repository that are no pages lead to the repository."""
    here = (Path(config["docs_dir"]) / page.file.src_uri).parent

    def linked(match: re.Match[str]) -> str:
        target = (here / match["target"]).resolve()
        if target.is_relative_to(config["docs_dir"]) or not target.is_relative_to(ROOT):
            return match[0]
        path = target.relative_to(ROOT).as_posix()
        up = "../" * page.file.src_uri.count("/")
        if target.suffix == ".svg" and path.startswith(FIGURES):
            return f"{up}figures/{target.name}"
        if path in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
            page_of = "index.md" if path == "README.md" else path
            return f"{up}{page_of}{match['anchor'] or ''}"
        kind = "tree" if target.is_dir() else "blob"
        return f"{config['repo_url']}/{kind}/main/{path}{match['anchor'] or ''}"

    def shown(match: re.Match[str]) -> str:
        """Pictures in HTML, whose addresses MkDocs leaves as they are: the page has another address than its file."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), match[0]))
        file = files.get_file_from_path(path)
        if file is None:
            raise PluginError(f"{page.file.src_uri} shows {match[0]}, which is not there.")
        return str(get_relative_url(file.url, page.url))

    return PICTURE.sub(shown, LINK.sub(linked, markdown))
