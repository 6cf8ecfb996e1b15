from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.builtin.design_renderer import WARNING, DesignRenderer
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import grpo, sft
from toolorchestra.algos.data.demonstrations import demonstrate, encode, suitable_teacher
from toolorchestra.algos.reporting import design_statistics
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest, Row
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.rules import DesignFault, Rule
from toolorchestra.envs.starts import EpisodeStart, make_env, starts

ENV = "MASOrchestra-High-MASBenchRobustness-v0"


def row(design: object, **changes: Any) -> Row:
    return Row(0, "orchestrator", [1], [2], [1], [-0.1], design=design, **changes)


ONE = Design(dom="high", thinking="One.", agents=(Agent("A", "SCAgent", WARNING),))
FAN = Design(
    dom="high",
    thinking="Two, then one.",
    agents=(Agent("A", "CoTAgent"), Agent("B", "CoTAgent"), Agent("C", "CoTAgent", "${A} ${B}")),
    edges=(("A", "C"), ("B", "C")),
)
BROKEN = DesignFault(Rule.CYCLE, "A", "")


def test_statistics_are_those_of_the_valid_designs() -> None:
    found = design_statistics.statistics([row(ONE), row(FAN), row(BROKEN), row(FAN)])
    assert found == pytest.approx(
        {
            "valid": 0.75, "agents": 7 / 3, "agents_1": 1 / 3, "agents_3": 2 / 3, "length": 5 / 3, "length_1": 1 / 3,
            "length_2": 2 / 3, "width": 5 / 3, "width_1": 1 / 3, "width_2": 2 / 3, "kind_CoTAgent": 6 / 7,
            "kind_SCAgent": 1 / 7, "warned": 1 / 7,
        }
    )  # fmt: skip


def test_where_nothing_is_designed_there_are_no_statistics() -> None:
    assert design_statistics.statistics([row(None)]) == {}
    assert design_statistics.statistics([row(BROKEN)]) == {"valid": 0.0}


def test_an_infrastructure_error_says_nothing_about_designs() -> None:
    assert design_statistics.valid_of([row(ONE, outcome="infra_error"), row(ONE), row(BROKEN)]) == [None, 1.0, 0.0]


def test_the_figure_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    records = [
        {"phase": "grpo", "step": step, "kind": "train", "success": 0.5, "cost": 0.01}
        | design_statistics.statistics([row(ONE), row(FAN), *[row(BROKEN)] * step])
        for step in range(3)
    ]
    for name in ("one.svg", "two.svg"):
        design_statistics.draw(records, tmp_path / name, "Designs")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "parallel width" in (tmp_path / "one.svg").read_text()


def test_without_designs_there_is_no_figure(tmp_path: Path) -> None:
    design_statistics.draw([{"phase": "grpo", "step": 1, "kind": "train", "success": 0.5}], tmp_path / "none.svg")
    assert not (tmp_path / "none.svg").exists()


# ---------------------------------------------------------------------------------------------------------- learning


@pytest.fixture(scope="module")
def env() -> gym.Env[Any, Any]:
    return make_env(ENV, {})


def test_a_designer_teaches_environments_whose_tools_are_agents(env: gym.Env[Any, Any]) -> None:
    assert suitable_teacher(env, EpisodeStart(0)) == "designer"


def test_what_is_taught_is_laid_out_as_rollouts_are(env: gym.Env[Any, Any]) -> None:
    config = sft.TrainSFT(env=ENV, difficulty=(1,), replays=1)
    good, noisy = demonstrate(env, config)
    renderer = DesignRenderer.build(good[0].tools)
    assert [d.messages[:-1] for d in good] == [d.messages[:-1] for d in noisy]
    for start, demonstration in list(zip(starts(env, "train", (1,))[1], good, strict=True))[:5]:
        ids, mask = encode(renderer, demonstration)
        written = ids[mask.index(1) :]
        recite = lambda prompts, limits, keys, written=written: [Sample(written, [0.0] * len(written))]  # noqa: E731 - one use
        (played,) = RolloutEngine(lambda: make_env(ENV, {}), renderer).play(recite, [RolloutRequest(0, start)])
        assert played.prompt_ids + played.completion_ids == ids
        assert isinstance(played.design, Design)


def test_a_run_reports_designs_and_keeps_its_language(tmp_path: Path) -> None:
    config = grpo.TrainGRPO(
        env=ENV, output=tmp_path / "run", difficulty=(1,), sft_steps=1, sft_batch=2, steps=1, groups=2,
        group_size=2, in_flight=4, eval_samples=1, eval_tasks=2, threads=1, save_every=0, filters=("invalid",),
    )  # fmt: skip
    grpo.train(config)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [record for record in map(json.loads, lines) if record["phase"] == "grpo"]
    assert all(0.0 <= record["valid"] <= 1.0 for record in steps)
    assert f"Designs for {ENV}" in (tmp_path / "run" / "designs.svg").read_text()
    held_out = json.loads((tmp_path / "run" / "heldout.json").read_text())
    assert set(held_out["valid_gain"]) == {"estimate", "low", "high"}
    assert isinstance(TokenPolicy.load(tmp_path / "run" / "final").renderer, DesignRenderer)
