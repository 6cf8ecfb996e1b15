"""The command `synth masbench`: what it writes, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.envs.sources.masbench.tasks import truth_of
from toolorchestra.envs.task_source import FileSource

Run = Callable[..., Any]


def test_problems_are_written_as_tasks_that_are_played_and_shown_from_their_file(run: Run, tmp_path: Path):
    file = tmp_path / "some.jsonl"
    output = run("synth", "masbench", "--depth", 5, "--parallel", 2, "--count", 3, "--split", "test", "--out", file)
    assert output.code == 0
    assert output.out.startswith(f"3 tasks → {file}")
    tasks = FileSource(file).tasks("test")
    assert [truth_of(task).measured["depth"] for task in tasks] == [5, 5, 5]
    assert len({task.id for task in tasks}) == 3
    shown = run(*output.out.split("toolorchestra ")[1].split()).out
    assert tasks[0].instruction.splitlines()[0][:60] in shown
    assert tasks[0].communicate[0][0] in shown


def test_the_published_counts_are_written(run: Run, tmp_path: Path):
    file = tmp_path / "v1.jsonl"
    assert run("synth", "masbench", "--published", "horizon", "--split", "test", "--out", file).code == 0
    assert len(FileSource(file).tasks("test")) == 567


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "at least one axis"),
        (("--depth", 33), "from 1 to 32"),
        (("--depth", 1, "--breadth", 2), "depth 2 or more"),
        (("--depth", 2, "--published", "depth"), "leave out the values"),
        (("--depth", 2, "--count", 0), "at least 1"),
    ],
)
def test_mistakes_are_explained(run: Run, tmp_path: Path, words: tuple[object, ...], message: str):
    output = run("synth", "masbench", *words, "--out", tmp_path / "x.jsonl")
    assert output.code == 2
    assert message in output.err


def test_problems_can_be_those_of_the_environments_with_the_papers_lines(run: Run, tmp_path: Path) -> None:
    def made(*words: object) -> tuple[str, dict[str, int]]:
        file = tmp_path / "made.jsonl"
        assert run("synth", "masbench", *words, "--alone", "--count", 1, "--out", file).code == 0
        (task,) = FileSource(file).tasks("train")
        return task.instruction, truth_of(task).measured

    text, axes = made("--horizon", 3, "--variables")
    assert "[variable3] = [answer2]" in text
    assert (axes["depth"], axes["horizon"], axes["breadth"], axes["parallel"]) == (9, 3, 1, 1)
    axes = made("--parallel", 2, "--shared-world")[1]
    assert (axes["depth"], axes["horizon"], axes["breadth"], axes["parallel"]) == (3, 1, 1, 2)
    with_notes, without = (made("--robustness", 2, "--seed", 4, *more)[0] for more in ((), ("--no-notes",)))
    assert "Note" in with_notes
    assert "Note" not in without
