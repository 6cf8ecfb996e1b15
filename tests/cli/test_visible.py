"""Episodes, tables, trees, designs and pictures show hostile text as what it is."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from benchmarks.svg import escaped
from toolorchestra.cli.main import main
from toolorchestra.envs.masorchestra import figure as design_figure
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.envs.records.render import VisibleConsole, episode_text
from toolorchestra.envs.tmatr import figure as tree_figure, raw_env
from toolorchestra.envs.tmatr.tree import decision_tree

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxet\r\x08"
FORBIDDEN = ("\x1b", "\x07", "\x08", "\x9b", "\u202e", "\r")


def is_harmless(text: str) -> bool:
    return not any(letter in text for letter in FORBIDDEN)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A file of an episode whose every text is hostile."""
    env: Any = gym.make("ToolOrchestra-Restaurant-v0")
    env.reset(seed=0)
    env.step([{"name": f"get_{HOSTILE}", "arguments": {HOSTILE: HOSTILE}}])
    env.step(f"It is {HOSTILE}.")
    episode = msgspec.structs.replace(env.unwrapped.episode, why=HOSTILE, task_id=HOSTILE, instruction=HOSTILE)
    file = tmp_path / "episodes.jsonl"
    file.write_bytes(msgspec.json.encode(episode) + b"\n")
    return file


@pytest.mark.parametrize("arguments", [(), ("--list",)])
def test_recorded_episodes(recording: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(recording), *arguments]) == 0
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert r"\u001b]0;" in printed
    assert is_harmless(episode_text(next(iter(read_episodes(recording)))))


def test_errors_that_quote_it(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(recording), "--task", HOSTILE[:5]]) == 2
    assert is_harmless(capsys.readouterr().err)


def test_whatever_is_printed_on_a_console() -> None:
    file = io.StringIO()
    console = VisibleConsole(file=file, width=60)
    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    table.add_row(Text.assemble((HOSTILE, "red"), "styled"))
    console.print(HOSTILE, Text(HOSTILE), Group(Panel(HOSTILE, title=Text(HOSTILE)), table), markup=False)
    assert is_harmless(file.getvalue())
    assert file.getvalue().count("owned") == 7


def test_designs_and_trees() -> None:
    design = Design(dom="high", thinking="x", agents=(Agent("A", "CoTAgent", input=HOSTILE),))
    assert is_harmless(design_figure.text(design))
    assert is_harmless(design_figure.mermaid(design))
    env = raw_env("Math")
    env.reset(seed=0)
    env.step(f"<ACTION>call_tool</ACTION><GOAL>{HOSTILE}</GOAL>")
    env.step(HOSTILE)
    tree = decision_tree(env.episode)
    assert is_harmless(tree_figure.tree_text(tree))
    assert is_harmless(tree_figure.mermaid(tree))
    assert r"\u202e" in escaped(HOSTILE)
    assert json.loads(tree.to_json())
