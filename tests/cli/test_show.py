from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.envs.tmatr.figure import mermaid
from toolorchestra.envs.tmatr.tree import decision_tree

Run = Callable[..., Any]
MULTI_AGENT = "MSARL-Math-v0"
QUIET = ("--env-options", "python", "simulated")


def test_show_draws_an_episode(run: Run, recorded: Path):
    episodes = list(read_episodes(recorded))
    assert episodes[0].task_id in run("show", recorded).out
    assert episodes[2].task_id in run("show", recorded, 3).out
    assert "Episode 20 of 20" in run("show", recorded, -1).out
    assert episodes[5].instruction.split()[0] in run("show", recorded, "--task", episodes[5].task_id).out
    listed = run("show", recorded, "--list").out
    assert all(episode.task_id in listed for episode in episodes)


def test_show_says_what_it_cannot_show(run: Run, recorded: Path, tmp_path: Path):
    assert "has 20 episodes" in run("show", recorded, 21).err
    assert "Did you mean" in run("show", recorded, "--task", "mini/ask_price/0").err
    assert "cannot be read: No such file" in run("show", tmp_path / "nothing.jsonl").err
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"env_id": 3}\n')
    output = run("show", broken)
    assert output.code == 2
    assert f"{broken}:1: expected an episode" in output.err


def test_show_takes_episodes_of_one_outcome_and_says_why_they_failed(run: Run, recorded: Path):
    failed = [(n, one) for n, one in enumerate(read_episodes(recorded), 1) if one.outcome == "failed"]
    assert 2 <= len(failed) < 20
    number, episode = failed[1]
    shown = run("show", recorded, 2, "--outcome", "failed").out
    assert f"Episode {number} of 20 (2 of {len(failed)} failed episodes)" in shown
    assert f"has {len(failed)} failed episodes; got number 21" in run("show", recorded, 21, "--outcome", "failed").err
    listed = run("show", recorded, "--list", "--outcome", "failed").out
    assert len(re.findall(r"^ *\d+  mini/", listed, re.MULTILINE)) == len(failed)
    assert episode.why[:20] in listed
    facts = run("show", recorded, "--list", "--outcome", "failed", "--json").json
    assert [(one["number"], one["why"]) for one in facts] == [(n, one.why) for n, one in failed]


@pytest.mark.parametrize("env", ["mini", MULTI_AGENT, "TMATR-Math-v0", "ToolOrchestra-Math-v0"])
def test_episodes_of_every_kind_are_printed_as_json_and_as_they_were_written(
    run: Run, folder: str, tmp_path: Path, env: str
):
    file = tmp_path / "random.jsonl"
    options = QUIET if env in (MULTI_AGENT, "TMATR-Math-v0") else ()
    run("rollout", folder if env == "mini" else env, "--policy", "random", "--episodes", 2, *options, "--out", file)
    first, second = read_episodes(file)
    assert run("show", file, 2, "--json").json == json.loads(second.to_json())
    raw = run("show", file, "--raw").out
    for turn in first.turns:
        assert str(turn.message["content"]) in raw
        assert all(text in raw for text in turn.observations.values())


def test_an_episode_is_written_as_the_page_that_notebooks_show(run: Run, tmp_path: Path) -> None:
    file, page = tmp_path / "random.jsonl", tmp_path / "episode.html"
    run("rollout", "TMATR-Math-v0", "--policy", "random", "--episodes", 2, *QUIET, "--out", file)
    assert run("show", file, 2, "--html", page).code == 0
    _, second = read_episodes(file)
    written = page.read_text(encoding="utf-8")
    assert second._repr_html_() in written
    assert "default-src 'none'" in written
    assert "<script" not in written


def test_the_decisions_of_a_hierarchy_are_shown_drawn_and_printed(run: Run, tmp_path: Path) -> None:
    file, picture = tmp_path / "random.jsonl", tmp_path / "tree.mmd"
    run("rollout", "TMATR-Math-v0", "--policy", "random", "--episodes", 2, *QUIET, "--out", file)
    first, second = read_episodes(file)
    shown = run("show", file, 2, "--tree", "--mermaid", picture)
    assert shown.code == 0
    assert shown.out.startswith(second.task_id)
    assert "planner DECIDE" in shown.out
    assert picture.read_text(encoding="utf-8") == mermaid(decision_tree(second))
    assert json.loads(run("show", file, "--tree", "--json").out) == json.loads(decision_tree(first).to_json())
    assert (
        f"{file / 'tree.mmd'} cannot be written: {file} is a file"
        in run("show", file, "--mermaid", file / "tree.mmd").err
    )


def test_what_has_no_decisions_has_no_tree(run: Run, tmp_path: Path) -> None:
    for env in (MULTI_AGENT, "ToolOrchestra-Math-v0"):
        file = tmp_path / f"{env}.jsonl"
        options = QUIET if env == MULTI_AGENT else ()
        run("rollout", env, "--policy", "random", "--episodes", 1, *options, "--out", file)
        refused = run("show", file, "--tree")
        assert refused.code == 2
        assert f"Expected an episode of TMATR, which has a decision tree; found {env}" in refused.err
