"""The study of schedules reads what trainings leave behind, compares it, and draws it."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import tyro

from examples.studies import shared, tmatr
from examples.studies.tmatr import (
    COMPARED,
    INFERENCER_FIRST,
    KINDS,
    QUICK_SEEDS,
    SCHEDULES,
    SEEDS,
    WEAK_START,
    TMATRStudy,
    markdown,
    read_run,
    write,
)
from toolorchestra.algos.options.several_agents import TrainTMATR
from toolorchestra.algos.reporting.evaluation import Scores
from toolorchestra.algos.tmatr import report, select
from toolorchestra.envs.tmatr.actions import Action
from toolorchestra.envs.tmatr.teacher import inject_error, teach
from toolorchestra.toolscale.common.errors import ToolOrchestraError

STEPS = 3


def leave(folder: Path, schedule: str, seed: int) -> None:
    """Leave behind what a training does: success rises by 0.1 a stage, and by 0.2 if its agents take turns."""
    config = TrainTMATR(schedule=SCHEDULES[schedule], stage_steps=STEPS, output=folder)
    rise = 0.2 if schedule == INFERENCER_FIRST else 0.1
    scores = {}
    for stage in range(len(config.stages) + 1):
        success = 0.1 + rise * stage + 0.01 * seed
        by_task = [success + (-1) ** n * 0.02 for n in range(10)]
        scores[STEPS * stage] = Scores(
            by_task, [], success, 1.0, success, success, 2.0 - 0.1 * stage, calling=0.1 * stage + 0.02 * seed
        )
    (folder / "heldout").mkdir(parents=True)
    for step, found in scores.items():
        (folder / "heldout" / f"{step}.json").write_bytes(msgspec.json.encode(found))
    stages = report(config, scores)
    (folder / "stages.json").write_text(json.dumps(stages))
    each = 2 if "both" in config.schedule else 1
    lines = [{"phase": "sft", "step": 1, "kind": "train", "loss": 1.0}]
    for step in range(1, config.total + 1):
        lines.append({"phase": "tmatr", "step": step, "kind": "train", "reward": 0.3 + 0.01 * step, "updates": each})
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> TMATRStudy:
    folder = tmp_path_factory.mktemp("runs")
    runs = []
    for seed in (0, 1):
        for schedule in COMPARED:
            leave(folder / f"{schedule}-{seed}", schedule, seed)
            runs.append(read_run(schedule, seed, folder / f"{schedule}-{seed}"))
    return TMATRStudy(runs)


def test_the_compared_schedules_have_equal_updates(study: TMATRStudy) -> None:
    assert {run.updates[-1] for run in study.runs} == {4 * STEPS}
    assert study.of(INFERENCER_FIRST)[0].updates == [0, 3, 6, 9, 12]
    assert study.of("joint")[0].updates == [0, 6, 12]


def test_gains_are_paired_by_task_over_seeds(study: TMATRStudy) -> None:
    gain = study.gain(INFERENCER_FIRST)
    assert gain.estimate == pytest.approx(0.8)
    assert gain.low > 0
    assert study.gain(INFERENCER_FIRST, 1).estimate == pytest.approx(0.2)
    assert study.over("planner first").estimate == pytest.approx(0.4)
    assert study.by_task(INFERENCER_FIRST, 0)[0] == pytest.approx(0.1 + 0.005 + 0.02)


def test_the_page_has_every_stage_and_the_comparison(study: TMATRStudy) -> None:
    page = markdown(study)
    assert "| inferencer first | 1 | inferencer | 3 | 30.5% | +20.0 [" in page
    assert "| planner first | 1 | planner | 3 | 20.5% | +10.0 [" in page
    assert "| joint | 2 | both | 12 |" in page
    assert "| inferencer first, over joint | +60.0 [" in page
    assert "| planner first, over the start | +40.0 [+40.0, +40.0] | +40.0, +40.0 |" in page
    assert "| planner first | 50.5% [49.5, 51.5] | 41.0% [39.0, 43.0] |" in page


def test_the_folder_has_all_stages_of_all_runs_and_three_figures(study: TMATRStudy, tmp_path: Path) -> None:
    write(study, tmp_path)
    rows = list(csv.DictReader((tmp_path / "study.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 2 * (2 * 5 + 3)
    assert rows[1]["learner"] == "inferencer"
    for name in ("success", "tools", "reward"):
        assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
    write(study, tmp_path / "again")
    assert (tmp_path / "success.svg").read_bytes() == (tmp_path / "again" / "success.svg").read_bytes()


def test_schedules_of_a_seed_begin_with_the_same_team_and_no_training_is_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def training(command: list[str], **_: Any) -> None:
        commands.append(command)
        config = tyro.cli(TrainTMATR, args=command[3:])
        assert (config.groups, config.eval_samples, config.stage_steps, config.seed) == (5, 2, STEPS, 7)
        schedule = next(name for name in COMPARED if SCHEDULES[name] == config.schedule)
        leave(config.output, schedule, 7)
        (config.output / "start").mkdir()

    monkeypatch.setattr(shared.subprocess, "run", training)
    for _ in range(2):
        found = tmatr.run(5, 2, seeds=(7,), runs=tmp_path, more=("--stage-steps", "3"))
    assert found.schedules == list(COMPARED)
    assert len(commands) == len(COMPARED)
    assert "--start" not in commands[0]
    for command in commands[1:]:
        assert command[command.index("--start") + 1] == str(tmp_path / "inferencer-first-7" / "start")


def test_the_setting_of_the_study_is_a_weak_team_on_problems_that_words_solve_by_half() -> None:
    config = tyro.cli(TrainTMATR, args=list(WEAK_START))
    env = config.make_env()
    assert (env.source.name, env.max_turns) == ("MathParity", 2)
    assert config.sft_errors == {"DECIDE": 0.5, "EXECUTE": 0.7}
    assert (len(SEEDS), len(QUICK_SEEDS)) == (5, 1)
    assert {*COMPARED, *KINDS} == set(SCHEDULES)


@pytest.mark.parametrize(
    ("errors", "message"), [({"EXECUTE": 1.5}, "must lie in"), ({"EXEC": 0.5}, "Did you mean 'EXECUTE'")]
)
def test_error_rates_of_actions_are_checked(errors: dict[str, float], message: str) -> None:
    with pytest.raises(ToolOrchestraError, match=message):
        TrainTMATR(sft_errors=errors)


def test_an_action_without_a_rate_of_its_own_has_the_general_one() -> None:
    config = TrainTMATR(env="TMATR-Custom-v0", source="MathParity", sft_error=0.1, sft_errors={"EXECUTE": 0.7})
    env = config.make_env()
    env.reset(seed=0)
    assert config.error_rate(env.play) == 0.1
    env.play.action = Action.EXECUTE
    assert config.error_rate(env.play) == 0.7


def preferred(skill: float, questions: int = 80) -> tuple[int, int]:
    """Return how many pairs of the teacher's episodes prefer words to a call in the first turn, and a call to words.

    The planner calls in half of the episodes, and the inferencer's input is right with the probability `skill`.
    """
    env, rng = TrainTMATR(env="TMATR-Custom-v0", source="MathParity").make_env(), random.Random(0)
    env.max_turns = 2
    rates = {"DECIDE": 0.5, "EXECUTE": 1 - skill}
    counts = Counter[tuple[bool, bool]]()
    for task in env.source.tasks("train")[:questions]:
        episodes: list[Any] = []
        for _ in range(6):
            env.reset(seed=0, options={"task_id": task.id})
            while not env.play.over:
                errs = rng.random() < rates.get(env.play.action, 0.0)
                env.step(inject_error(env.play, rng) if errs else teach(env.play))
            episodes.append(SimpleNamespace(reward=env.episode.reward, calls=any(env.episode.calls)))
        if pair := select(episodes, 0.5):
            counts[pair.better.calls, pair.worse.calls] += 1
    return counts[False, True], counts[True, False]


def test_pairs_lead_the_planner_away_from_tools_in_weak_hands_and_to_them_in_skilled_ones() -> None:
    weak_words, weak_tools = preferred(0.3)
    assert weak_words > 3 * weak_tools
    skilled_words, skilled_tools = preferred(0.95)
    assert skilled_tools > 3 * skilled_words
