"""Runs that ought to be the same: in one process and in two, by whole batches and by parts, unbroken and resumed.

As a script, this file trains each learner in a folder; `torchrun` starts it in two processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

NAMES = ("sft", "grpo", "grpo-resumed", "grpo-rows", "grpo-unbundled", "multi-grpo", "msarl", "tmatr")
TIMED = ("tokens_per_second", "memory")
LOSS = 2e-5
"""Tolerance of metrics, relative and absolute: float32 sums in another order."""
WEIGHTS = 5e-3
"""Tolerance of weights, as norm of the difference over the norm of the change that training made.

A first step of Adam is as long for a gradient that is only rounding as for any other.
"""


def train_all(folder: Path) -> None:
    """Train every learner for a few steps, on rewards that differ in the episodes of policies that know nothing."""
    from toolorchestra.algos import grpo, msarl, multi_grpo, sft, tmatr, trl_trainers
    from toolorchestra.algos.options_one_agent import TrainGRPO, TrainSFT
    from toolorchestra.algos.options_several_agents import TrainMSARL, TrainMultiGRPO, TrainTMATR
    from toolorchestra.algos.rollout.engine import RolloutEngine
    from toolorchestra.algos.rollout.multi_agent import Slot

    play = RolloutEngine.play

    def by_length(*given: Any) -> Any:
        rows = play(*given)
        for row in rows:
            row.reward = 1.0 / len(row.completion_ids)
        return rows

    def parity(slot: Slot, agent: str = "") -> float:
        return float(sum(sum(trajectory.ids) for trajectory in slot.trajectories.values()) % 2)

    RolloutEngine.play = by_length  # type: ignore[method-assign]
    Slot.reward = property(parity)  # type: ignore[assignment, method-assign]
    Slot.agent_reward = parity  # type: ignore[method-assign]
    shared: dict[str, Any] = {"threads": 1, "difficulty": (1,), "seed": 3}
    sft.train(TrainSFT(output=folder / "sft", steps=30, batch=8, replays=1, save_every=0, **shared))
    rollouts: dict[str, Any] = {**shared, "steps": 2, "max_turn_ids": 8, "eval_tasks": 3}
    config = TrainGRPO(
        output=folder / "grpo",
        start=folder / "sft" / "final",
        groups=2,
        group_size=4,
        max_turns=2,
        filters=(),
        min_std=0.0,
        eval_samples=2,
        save_every=0,
        **rollouts,
    )
    grpo.train(config)
    config = replace(config, output=folder / "grpo-resumed", eval_samples=0, save_every=1)
    grpo.train(replace(config, steps=1))
    grpo.train(replace(config, resume=True))
    config = replace(config, save_every=0)
    grpo.train(replace(config, output=folder / "grpo-rows", micro_batch=1))
    bundles, trl_trainers.bundles = trl_trainers.bundles, lambda lengths, **_: [list(range(len(lengths)))]
    grpo.train(replace(config, output=folder / "grpo-unbundled"))
    trl_trainers.bundles = bundles
    teams: dict[str, Any] = {**rollouts, "sft_steps": 2, "questions": 3, "eval_samples": 2, "save_every": 1}
    teams |= {"kinds": ("power_remainder",), "learning_rate": 1e-3}
    multi_grpo.train(TrainMultiGRPO(output=folder / "multi-grpo", group_size=4, **teams))
    msarl.train(TrainMSARL(output=folder / "msarl", paths=3, interpretations=2, **teams))
    del teams["steps"], teams["kinds"]
    tmatr.train(
        TrainTMATR(output=folder / "tmatr", stage_steps=1, rollouts=4, min_pairs=1, threshold=0.5, epochs=1, **teams)
    )


def weights(folder: Path) -> dict[str, Any]:
    """Return the weights of the policies in a folder."""
    from safetensors.torch import load_file

    files = sorted(folder.rglob("*.safetensors"))
    assert files
    return {f"{file.relative_to(folder)}/{name}": w for file in files for name, w in load_file(file).items()}


def change(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the norm of the difference of weights."""
    assert one.keys() == other.keys()
    return float(sum(float((one[name] - other[name]).square().sum()) for name in one) ** 0.5)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return what a run logged, but for what depends on the machine."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in TIMED} for line in lines]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of the same runs in one process and in two."""
    folder = tmp_path_factory.mktemp("runs")
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment |= {"OMP_NUM_THREADS": "1"}
    started = []
    for name, launcher in (
        ("one", [sys.executable]),
        ("two", [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]),
    ):
        with (folder / f"{name}.log").open("wb") as log:
            command = [*launcher, __file__, str(folder / name)]
            started.append((log, subprocess.Popen(command, stdout=log, stderr=log, env=environment)))
    for log, process in started:
        status = process.wait(timeout=900)
        assert status == 0, Path(log.name).read_text(encoding="utf-8")[-4000:]
    return folder / "one", folder / "two"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_one_process_and_two_are_the_same_run(runs: tuple[Path, Path], name: str) -> None:
    one, two = (folder / name for folder in runs)
    for a, b in zip(metrics(one), metrics(two), strict=True):
        assert [a.pop(word) for word in ("phase", "kind")] == [b.pop(word) for word in ("phase", "kind")]
        assert a == pytest.approx(b, rel=LOSS, abs=LOSS)
    before = weights(one / "start") if (one / "start").is_dir() else None
    after = weights(one / "final")
    moved = change(before, after) if before else 1.0
    assert moved > 0
    assert change(after, weights(two / "final")) <= WEIGHTS * moved


@pytest.mark.slow
def test_a_resumed_run_is_the_unbroken_one(runs: tuple[Path, Path]) -> None:
    for folder in runs:
        assert change(weights(folder / "grpo" / "final"), weights(folder / "grpo-resumed" / "final")) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["grpo-rows", "grpo-unbundled"])
def test_a_batch_in_parts_is_the_whole_batch(runs: tuple[Path, Path], name: str) -> None:
    for folder in runs:
        before, after = (weights(folder / "grpo" / which) for which in ("start", "final"))
        assert change(after, weights(folder / name / "final")) <= WEIGHTS * change(before, after)
        losses = [[one["loss"] for one in metrics(folder / which) if "loss" in one] for which in ("grpo", name)]
        assert losses[0] == pytest.approx(losses[1], rel=LOSS, abs=LOSS)


if __name__ == "__main__":
    from toolorchestra.algos import ranks

    with ranks.ending_together():
        train_all(Path(sys.argv[1]))
