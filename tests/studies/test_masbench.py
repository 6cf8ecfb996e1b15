"""The observations of MAS-Orchestra §4.4 hold with simulated sub-agents, each with a 95 % interval."""

from __future__ import annotations

import csv
from itertools import islice, pairwise
from pathlib import Path

import msgspec
import pytest

from examples.studies import masbench
from examples.studies.masbench import play, problems
from examples.studies.masbench_results import MASBenchStudy, ResultCell, markdown, write
from examples.studies.masbench_systems import (
    DIFFICULTIES,
    EFFORTS,
    HALF,
    INSTRUCT,
    MODELS,
    PLAYED,
    SEARCHES,
    STRUCTURES,
    SYSTEMS,
    WARNED,
    BranchesPolicy,
    MirrorPolicy,
    Played,
    everything,
)
from toolorchestra.agents.builtin.design_renderer import WARNING
from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.problems import Problem, Step, kept
from toolorchestra.algos.reporting.stats import paired_bootstrap
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.sources.masbench.sets import COUNTS
from toolorchestra.envs.sources.masbench.tasks import truth_of
from toolorchestra.toolscale.common.errors import ExpertError

COUNT = 40


@pytest.fixture(scope="module")
def study() -> MASBenchStudy:
    """Single agents and mirrors of the graph on the axes of structure."""
    cells = []
    for axis in STRUCTURES:
        for value in COUNTS[axis]["test"]:
            source = problems(axis, value, COUNT)
            cells += [
                play(Played(axis, value, model, system), source)
                for model in MODELS
                for system in ("single", "mirror", *([INSTRUCT] if model == "strong" else []))
            ]
    return MASBenchStudy(COUNT, 1, cells)


@pytest.fixture(scope="module")
def robust() -> MASBenchStudy:
    cells = []
    for value in COUNTS["robustness"]["test"]:
        source = problems("robustness", value, 40)
        cells += [play(Played("robustness", value, "strong", system), source) for system in PLAYED["robustness"]]
    return MASBenchStudy(40, 1, cells)


def pooled(study: MASBenchStudy, model: str, system: str) -> list[float]:
    return [right for axis in STRUCTURES[1:] for right in study.right(axis, model, system)]


@pytest.mark.long
def test_observation_1_with_a_weak_model_several_agents_are_better_except_on_depth(study: MASBenchStudy) -> None:
    gains = {axis: study.gain(axis, "weak") for axis in STRUCTURES}
    assert all(gains[axis].estimate > 0.03 for axis in STRUCTURES[1:]), gains
    assert paired_bootstrap(pooled(study, "weak", "mirror"), pooled(study, "weak", "single")).low > 0
    assert gains["depth"].low <= 0 <= gains["depth"].high
    assert all(study.beside_depth(axis).low > 0 for axis in STRUCTURES[1:])
    singles = [study.right(axis, "strong", "single") for axis in STRUCTURES[1:]]
    assert all(sum(right) / len(right) < 0.9 for right in singles)  # the strong model is not at its ceiling


@pytest.mark.long
def test_observation_1_holds_in_the_environments_as_they_are() -> None:
    gains = {}
    for axis in STRUCTURES:
        env = MASOrchestraEnv(f"MASBench{axis.title()}", model="qwen2.5-7b", agents=["CoTAgent"], orchestrator=None)
        tasks = [task.id for task in env.source.tasks("test")][:60]
        rights = []
        for policy in (MirrorPolicy(), SYSTEMS["single"]()):
            infos = [
                play_episode(env, policy, seed=seed, options={"task_id": task}) for task in tasks for seed in range(2)
            ]
            rights.append([float(info["outcome"] == "solved") for info in infos])
        gains[axis] = paired_bootstrap(*rights)
    assert all(gains[axis].low > 0 for axis in STRUCTURES[1:]), gains
    assert gains["depth"].low <= 0, gains


@pytest.mark.long
def test_observation_2_with_a_strong_model_the_gains_diminish(study: MASBenchStudy) -> None:
    lost = {axis: study.diminished(axis).estimate for axis in STRUCTURES}
    assert all(lost[axis] > 0 for axis in STRUCTURES[1:]), lost


@pytest.mark.long
def test_observation_2_holds_for_easier_steps_and_reverses_where_the_weak_model_is_lost() -> None:
    easier, *_, hardest = DIFFICULTIES
    found = {}
    for condition in (easier, hardest):
        playing = [one for one in everything() if one.condition is condition and one.axis in STRUCTURES[1:]]
        study = masbench.run(80, playing=playing)
        found[condition.name] = [study.diminished(axis, condition.name).estimate for axis in STRUCTURES[1:]]
    assert sum(found[easier.name]) / 3 > 0.08, found
    assert all(estimate < 0 for estimate in found[hardest.name]), found


@pytest.mark.long
def test_observation_4_an_orchestrator_that_delegates_in_steps_is_better_than_one_that_leaves_all_to_one_agent(
    study: MASBenchStudy,
) -> None:
    gains = [study.gain(axis, "strong", INSTRUCT) for axis in STRUCTURES]
    assert all(gain.estimate > 0 for gain in gains), gains
    assert gains[1].low > 0


@pytest.mark.long
def test_observation_5_more_effort_hits_the_limit_and_robustness_remains() -> None:
    low, _, high, free = EFFORTS
    wanted = [one for one in everything() if one.condition in (low, high, free) and one.value == 4]
    study = masbench.run(60, playing=wanted)
    for system in ("single", INSTRUCT):
        assert study.between(STRUCTURES, system, low.name, high.name).low > 0.3
        assert study.between(STRUCTURES, system, free.name, high.name).low > 0.3
    for condition in (low, high, free):
        assert study.gain("robustness", "strong", WARNED, condition=condition.name).low > 0.5


def test_searches_stand_side_by_side_and_one_collects() -> None:
    cells = masbench.run(4, playing=[one for one in everything() if one.axis == SEARCHES]).cells
    assert [cell.width[0] for cell in cells] == [1, 2, 3, 4]
    assert [cell.agents[0] for cell in cells] == [1, 3, 4, 5]


@pytest.mark.long
def test_observation_3_accuracy_falls_with_the_value_and_beyond_the_values_of_training(study: MASBenchStudy) -> None:
    for system in ("single", "mirror"):
        assert study.fall("strong", system).estimate > 0
        assert study.fall("weak", system).low > 0
        assert study.fall("weak", system, beyond=True).low > 0
    assert all(study.fall("weak", "single", [axis]).estimate > 0.1 for axis in STRUCTURES)


@pytest.mark.long
def test_figure_3_notes_deceive_a_single_agent_and_agents_that_are_warned_withstand_them(robust: MASBenchStudy) -> None:
    alone = [cell.mean("right") for cell in robust.of("robustness", "strong", "single")]
    assert all(share.high < 0.15 for share in alone)
    assert robust.gain("robustness", "strong", WARNED).low > 0.5
    assert robust.gain("robustness", "strong", WARNED, "mirror").low > 0.5  # several agents alone are not enough
    assert robust.gain("robustness", "strong", "mirror").high < 0.1
    assert robust.gain("robustness", "strong", HALF).low > 0  # a warning that mostly fails is worth something too
    assert all(cell.mean("right").high < 1 for cell in robust.of("robustness", "strong", WARNED))  # and none is sure


@pytest.mark.long
def test_agents_mirror_the_structure_of_the_problem(study: MASBenchStudy) -> None:
    for axis, what in (("depth", "length"), ("breadth", "width"), ("parallel", "width")):
        cells = study.of(axis, "weak", "mirror")
        sizes = [cell.mean(what).estimate for cell in cells]
        assert all(smaller < larger for smaller, larger in pairwise(sizes))
        assert all(size >= cell.value for size, cell in zip(sizes, cells, strict=True))
    for axis in ("depth", "horizon"):
        assert {cell.mean("width").estimate for cell in study.of(axis, "weak", "mirror")} == {1.0}
    assert {cell.mean("length").estimate for cell in study.of("horizon", "weak", "mirror")} == {10.0}  # and one reports


def test_a_chain_asks_to_keep_one_result_at_a_time_and_what_meets_or_is_reported_all_of_them() -> None:
    assert kept(Problem.chain("long", "math", 30, "7")) == 1
    leaves = tuple(Step(str(number)) for number in range(6))
    assert kept(Problem("all", "math", leaves, targets=tuple(range(6)))) == 6
    assert kept(Problem("sum", "math", (*leaves, Step("15", needs=tuple(range(6)))))) == 6
    pairs = (*leaves[:4], Step("1", needs=(0, 1)), Step("5", needs=(2, 3)), Step("6", needs=(4, 5)))
    assert kept(Problem("tree", "math", pairs)) == 3  # a half that is done is one result


def test_keeping_makes_steps_harder_as_twice_as_many_steps_do() -> None:
    spec = Catalog.load().spec("qwen2.5-7b")
    expert = SimulatedExpert("ada", spec)
    chain = msgspec.structs.replace(Problem.chain("long", "math", 30, "7"), load="kept")
    assert expert.chance(chain, 0) == spec.chance("math", 0.0, 1)
    leaves = tuple(Step(str(number)) for number in range(8))
    eight = Problem("all", "math", leaves, targets=tuple(range(8)), load="kept")
    assert expert.chance(eight, 0) == spec.chance("math", 0.0, 8)


@pytest.mark.parametrize("axis", [*STRUCTURES, "robustness"])
def test_the_problems_are_those_of_the_environment(axis: str) -> None:
    source = MASOrchestraEnv(f"MASBench{axis.title()}").source
    own, theirs = (
        next(task for task in one.tasks("test") if truth_of(task).measured[axis] == 4)
        for one in (problems(axis, 4, 5), source)
    )
    assert own.instruction == theirs.instruction
    assert own.bindings == theirs.bindings
    assert own.bindings["load"] == "kept"


def test_a_mirror_has_an_agent_for_every_step_and_a_branch_ends_where_its_result_is_asked_for_or_meets_others() -> None:
    source = problems("parallel", 2, 1)
    env = MASOrchestraEnv(source, agents=("CoTAgent",))
    observation, info = env.reset(seed=0, options={"split": "test"})
    steps = len(env.task.bindings["parts"])
    designs = []
    for policy in (MirrorPolicy(), BranchesPolicy(warned=True)):
        policy.reset(env, observation, info)
        design = policy.design()
        assert isinstance(design, Design)
        designs.append(design)
    mirror, branches = designs
    assert (mirror.shape.agents, mirror.shape.width) == (steps + 1, 2)
    assert (branches.shape.agents, branches.shape.length, branches.shape.width) == (3, 2, 2)
    assert [WARNING in agent.input for agent in branches.agents] == [True, True, False]


def test_real_models_are_asked_in_their_place() -> None:
    chat = ScriptedChat([r"\boxed{1}"] * 40)
    cell = play(Played("depth", 2, "weak", "single"), problems("depth", 2, 3), behind=chat)
    assert len(cell.right) == 3
    assert set(cell.right) <= {0.0, 1.0}


def test_a_model_that_cannot_be_reached_is_not_counted_as_wrong() -> None:
    with pytest.raises(ExpertError, match="depth"):
        play(Played("depth", 2, "weak", "single"), problems("depth", 2, 3), behind=ScriptedChat([]))


def made_up() -> MASBenchStudy:
    cells = [
        ResultCell(axis, value, model, system, [1.0, 0.0], [2.0, 4.0], [1.0, 1.0], [2.0, 2.0], [0.1, 0.1], [3.0, 3.0])
        for axis, systems in PLAYED.items()
        for value in COUNTS[axis]["test"]
        for model in MODELS
        for system in systems
    ]
    return MASBenchStudy(2, 1, cells)


def test_the_tables_show_what_was_found() -> None:
    text = markdown(made_up())
    assert "| weak, single | 50 ± 41 | 50 ± 41 |" in text
    assert "| depth | weak | +0.0 [+0.0, +0.0] |" in text
    assert "| 1: weak, gain on horizon | +0.0 | [+0.0, +0.0] |" in text
    assert "| parallel | 8 | 3.0 | 1.0 | 2.0 |" in text


def test_a_table_figures_and_a_page_are_written_the_same_each_time(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write(made_up(), tmp_path / folder)
    files = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert set(files) == {"study.csv", "study.md", "accuracy.svg", "robustness.svg", "agents.svg"}
    assert files == {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    rows = list(csv.DictReader(files["study.csv"].decode().splitlines()))
    assert len(rows) == len(made_up().cells)
    assert rows[0]["right"] == "0.5"
    assert b"strong, mirror" in files["accuracy.svg"]


def test_a_study_plays_as_many_episodes_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masbench, "everything", lambda **_: islice(everything(), 0, None, 9))
    ticks: list[None] = []
    found = masbench.run(1, 1, tick=lambda: ticks.append(None))
    assert len(ticks) == masbench.episodes(1, 1) == len(found.cells)
