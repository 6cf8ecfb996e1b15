from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

from toolorchestra.algos.reporting.report import RunLog, closing_table, draw_curves, rename_previous_run
from toolorchestra.toolscale.common.errors import OptionError


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def two_phases(folder, sft=4, grpo=6, **options):
    run = RunLog(folder, tensorboard=False, **options)
    for step in range(1, sft + 1):
        run.log("sft", step, loss=1 / step)
    for step in range(1, grpo + 1):
        run.log("grpo", step, success=step / 10, reward=step / 10)
    return run


def resumed(folder, phase, step):
    with RunLog(folder, resume=(phase, step), tensorboard=False) as run:
        return [(record["phase"], record["step"]) for record in run.records]


def scalars(folder, phase):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard" / phase)).Reload()
    return {tag: [(e.step, round(e.value, 6)) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def quiet(**options):
    return Console(file=io.StringIO(), width=100, **options)


def test_each_line_is_on_disk_as_soon_as_it_is_logged(tmp_path):
    run = RunLog(tmp_path, tensorboard=False)
    run.log("grpo", 1, success=0.5, reward=torch.tensor(0.25), cost=np.float32(0.5), kl=None, loss=math.nan)
    assert lines(tmp_path) == [
        {"phase": "grpo", "step": 1, "kind": "train", "success": 0.5, "reward": 0.25, "cost": 0.5}
    ]
    run.close()


def test_resuming_cuts_what_came_after_the_checkpoint(tmp_path):
    whole = two_phases(tmp_path / "whole")
    two_phases(tmp_path / "broken", grpo=5).close()
    with RunLog(tmp_path / "broken", resume=("grpo", 3), tensorboard=False) as run:
        assert [r["step"] for r in run.records if r["phase"] == "grpo"] == [1, 2, 3]
        for step in (4, 5, 6):
            run.log("grpo", step, success=step / 10, reward=step / 10)
    assert lines(tmp_path / "broken") == lines(tmp_path / "whole") == whole.records
    whole.close()


def test_resuming_an_earlier_phase_cuts_the_later_one(tmp_path):
    two_phases(tmp_path).close()
    assert resumed(tmp_path, "sft", 2) == [("sft", 1), ("sft", 2)]


def test_resuming_at_the_end_of_a_phase_keeps_it_and_cuts_the_next(tmp_path):
    two_phases(tmp_path).close()
    assert resumed(tmp_path, "sft", 4) == [("sft", step) for step in (1, 2, 3, 4)]


def test_resuming_before_the_first_step_of_a_phase_keeps_the_phases_before(tmp_path):
    two_phases(tmp_path).close()
    assert resumed(tmp_path, "grpo", 0) == [("sft", step) for step in (1, 2, 3, 4)]
    assert resumed(tmp_path, "grpo", 0) == [("sft", step) for step in (1, 2, 3, 4)]


def test_a_line_cut_short_by_a_crash_is_dropped(tmp_path):
    two_phases(tmp_path).close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"phase": "grpo", "st')
    with RunLog(tmp_path, resume=("grpo", 6), tensorboard=False) as run:
        run.log("grpo", 7, success=0.7)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7]


def test_resuming_nothing_is_refused(tmp_path):
    with pytest.raises(OptionError, match="no run to resume"):
        RunLog(tmp_path, resume=("grpo", 1))


def test_a_new_run_replaces_the_metrics_of_the_last(tmp_path):
    two_phases(tmp_path).close()
    RunLog(tmp_path, tensorboard=False).close()
    assert lines(tmp_path) == []


def test_tensorboard_holds_each_step_once_also_after_a_resume(tmp_path):
    with RunLog(tmp_path) as run:
        run.log("sft", 1, loss=2.0)
        for step in range(1, 6):
            run.log("grpo", step, reward=step / 8)
    with RunLog(tmp_path, resume=("grpo", 3)) as run:
        run.log("grpo", 4, reward=0.875)
        run.heldout("grpo", 4, [1, 1, 0, 0])
    assert scalars(tmp_path, "sft") == {"train/loss": [(1, 2.0)]}
    found = scalars(tmp_path, "grpo")
    assert found["train/reward"] == [(1, 0.125), (2, 0.25), (3, 0.375), (4, 0.875)]
    assert found["heldout/success"] == [(4, 0.5)]


def test_held_out_success_is_logged_with_its_interval(tmp_path):
    with RunLog(tmp_path, tensorboard=False) as run:
        share = run.heldout("grpo", 10, [1, 1, 0, None, 1], cost=0.01)
    (line,) = lines(tmp_path)
    assert line["kind"] == "heldout"
    assert (line["success"], line["low"], line["high"]) == share
    assert line["success"] == 0.75
    assert line["episodes"] == 4
    assert (line["success_of_all"], line["all_episodes"]) == (0.6, 5)


def test_a_terminal_sees_a_bar_with_the_metrics(tmp_path):
    console = quiet(force_terminal=True, color_system=None)
    run = two_phases(tmp_path, console=console)
    with run.progress("grpo", steps=8):
        run.log("grpo", 7, success=0.5, reward=0.25, cost=0.0012, kl=0.003)
        run.log("grpo", 8, success=0.75, tokens_per_second=8200)
    run.close()
    shown = console.file.getvalue()
    for text in ("GRPO batches", "8/8", "success 0.75", "reward 0.25", "$0.0012", "KL 0.003", "8,200 tok/s"):
        assert text in shown


def test_a_log_file_sees_a_line_each_tenth(tmp_path):
    console = quiet()
    with (
        RunLog(tmp_path, tensorboard=False, console=console) as run,
        run.progress("sft", steps=100, done=50, counted="steps"),
    ):
        for step in range(51, 101):
            run.log("sft", step, loss=0.5)
    shown = console.file.getvalue().splitlines()
    assert [line.split()[2] for line in shown] == ["60/100", "70/100", "80/100", "90/100", "100/100"]
    assert shown[0] == "SFT steps 60/100  loss 0.500"


def test_a_run_that_ends_shows_each_batch_and_the_time_that_is_left(tmp_path, monkeypatch):
    console = quiet()
    monkeypatch.setattr(sys.modules[RunLog.__module__], "time", SimpleNamespace(monotonic=lambda: 100.0))
    with RunLog(tmp_path, tensorboard=False, console=console) as run:
        with run.progress("sft", steps=20, counted="steps", ends=280.0):
            for step in range(1, 21):
                run.log("sft", step, loss=0.5)
        with run.progress("grpo", steps=1000, ends=90.0):
            run.log("grpo", 1, success=0.25)
    shown = console.file.getvalue().splitlines()
    assert shown[0] == "SFT steps 2/20  loss 0.500  3.0 min left"
    assert len(shown) == 11
    assert shown[-1] == "GRPO batches 1  success 0.25  0.0 min left"


def test_the_closing_table_compares_policies_task_by_task(tmp_path):
    console = quiet()
    results = {"random": [0] * 40, "SFT": [1, 0] * 20, "GRPO": [1, 1, 1, 0] * 10, "oracle": [1] * 39 + [None]}
    with RunLog(tmp_path, tensorboard=False, console=console) as run:
        run.closing(results)
    shown = console.file.getvalue()
    for text in (
        "random",
        "0.0 %",
        "[0.0, 8.8]",
        "50.0 %",
        "75.0 %",
        "+25.0",
        "▲",
        "▼",
        "100.0 %",
        "39",
        "of all",
        "97.5 %",
    ):
        assert text in shown
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["GRPO"]["difference"]["estimate"] == 0.25
    assert summary["GRPO"]["difference"]["low"] > 0
    assert "difference" not in summary["SFT"]
    assert (summary["oracle"]["episodes"], summary["oracle"]["all_episodes"]) == (39, 40)
    assert (summary["oracle"]["success"], summary["oracle"]["success_of_all"]) == (1.0, 0.975)


def test_a_table_without_the_baseline_has_no_comparison():
    console = quiet()
    console.print(closing_table({"random": [0, 0], "GRPO": [1, 0, 1]}))
    assert "against" not in console.file.getvalue()


def test_policies_played_on_different_tasks_are_not_compared():
    with pytest.raises(OptionError, match="same tasks"):
        closing_table({"SFT": [1, 0], "GRPO": [1, 0, 1]})


@pytest.mark.usefixtures("curves")
def test_the_curves_show_both_phases_with_labelled_axes(tmp_path):
    run = two_phases(tmp_path)
    run.heldout("sft", 4, [1, 0, 0, 0])
    run.heldout("grpo", 6, [1, 1, 1, 0])
    figure = draw_curves(run.records, {"random": 0.0, "oracle": 1.0})
    assert [ax.get_xlabel() for ax in figure.axes if ax.axison] == ["SFT step", "GRPO step", "SFT step", "GRPO step"]
    assert [ax.get_title() for ax in figure.axes if ax.axison] == ["SFT", "GRPO", "loss", "mean reward"]
    path = run.curves({"oracle": 1.0}, "A run")
    assert path.read_bytes().startswith(b"\x89PNG")
    run.close()


@pytest.mark.usefixtures("curves")
def test_curves_of_an_empty_run_are_an_empty_figure(tmp_path):
    with RunLog(tmp_path, tensorboard=False) as run:
        assert draw_curves(run.records, {}).axes == []
        assert run.curves().read_bytes().startswith(b"\x89PNG")


def test_a_run_that_solved_everything_has_curves(tmp_path):
    with RunLog(tmp_path, tensorboard=False) as run:
        run.heldout("grpo", 1, [1.0] * 184)  # Wilson's upper bound is a hair below 1 here
        assert run.records[0]["high"] < 1.0
        (ax,) = draw_curves(run.records, {}).axes
        assert [text.get_text() for text in ax.texts] == ["100%"]


def test_a_metric_cannot_take_the_name_of_a_column(tmp_path):
    with RunLog(tmp_path, tensorboard=False) as run, pytest.raises(OptionError, match="'kind'"):
        run.log("sft", 1, kind=1.0)


def test_an_earlier_run_is_moved_aside_and_not_lost(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert rename_previous_run(folder) is None
    for number in (1, 2):
        with RunLog(folder, tensorboard=False) as run:
            run.log("grpo", number, success=0.5)
        assert rename_previous_run(folder) == tmp_path / f"run.{number}"
        assert (tmp_path / f"run.{number}" / "metrics.jsonl").exists()
        assert not folder.exists()
