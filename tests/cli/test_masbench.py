"""The masbench command: what it writes, shows, draws and checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from toolorchestra.cli.main import main
from toolorchestra.envs.sources.masbench import dataset_check
from toolorchestra.envs.sources.masbench.tasks import truth_of
from toolorchestra.envs.task_source import FileSource

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `masbench` with words; returns the exit code, the output and the error output."""
    monkeypatch.setenv("COLUMNS", "150")

    def call(*words: object) -> tuple[int, str, str]:
        code = main(["masbench", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_make_writes_tasks_that_are_played_from_their_file(run: Run, tmp_path: Path):
    file = tmp_path / "some.jsonl"
    code, out, _ = run("make", "--depth", 5, "--parallel", 2, "--count", 3, "--split", "test", "--out", file)
    assert (code, out) == (0, f"3 tasks → {file}\n")
    tasks = FileSource(file).tasks("test")
    assert [truth_of(task).measured["depth"] for task in tasks] == [5, 5, 5]
    assert len({task.id for task in tasks}) == 3


def test_make_writes_the_published_counts(run: Run, tmp_path: Path):
    file = tmp_path / "v1.jsonl"
    assert run("make", "--published", "horizon", "--split", "test", "--out", file)[0] == 0
    assert len(FileSource(file).tasks("test")) == 567


def test_show_prints_the_text_the_steps_and_the_axes(run: Run):
    code, out, _ = run("show", "--robustness", 2, "--seed", 4)
    assert code == 0
    assert "Read the following passage carefully." in out
    assert "a note claims" in out
    assert "robustness 2" in out
    task = json.loads(run("show", "--robustness", 2, "--seed", 4, "--json")[1])
    assert ", ".join(accepted[0] for accepted in task["communicate"]) in out
    assert run("show", "--robustness", 2, "--seed", 4, "--number", 1)[1] != out
    assert "Note" not in run("show", "--robustness", 2, "--seed", 4, "--no-notes")[1]


def test_figure_draws_a_flowchart(run: Run, tmp_path: Path):
    file = tmp_path / "graph.mmd"
    assert run("figure", "--breadth", 4, "--out", file)[:2] == (0, f"{file}\n")
    assert file.read_text(encoding="utf-8").startswith("flowchart LR")
    new = tmp_path / "new" / "graph.mmd"
    assert run("figure", "--breadth", 4, "--out", new)[0] == 0
    assert new.read_text(encoding="utf-8") == file.read_text(encoding="utf-8")
    problem = f"error: {tmp_path} cannot be written: Is a directory. Give the path of a file.\n"
    assert run("figure", "--breadth", 4, "--out", tmp_path)[::2] == (4, problem)


def test_check_reports_each_axis(run: Run):
    code, out, _ = run("check", "--axis", "depth", "breadth", "--values", 2, 5, "--count", 5)
    assert code == 0
    assert out.count("pass") == 2
    found = json.loads(run("check", "--axis", "depth", "--values", 3, "--count", 5, "--json")[1])
    assert found["depth"]["instances"] == 10
    assert found["depth"]["disagreements"] == 0


def test_check_fails_where_text_and_graph_disagree(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dataset_check, "faults", lambda instance: ["the text gives another answer"])
    code, out, err = run("check", "--axis", "depth", "--values", 3, "--count", 2)
    assert code == 1
    assert "FAIL" in out
    assert "depth3 train 0: the text gives another answer" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show",), "at least one axis"),
        (("show", "--depth", 33), "from 1 to 32"),
        (("show", "--depth", 1, "--breadth", 2), "depth 2 or more"),
        (("make", "--depth", 2, "--published", "depth", "--out", "x.jsonl"), "leave out the values"),
        (("make", "--depth", 2, "--count", 0, "--out", "x.jsonl"), "at least 1"),
        (("check", "--count", 0), "--count of 1 or more"),
    ],
)
def test_mistakes_are_explained(run: Run, words: tuple[object, ...], message: str):
    code, _, err = run(*words)
    assert code == 2
    assert message in err


def test_problems_can_be_those_of_the_environments_with_the_papers_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["masbench", "show", "--horizon", "3", "--alone", "--variables"]) == 0
    out = capsys.readouterr().out
    assert "[variable3] = [answer2]" in out
    assert "depth 9, horizon 3, breadth 1, parallel 1" in out
    assert main(["masbench", "show", "--parallel", "2", "--alone", "--shared-world"]) == 0
    assert "depth 3, horizon 1, breadth 1, parallel 2" in capsys.readouterr().out
