"""Crashes and company: checkpoints that are whole or absent, runs that go on, and folders with one writer."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import sft
from toolorchestra.algos.trainer import checkpoint_to_resume, last_checkpoint, remove_checkpoints, run_script
from toolorchestra.cli.main import main
from toolorchestra.toolscale.common import writing
from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import InUseError, OutputError

ROOT = Path(__file__).parents[2]
MINI = str(ROOT / "tests" / "data" / "mini")


def small(output: Path, **changes: Any) -> sft.TrainSFT:
    settings = {"env": MINI, "difficulty": (1,), "steps": 3, "batch": 2, "replays": 1, "threads": 1, "save_every": 1}
    return sft.TrainSFT(output=output, **(settings | changes))  # type: ignore[arg-type]


def same(a: Path, b: Path) -> bool:
    models = (TokenPolicy.load(folder / "final").model for folder in (a, b))
    return all(torch.equal(*pair) for pair in zip(*(model.parameters() for model in models), strict=True))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks; elsewhere: python benchmarks/kills.py on Linux")
@pytest.mark.parametrize("kinds", [("sft", "rollout"), ("synth", "synth-tasks")], ids="-".join)
@pytest.mark.long
def test_runs_killed_at_random_moments_end_as_those_that_were_not(kinds: tuple[str, ...]) -> None:
    command = [sys.executable, "benchmarks/kills.py", "--kinds", *kinds, "--kills", "4"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("Every run ended as one that was never killed.\n")


def test_the_newest_complete_checkpoint_is_taken(tmp_path: Path) -> None:
    for name, file in {
        "checkpoint-2": "trainer_state.json",
        "checkpoint-10": "learner.pt",
        "checkpoint-30": "model.safetensors",  # a copy that was cut short
        "checkpoint-old": "trainer_state.json",
        ".checkpoint-40.part": "trainer_state.json",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert last_checkpoint(tmp_path / "none") is None


def test_only_the_newest_complete_checkpoints_are_kept(tmp_path: Path) -> None:
    for name in ("checkpoint-2", "checkpoint-10", "checkpoint-9", "checkpoint-30"):
        (tmp_path / name).mkdir()
        if name != "checkpoint-30":
            (tmp_path / name / "learner.pt").touch()
    remove_checkpoints(tmp_path, None)
    assert len(list(tmp_path.iterdir())) == 4
    remove_checkpoints(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-30", "checkpoint-9"]


def test_a_training_keeps_as_many_checkpoints_as_it_was_told(tmp_path: Path) -> None:
    sft.train(small(tmp_path / "run", save_total_limit=2))
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir() if path.is_dir())
    assert kept == ["checkpoint-2", "checkpoint-3"]


def test_a_checkpoint_that_is_being_written_is_none_and_the_run_goes_on_from_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sft.train(small(tmp_path / "whole"))
    folder = tmp_path / "cut" / "checkpoints"

    def cut(path: Path) -> None:
        """Cut the writing of the third checkpoint short, as a crash at its last moment would."""
        if path.parent.name == ".checkpoint-3.part":
            assert not (folder / "checkpoint-3").exists()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing, "_sync", cut)
        with pytest.raises(KeyboardInterrupt):
            sft.train(small(tmp_path / "cut"))
    assert sorted(path.name for path in folder.glob("checkpoint-*")) == ["checkpoint-1", "checkpoint-2"]
    assert not (tmp_path / "cut" / "final").exists()
    assert checkpoint_to_resume(small(tmp_path / "cut", resume=True)) == folder / "checkpoint-2"
    sft.train(small(tmp_path / "cut", resume=True))
    assert same(tmp_path / "cut", tmp_path / "whole")
    assert not list((tmp_path / "cut").rglob(".*"))  # neither drafts nor locks


def test_a_run_that_ended_before_its_first_checkpoint_is_begun_again_by_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sft, "teach", cut)
        with pytest.raises(KeyboardInterrupt):
            sft.train(small(tmp_path / "run"))
    sft.train(small(tmp_path / "run", resume=True))
    assert "The run ended before its first checkpoint: its steps are made again." in capsys.readouterr().out
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()
    assert not (tmp_path / "run.1").exists()


def test_a_warm_start_that_was_made_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolorchestra.algos import grpo

    config = grpo.TrainGRPO(env=MINI, output=tmp_path / "run", sft_steps=2, threads=1, resume=False)
    made: list[int] = []
    warm_up = grpo.warm_up

    def count(*arguments: Any) -> TokenPolicy:
        made.append(1)
        return warm_up(*arguments)

    def cut(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(grpo, "warm_up", count)
    monkeypatch.setattr(grpo.SingleAgentTrainer, "judge", cut)
    for resume in (False, True):
        config.resume = resume
        with pytest.raises(KeyboardInterrupt):
            grpo.train(config)
        assert (tmp_path / "run" / "start" / "model.safetensors").exists()
    assert len(made) == 1
    assert "sft" in (tmp_path / "run" / "metrics.jsonl").read_text()  # what was logged of it is kept


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_training_is_refused_and_leaves_the_folder_where_it_is(tmp_path: Path, resume: bool) -> None:
    run = tmp_path / "run"
    sft.train(small(run, steps=1))
    with Claim.of_folder(run), pytest.raises(InUseError, match=rf"^{run} is being written by process {os.getpid()}\."):
        sft.train(small(run, resume=resume))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    sft.train(small(run, steps=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.1"]
    assert not [*tmp_path.rglob(".lock")]


def test_a_study_whose_trainings_another_process_makes_is_refused(tmp_path: Path) -> None:
    from examples.studies import tmatr

    with Claim.of_folder(tmp_path / "runs"), pytest.raises(InUseError, match=f"process {os.getpid()}"):
        tmatr.run(1, 1, runs=tmp_path / "runs")


@pytest.mark.long
def test_a_study_names_the_training_that_failed(tmp_path: Path) -> None:
    from examples.studies import tmatr

    told = r"The training joint-0 ended with status 4: error: .*joint-0 is being written"
    with Claim.of_folder(tmp_path / "joint-0"), pytest.raises(OutputError, match=told):
        tmatr.train("joint", 0, tmp_path)


def test_a_disk_that_fills_ends_a_training_in_a_line_and_the_checkpoints_before_are_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(tmp_path / "run")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "argv", ["sft.py"])

    def train(_: sft.TrainSFT) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            sft.train(config)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with pytest.raises(SystemExit) as end:
        run_script(sft.TrainSFT, train)
    assert end.value.code == 4
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path / 'run'}/checkpoints/checkpoint-1 cannot be written: File too large.")
    assert error.count("\n") == 1
    assert not [*(tmp_path / "run" / "checkpoints").glob("*checkpoint*")]
    sft.train(small(tmp_path / "run", resume=True))  # there is room again
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()


def test_a_run_where_a_file_is_in_the_way_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    run = tmp_path / "file" / "run"
    assert main(["train", "sft", "--output", str(run)]) == 4
    problem = f"{run} cannot be written: {tmp_path / 'file'} is a file, not a folder. Give another path."
    assert capsys.readouterr().err == f"error: {problem}\n"


def test_an_interruption_leaves_no_lock(tmp_path: Path) -> None:
    """A training that is interrupted by Ctrl-C gives its folder up."""
    program = "import signal, sys; from toolorchestra.algos import sft; from toolorchestra.cli.main import main; "
    program += "sft.teach = lambda *_, **__: print('it trains', flush=True) or signal.pause(); sys.exit(main())"
    command = [sys.executable, "-c", program, "train", "sft", "--output", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert b"it trains\n" in iter(first.stdout.readline, b""), "it was over before it could be interrupted"
        assert (tmp_path / "run" / ".lock").exists()
        first.send_signal(signal.SIGINT)
        first.communicate()
    assert first.returncode == 130
    assert not (tmp_path / "run" / ".lock").exists()
