"""What `toolorchestra init` writes works, passes the linters and the type checker, and is what docs/extend shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from toolorchestra.cli.init import Kind, extension_files
from toolorchestra.cli.main import main

ROOT = Path(__file__).parents[2]
NAMES = {
    "domain": "hotel",
    "protocol": "frugal",
    "source": "date_spans",
    "learner": "imitate_best",
    "expert": "house_model",
}
"""The names in docs/extend."""
RULES = "B,C4,D,E,F,I,N,PIE,PT,RET,RUF,SIM,TID,UP,W"


def command(*words: str, folder: Path, **variables: str) -> str:
    """Run a tool of this Python and return what it printed, which is the failure if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of each kind, under the names of docs/extend, in a project with settings of its own."""
    folder = tmp_path_factory.mktemp("extensions")
    settings = '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n'
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    for kind, name in NAMES.items():
        assert main(["init", kind, name, "--folder", str(folder / name)]) == 0
    return folder


def test_every_kind_is_here() -> None:
    assert set(NAMES) == set(get_args(Kind)) == {page.stem for page in (ROOT / "docs" / "extend").glob("*.md")}


@pytest.mark.parametrize("kind", NAMES)
def test_the_page_shows_the_files_that_are_written(kind: Kind) -> None:
    page = (ROOT / "docs" / "extend" / f"{kind}.md").read_text(encoding="utf-8")
    files = extension_files(kind, NAMES[kind])
    assert any(name.startswith("test_") for name in files)
    for name, content in files.items():
        language = {".yaml": "yaml", ".ini": "ini"}.get(Path(name).suffix, "python")
        assert f"\n`{NAMES[kind]}/{name}`:\n\n```{language}\n{content}```\n" in page, f"{page} does not show {name}"
    assert f"\ntoolorchestra init {kind} {NAMES[kind]}\n" in page


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long) if kind == "learner" else kind for kind in NAMES]
)
@pytest.mark.slow
def test_what_is_written_passes_its_own_test(kind: str, extensions: Path) -> None:
    out = command("pytest", "-q", "-p", "no:cacheprovider", "-W", "error", NAMES[kind], folder=extensions)
    assert re.search(r"\d passed", out)


def test_what_is_written_is_formatted_and_passes_every_rule_of_the_linter(extensions: Path) -> None:
    command("ruff", "format", "--isolated", "--check", ".", folder=extensions)
    command("ruff", "check", "--isolated", "--no-cache", ".", folder=extensions)
    convention = "lint.pydocstyle.convention='google'"
    rules = ["--select", RULES, "--ignore", "D107", "--line-length", "88", "--config", convention]
    command("ruff", "check", "--isolated", "--no-cache", "--target-version", "py311", *rules, ".", folder=extensions)


@pytest.mark.slow
@pytest.mark.long
def test_what_is_written_passes_the_type_checker(extensions: Path, tmp_path: Path) -> None:
    (tmp_path / "toolorchestra").symlink_to(ROOT)  # checkers cannot follow an editable install
    files = [str(file) for file in sorted(extensions.glob("*/*.py"))]
    paths = os.pathsep.join([str(tmp_path), *(str(extensions / name) for name in NAMES.values())])
    options = ["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    out = command("mypy", *options, *files, folder=extensions, MYPYPATH=paths)
    assert out.startswith(f"Success: no issues found in {len(files)} source files")


@pytest.mark.parametrize("kind", NAMES)
def test_another_name_is_in_all_places_where_a_name_stands(kind: Kind) -> None:
    for name, content in extension_files(kind, "quite_another").items():
        text = name + content
        assert not re.search(r"my_thing|MyThing|My thing|my-thing", text)
        if name.endswith(".py"):
            compile(content, name, "exec")
    assert any("quite_another" in name for name in extension_files(kind, "quite_another"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("My-Hotel", "got 'My-Hotel'. Try 'my_hotel'."),
        ("class", "got 'class'."),
        ("json", "that Python can import and nothing else has"),
        ("toolorchestra", "nothing else has"),
        ("../up", "Try 'up'."),
        ("", "got ''."),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_with_one_that_can(
    run: Callable[..., Any], name: str, message: str, tmp_path: Path
) -> None:
    output = run("init", "source", name, "--folder", tmp_path / "new")
    assert (output.code, output.out) == (2, "")
    assert output.err.startswith("error: ")
    assert message in output.err
    assert not list(tmp_path.iterdir())


def test_no_file_is_overwritten(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "test_hotel.py").write_text("mine")
    output = run("init", "domain", "hotel", "--folder", tmp_path)
    assert output.code == 2
    assert f"{tmp_path / 'test_hotel.py'} exists, and would be overwritten" in output.err
    assert [file.name for file in tmp_path.iterdir()] == ["test_hotel.py"]
    assert (tmp_path / "test_hotel.py").read_text() == "mine"


def test_the_commands_of_contributing_run(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    commands = re.findall(r"`toolorchestra ([^`]+)`", text)
    assert [words.split()[0] for words in commands] == ["init", "build", "validate"]
    quick = {"validate": ["--only", "oracle"]}
    for words in commands:
        name, *rest = words.replace("FOLDER", "mine").replace("NAME", "mine").split()
        assert run(name, *rest, *quick.get(name, [])).code == 0, words
