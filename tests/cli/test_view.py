from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_view_writes_the_page_as_one_file(
    run: Run, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "pages" / "page.html"
    output = run("view", recorded, "--export", file, "--episodes", 8)
    assert output.code == 0
    assert f"{file}: 8 episodes; 12 more are not in it" in output.out
    assert "Content-Security-Policy" in file.read_text(encoding="utf-8")


def test_view_says_what_it_cannot_show(run: Run, recorded: Path, tmp_path: Path) -> None:
    nothing = run("view", tmp_path / "nothing.jsonl")
    assert (nothing.code, "cannot be read: No such file" in nothing.err) == (2, True)
    (tmp_path / "empty").mkdir()
    assert "has neither episodes nor metrics" in run("view", tmp_path / "empty").err
    assert "at most 65535" in run("view", recorded, "--port", 70_000).err
    assert "at least 1" in run("view", recorded, "--episodes", 0).err
    taken = run("view", recorded, "--export", recorded / "page.html")
    assert taken.code == 4
    assert re.search("cannot be written", taken.err)
