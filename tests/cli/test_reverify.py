from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def tampered(file: Path, *, to: Path, line: int = 0) -> Path:
    """Write a recording again in which an episode's outcome is another."""
    lines = file.read_text().splitlines(keepends=True)
    record = json.loads(lines[line])
    assert record["outcome"] == "solved"
    lines[line] = json.dumps(record | {"outcome": "failed", "reward": 0.0, "rewards": {"orchestrator": 0.0}}) + "\n"
    to.write_text("".join(lines))
    return to


@pytest.fixture
def solved(run: Run, folder: str, tmp_path: Path) -> Path:
    """A recording of six solved episodes."""
    file = tmp_path / "oracle.jsonl"
    run("rollout", folder, "--policy", "oracle", "--split", "all", "--episodes", 6, "--out", file)
    return file


def test_nothing_flips_where_nothing_changed(run: Run, recorded: Path, solved: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "both.jsonl"
    output = run("reverify", recorded, solved, "--out", out)
    assert output.code == 0
    assert "All 26 verdicts are those recorded." in output.out
    assert out.read_bytes() == recorded.read_bytes() + solved.read_bytes()


def test_what_flipped_is_listed_and_written(run: Run, solved: Path, tmp_path: Path) -> None:
    wrong, out = tampered(solved, to=tmp_path / "wrong.jsonl", line=2), tmp_path / "right.jsonl"
    wrong.with_suffix(".json").write_bytes(solved.with_suffix(".json").read_bytes())
    output = run("reverify", wrong, "--out", out)
    assert output.code == 1
    assert "1 flipped" in output.out
    assert "wrong.jsonl:3  mini/" in output.out
    assert "failed → solved, reward 0 → 1" in output.out
    assert out.read_bytes() == solved.read_bytes()
    assert run("reverify", out).code == 0  # what it was recorded with stands beside it
    found = run("reverify", wrong, "--json").json
    assert (found["episodes"], found["drifted"], found["unjudged"]) == (6, [], [])
    assert found["outcomes"] == [
        {"recorded": "solved", "now": "solved", "episodes": 5},
        {"recorded": "failed", "now": "solved", "episodes": 1},
    ]
    (flip,) = found["flipped"]
    assert (flip["recording"], flip["episode"], flip["reward"]) == ("wrong.jsonl", 3, {"recorded": 0.0, "now": 1.0})
    assert flip["outcome"] == {"recorded": "failed", "now": "solved"}


def test_a_changed_domain_is_given_by_its_folder(run: Run, recorded: Path, edited: Callable[..., Path]) -> None:
    folder = edited("intents.ask_price", ...)
    found = run("reverify", recorded, "--env", folder, "--json")
    assert found.code == 1
    assert {one["reason"].partition(":")[0] for one in found.json["unjudged"]} == {"the task is gone"}
    assert all(one["task"].startswith("mini/ask_price") for one in found.json["unjudged"])
    output = run("reverify", recorded, "--env", folder)
    assert f"{len(found.json['unjudged'])} not judged" in output.out


def test_lines_that_cannot_be_read_are_counted(run: Run, solved: Path) -> None:
    with solved.open("a") as stream:
        stream.write('{"env": "of another format"}\n')
    output = run("reverify", solved)
    assert output.code == 1
    assert "unreadable" in output.out
    assert "1 × " in output.out
    assert run("reverify", solved, "--json").json["unjudged"][0]["reason"].endswith("`env_id`.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Expected at least one RECORDING"),
        (("nowhere.jsonl",), "nowhere.jsonl cannot be read"),
        (("{solved}", "--env", "nowhere"), "Unknown environment 'nowhere'"),
        (("{solved}", "--out", "{solved}"), "is there already: give another --out"),
    ],
)
def test_mistakes_are_refused(run: Run, solved: Path, words: tuple[str, ...], message: str) -> None:
    before = solved.read_bytes()
    output = run("reverify", *(word.format(solved=solved) for word in words))
    assert output.code == 2
    assert message in output.err
    assert solved.read_bytes() == before


def test_an_empty_recording_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    output = run("reverify", tmp_path / "empty.jsonl", "--out", tmp_path / "new.jsonl")
    assert output.code == 2
    assert "there is no episode" in output.err
    assert not (tmp_path / "new.jsonl").exists()
