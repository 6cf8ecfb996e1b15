"""The study of MSARL reads what trainings leave behind, compares systems by seeds and tasks, and draws them."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from examples.studies import msarl, shared
from examples.studies.msarl import (
    DELETED,
    FULL,
    QUICK_PLAN,
    SINGLE,
    SYSTEMS,
    TEAM,
    Cell,
    MSARLStudy,
    Plan,
    group_size,
    learner_options,
    markdown,
    write,
)
from toolorchestra.algos.options.config_files import options_of, parse_options
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO
from toolorchestra.algos.reporting.evaluation import Scores
from toolorchestra.algos.reporting.stats import crossed_bootstrap
from toolorchestra.envs.msarl import MSARLEnv
from toolorchestra.toolscale.common.errors import OptionError

PLAN = Plan(tokens=(25, 400), calls=(1, 2), tasks=10, sft_steps=2, steps=3, seeds=(0, 1))
ENDS = {TEAM: 0.8, SINGLE: 0.7, DELETED: 0.75}


def leave(folder: Path, cell: Cell, system: str, seed: int) -> None:
    """Leave behind what a training does: the single agent loses what the others do not if outputs are long."""
    folder.mkdir(parents=True)
    lost = 0.3 if (system, cell) == (SINGLE, Cell(400, 2)) else 0.0
    (folder / "heldout").mkdir()
    for step, success in ((0, 0.4), (3, ENDS[system] - lost + 0.02 * seed)):
        by_task = [success + 0.05 * (-1) ** n for n in range(10)]
        greedy = [float(n < 10 * success) for n in range(10)]
        scores = Scores(by_task, [], float(np.mean(greedy)), 1.0, success, success, 2.0, {}, greedy)
        (folder / "heldout" / f"{step}.json").write_text(json.dumps(asdict(scores)))
    lines = [{"phase": "sft", "step": 1, "kind": "train", "loss": 1.0}]
    lines += [
        {"phase": "msarl", "step": step, "kind": "train", "moves": 100.0, "reasoner_tokens": 50.0, "helper_tokens": 5.0}
        for step in (1, 2, 3)
    ]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[MSARLStudy, MSARLStudy, list[list[str]]]:
    """The study made twice in one folder; and the commands run, in place of trainings that take minutes, and starts."""
    found: list[list[str]] = []

    def training(command: list[str], **_: Any) -> None:
        found.append(command)
        given = dict(zip(command[3::2], command[4::2], strict=False))
        output = Path(command[command.index("--output") + 1])
        system, tokens, calls, seed = output.name.rsplit("-", 3)
        assert given or command
        leave(output, Cell(int(tokens), int(calls)), system.replace("-", ", "), int(seed))

    def start(configs: Any, folder: Path, *, steps: int, seed: int) -> None:
        found.append(["start", folder.name, str(steps), str(seed), str(len(configs))])
        folder.mkdir()

    runs = tmp_path_factory.mktemp("study") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared.subprocess, "run", training)
        patch.setattr(msarl, "make_start", start)
        first, again = (msarl.run(2, 2, plan=PLAN, runs=runs) for _ in range(2))
    return first, again, found


@pytest.fixture(scope="module")
def study(twice: tuple[MSARLStudy, MSARLStudy, list[list[str]]]) -> MSARLStudy:
    return twice[0]


def test_the_full_plan_is_what_decides_the_question_and_the_quick_one_a_part_of_it() -> None:
    assert len(FULL.seeds) >= 5
    assert FULL.tasks >= 100
    assert (FULL.tokens[0], FULL.tokens[-1], FULL.calls) == (25, 400, (1, 2, 3, 4))
    assert len(FULL.trainings) == 3 * (2 + 3 * 3)  # with one program there are no old outputs
    assert set(QUICK_PLAN.trainings) <= set(FULL.trainings)


@pytest.mark.parametrize("calls", FULL.calls)
@pytest.mark.parametrize("system", SYSTEMS)
def test_systems_play_the_same_tasks_and_one_agent_makes_at_least_as_many_moves(calls: int, system: str) -> None:
    learner, words = learner_options(Cell(25, calls), system, FULL, 8, 4)
    config = parse_options(options_of(learner), words)
    assert isinstance(config, TrainMSARL | TrainMultiGRPO)
    env = config.make_env()
    assert isinstance(env, MSARLEnv)
    assert (env.max_calls, config.levels) == (calls + msarl.SPARE, (calls,))
    assert len(config.evaluated([*range(480 // 4)])) == 120  # type: ignore[list-item]  # whatever the starts are
    python = env._python
    assert (python.stale, python.failures, python.noise) == (8, msarl.FAILURES, 0)  # type: ignore[union-attr]
    assert len(env.possible_agents) == (2 if system == TEAM else 1)
    nest = 3 * (2 * calls - 1 + 3 * 2)
    assert nest <= group_size(calls) * (calls + 1) < nest + calls + 1
    messages = 2 * calls + 1 if system == TEAM else calls + 1
    assert (1 - config.sft_error) ** messages == pytest.approx(msarl.START, abs=0.01)


def test_systems_of_a_cell_and_seed_begin_with_one_start_and_nothing_is_trained_twice(
    twice: tuple[MSARLStudy, MSARLStudy, list[list[str]]],
) -> None:
    study, again, commands = twice
    starts = [command for command in commands if command[0] == "start"]
    trainings = [command for command in commands if command[0] != "start"]
    assert len(starts) == 2 * 4
    assert {tuple(command[2:]) for command in starts} == {("2", s, n) for s in "01" for n in "23"}
    assert len(trainings) == len(study.runs) == 2 * (2 * 2 + 2 * 3)
    for command in trainings:
        output, start = (Path(command[command.index(name) + 1]).name for name in ("--output", "--start"))
        assert output.split("-")[-3:] == start.split("-")[-3:]
    assert again == study
    assert len(commands) == len(starts) + len(trainings)


def test_systems_are_compared_over_seeds_and_tasks(study: MSARLStudy) -> None:
    lead = study.over(Cell(400, 2), TEAM, SINGLE, 1)
    assert lead.estimate == pytest.approx(0.4)
    assert study.over(Cell(25, 2), TEAM, SINGLE, 1).estimate == pytest.approx(0.1)
    assert study.over(Cell(400, 2), TEAM, SINGLE, 0).estimate == 0
    one = study.success(Cell(25, 1), TEAM, 1)
    assert one.low < one.estimate < one.high
    assert one.estimate == pytest.approx(0.81)


def test_the_page_has_every_cell_greedy_beside_sampled_the_control_and_the_growth(study: MSARLStudy) -> None:
    page = markdown(study)
    assert "10 held-out tasks, 2 sampled episodes of each and a greedy one; 2 seeds; 2 steps of warm start" in page
    assert "intervals over seeds and tasks" in page
    assert page.count("| team | 40.0% [") == 4
    assert "| single, deleted, over single | 2 | 400 | +0.0 [+0.0, +0.0] | +35.0 [" in page
    assert "| team, over single: 400 tokens over 25 | 2 | +30.0 [" in page
    assert "| team, over single, deleted | 1 |" not in page
    alone = msgspec.structs.replace(study, plan=PLAN.of((25,), ()))
    assert "over 25 |" not in markdown(alone)


def test_a_folder_has_every_run_and_a_figure(study: MSARLStudy, tmp_path: Path) -> None:
    write(study, tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out" / "study.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(study.runs)
    assert {(row["moves"], row["sampled_tokens"]) for row in rows} == {("300.0", "165.0")}
    assert (tmp_path / "out" / "success.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_settings_can_be_chosen_and_wrong_ones_are_refused() -> None:
    assert QUICK_PLAN.of((400,), (1, 4)).trainings[0] == (Cell(400, 1), TEAM)
    assert QUICK_PLAN.of((), ()) == QUICK_PLAN
    for tokens, calls in (((0,), ()), ((), (5,))):
        with pytest.raises(OptionError, match="Expected"):
            QUICK_PLAN.of(tokens, calls)


def test_an_interval_over_seeds_and_tasks_is_wider_than_over_tasks_if_seeds_differ() -> None:
    rng = np.random.default_rng(0)
    tasks = rng.normal(size=100)
    alike, different = (np.array([tasks + shift * seed for seed in range(4)]) for shift in (0.0, 1.0))
    over_tasks, over_both = (crossed_bootstrap(values) for values in (alike, different))
    assert over_both.high - over_both.low > 2 * (over_tasks.high - over_tasks.low)
    assert crossed_bootstrap(tasks).estimate == pytest.approx(tasks.mean())
    assert crossed_bootstrap([[1.0, float("nan")], [0.0, 1.0]]).estimate == 0.5
    assert np.isnan(crossed_bootstrap([]).estimate)
