from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolorchestra.toolscale import generate as generation
from toolorchestra.toolscale.common.errors import OptionError, TaskError, UnknownNameError
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.generate import generate
from toolorchestra.toolscale.tasks.task import read_tasks, solution_key


@pytest.fixture(scope="module")
def made(mini_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 tasks of the mini domain, made in this process."""
    file = tmp_path_factory.mktemp("made") / "tasks.jsonl"
    generate([str(mini_folder)], 200, file)
    return file


def test_every_generated_task_is_solved_by_its_reference_trajectory_and_not_by_silence(
    made: Path, mini_folder: Path
) -> None:
    domain = load_domain(mini_folder)
    session = domain.session()
    tasks = read_tasks(made)
    assert len(tasks) == len({task.instruction for task in tasks}) == 200
    assert {task.operator for task in tasks} >= {None, "constraint", "chain"}
    for task in tasks:
        assert domain.replay(task, task.reference_calls, task.answer, session).solved
        assert not domain.replay(task, (), "", session).solved


def test_nothing_trained_on_is_solved_like_what_is_tested(made: Path) -> None:
    tasks = read_tasks(made)
    trained, tested = ({solution_key(t) for t in tasks if (t.split == "train") is train} for train in (True, False))
    assert trained
    assert tested
    assert not trained & tested


def test_tasks_that_are_not_evolved_have_the_ids_that_the_domain_gives_them(made: Path, mini_folder: Path) -> None:
    domain = load_domain(mini_folder)
    shipped = {task.id: task for task in domain.tasks()}
    generated = {task.id: task for task in read_tasks(made) if task.operator is None}
    assert len(set(generated) & set(shipped)) > 40
    assert all(generated[task_id] == shipped[task_id] for task_id in set(generated) & set(shipped))


@pytest.mark.parametrize("workers", [2, *(pytest.param(count, marks=pytest.mark.long) for count in (1, 3))])
def test_workers_and_hash_seeds_change_nothing(made: Path, mini_folder: Path, tmp_path: Path, workers: int) -> None:
    file, run = tmp_path / "again.jsonl", tmp_path / "run.py"
    script = (
        "import sys\nfrom pathlib import Path\nfrom toolorchestra.toolscale.generate import generate\n"
        "from toolorchestra.toolscale.workers.executors import make_executor\n"
        "if __name__ == '__main__':\n    with make_executor('process', int(sys.argv[3])) as executor:\n"
        "        generate([sys.argv[1]], 200, Path(sys.argv[2]), executor=executor)\n"
    )
    run.write_text(script)  # workers that are spawned read the main module again
    command = [sys.executable, str(run), str(mini_folder), str(file), str(workers)]
    subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": str(workers)}, check=True)
    assert file.read_bytes() == made.read_bytes()


def test_another_seed_draws_others(made: Path, mini_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    generate([str(mini_folder)], 200, other, seed=1)
    evolved = [{task.instruction for task in read_tasks(file) if task.operator} for file in (made, other)]
    assert len(evolved[0] & evolved[1]) < 60


def test_domains_share_the_tasks_and_missing_ones_are_reported(mini_folder: Path, tmp_path: Path) -> None:
    counts: list[int] = []
    names = [str(mini_folder), "restaurant"]
    found = generate(names, 151, tmp_path / "both.jsonl", progress=counts.append)
    assert found.domains == {str(mini_folder): 76, "restaurant": 75}
    assert sum(found.operators.values()) == sum(found.splits.values()) == found.made == 151
    assert counts == [50, 100, 150]


def test_a_domain_that_runs_out_gives_what_it_has(
    mini_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "OPERATORS", {"indirect": generation.OPERATORS["indirect"]})
    found = generate([str(mini_folder)], 2000, tmp_path / "few.jsonl")
    assert 0 < found.made < found.requested == 2000
    assert found.operators == {"none": found.made}  # no search of the mini domain finds an id


def test_a_run_that_fails_leaves_nothing_behind(
    mini_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text("before\n")

    def stop(made: int) -> None:
        raise TaskError("stop")

    with pytest.raises(TaskError, match="stop"):
        generate([str(mini_folder)], 200, file, progress=stop)
    assert file.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [file]


def test_wrong_options_are_refused(mini_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="at least one task"):
        generate([str(mini_folder)], 0, tmp_path / "x")
    with pytest.raises(OptionError, match="different domains"):
        generate([str(mini_folder)] * 2, 10, tmp_path / "x")
    with pytest.raises(UnknownNameError, match="restorant"):
        generate(["restorant"], 10, tmp_path / "x")
