"""SFT of the agents of a game: each learns its side of the solved episodes, and other learners go on from there."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from toolorchestra.algos import sft
from toolorchestra.algos.multi_agent_trainer import load_policies
from toolorchestra.algos.options.one_agent import TrainSFT
from toolorchestra.algos.options.smoke import shrink
from toolorchestra.algos.team_sft import recorded_sides
from toolorchestra.envs import make_multiagent
from toolorchestra.envs.records.episode import Episode, write_episodes
from toolorchestra.envs.tmatr.teacher import inject_error, teach
from toolorchestra.toolscale.common.errors import OptionError

ENV = "TMATR-Custom-v0"
SOURCE = {"env": ENV, "source": "MathParity", "env_options": {"max_turns": "2"}}


@pytest.fixture(scope="module")
def played() -> list[Episode]:
    """Return twelve episodes of the teacher that are solved, and one that is not."""
    env = make_multiagent(ENV, source="MathParity", max_turns=2)
    rng, found = random.Random(0), []
    for number, task in enumerate(env.source.tasks("train")[:13]):
        env.reset(seed=number, options={"task_id": task.id})
        while not env.play.over:
            fails = number == 12 and env.play.action == "EXECUTE"
            env.step(inject_error(env.play, rng) if fails else teach(env.play))
        found.append(env.episode)
    assert [episode.outcome for episode in found] == ["solved"] * 12 + ["failed"]
    return found


@pytest.fixture(scope="module")
def file(played: Sequence[Episode], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("episodes") / "played.jsonl"
    write_episodes(path, played)
    return path


def test_each_agent_learns_what_it_wrote_in_solved_episodes(file: Path) -> None:
    env = make_multiagent(ENV, source="MathParity", max_turns=2)
    sides = recorded_sides(TrainSFT(**SOURCE, episodes=(file,)), env)
    assert {name: len(found) for name, found in sides.items()} == {"planner": 12, "inferencer": 12}
    for name, tag in (("planner", "<ACTION>"), ("inferencer", "<TOOL_INPUT>")):
        for side in sides[name]:
            written = [str(m["content"]) for m in side.messages if m["role"] == "assistant"]
            assert written[0].startswith(tag)
            assert side.messages[-1]["role"] == "assistant"
    shared = recorded_sides(TrainSFT(**SOURCE, episodes=(file,), share=True), env)
    assert {name: len(found) for name, found in shared.items()} == {"shared": 24}


@pytest.mark.slow
def test_a_team_is_taught_and_other_learners_go_on_from_it(file: Path, tmp_path: Path) -> None:
    options = {**SOURCE, "steps": 2, "batch": 2, "save_every": 1, "threads": 1, "output": tmp_path / "run"}
    sft.train(TrainSFT(**options, episodes=(file,)))
    policies = load_policies(("planner", "inferencer"), tmp_path / "run" / "final")
    assert policies["planner"].tokenizer.get_vocab() == policies["inferencer"].tokenizer.get_vocab()
    for name in policies:
        lines = (tmp_path / "run" / name / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines][-1] == 2
    before = (tmp_path / "run" / "planner" / "metrics.jsonl").stat().st_mtime_ns
    sft.train(TrainSFT(**options, episodes=(file,), resume=True))
    assert (tmp_path / "run" / "planner" / "metrics.jsonl").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"env": "TMATR-Math-v0", "episodes": (Path("x"),), "model": "m", "lora_rank": 2}, "for one agent"),
        ({"models": {"planner": "m"}}, "has one agent"),
    ],
)
def test_options_that_do_not_fit_the_number_of_agents_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        TrainSFT(**options)  # type: ignore[arg-type]


def test_episodes_of_other_agents_and_missing_models_are_named(file: Path, played: Sequence[Episode]) -> None:
    env = make_multiagent(ENV, source="MathParity", roles="single")
    with pytest.raises(OptionError, match=r"'planner'.*with which the episodes were recorded"):
        recorded_sides(TrainSFT(**SOURCE, episodes=(file,)), env)
    with pytest.raises(OptionError, match="`models` has none for 'inferencer'"):
        sft.train(TrainSFT(**SOURCE, episodes=(file,), models={"planner": "m"}))
    failed = file.with_name("failed.jsonl")
    write_episodes(failed, played[12:])
    with pytest.raises(OptionError, match=r"No solved episode in .*failed.jsonl"):
        sft.train(TrainSFT(**SOURCE, episodes=(failed,)))


def test_a_toy_run_of_a_game_keeps_its_episodes(file: Path) -> None:
    small = shrink(TrainSFT(**SOURCE, episodes=(file,), steps=500))
    assert (small.episodes, small.env, small.source) == ((file,), ENV, "MathParity")
