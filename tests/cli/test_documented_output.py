"""What the documents show below a command is what the command prints."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("cli", "recipes")]
"""Pages whose commands take seconds; they follow one another, and later ones read what earlier ones wrote."""
SHORTER = {"validate": ["--only", "gymnasium", "random", "coverage"]}
"""Commands that are run in part, but for a test marked `long`: a line of the rest is one of another check."""
OTHER_CHECKS = re.compile(
    r". +(oracle|null|determinism|snapshot|hostile|verifier|attacks|exploit|wording)\b|TIMEOUT\)|\d+ lines on "
)


def shown(page: Path) -> list[tuple[list[str], list[str]]]:
    """Return the commands in the blocks of a page, each with the lines below it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    parts = [part.splitlines() for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(command), lines) for command, *lines in parts]


def plain(line: str) -> str:
    """Return a line without what differs from run to run: seconds of the machine, and the width of columns."""
    line = re.sub(r"\s+\d+\.\d$|(?<=\()\d+\.\d s|(?<=in )\d+\.\d s", "", line.rstrip())
    return re.sub(r"[ ─]+", " ", line).strip()


def test_a_line_matches_up_to_where_it_is_cut() -> None:
    assert printed("a  b c… d", ["a b cc d"])
    assert not printed("a b c… d", ["a b cc e"])
    assert printed("all passed (3.1 s)", ["all passed (4.0 s)"])


def printed(line: str, lines: list[str]) -> bool:
    """Return whether a line that is shown, perhaps cut by ``…``, is among those printed."""
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in plain(line).split("…")) + ".*")
    return plain(line) in map(plain, lines) or ("…" in line and any(map(pattern.match, map(plain, lines))))


@pytest.mark.parametrize(
    ("page", "shorter"),
    [*((page, SHORTER) for page in PAGES), pytest.param(PAGES[0], {}, marks=pytest.mark.long)],
    ids=lambda value: value.stem if isinstance(value, Path) else "in-part" if value else "whole",
)
def test_every_line_that_is_shown_is_printed(
    page: Path, shorter: dict[str, list[str]], run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    shutil.copytree(ROOT / "tests" / "data" / "mini", tmp_path / "my_domain")
    found = shown(page)
    assert found
    for (_, *words), lines in found:
        output = run(*words, *shorter.get(words[0], []))
        expected = [line for line in lines if line.strip() not in ("", "…")]
        if words[0] in shorter:
            expected = [line for line in expected if not OTHER_CHECKS.match(line.strip())]
        missing = [line for line in expected if not printed(line, output.out.splitlines())]
        assert not missing, f"{shlex.join(words)} does not print {missing[0]!r}; it prints\n{output.out}"
