from __future__ import annotations

from pathlib import Path

import msgspec

from toolorchestra.algos.rollout.kept_rollouts import FILE, KeptRollout, RolloutKeeper


def rollout(step: int) -> KeptRollout:
    return KeptRollout(step, "orchestrator", [1], [2, 3], [1, 0], [-0.5, 0.0], 0.25)


def steps(folder: Path) -> list[int]:
    return [msgspec.json.decode(line)["step"] for line in (folder / FILE).read_bytes().splitlines()]


def test_rollouts_of_every_so_many_steps_are_kept(tmp_path: Path) -> None:
    keeper = RolloutKeeper(tmp_path, 3)
    assert [step for step in range(1, 10) if keeper.wants(step)] == [1, 4, 7]
    assert not any(RolloutKeeper(tmp_path, 0).wants(step) for step in range(1, 10))


def test_a_run_that_is_resumed_keeps_each_step_once(tmp_path: Path) -> None:
    keeper = RolloutKeeper(tmp_path, 1)
    for step in (1, 2, 3):
        keeper.write(step, [rollout(step), rollout(step)])
    with (tmp_path / FILE).open("ab") as stream:
        stream.write(b'{"step":4,"agen')  # a kill
    resumed = RolloutKeeper(tmp_path, 1)
    resumed.write(3, [rollout(3)])
    resumed.write(4, [rollout(4)])
    assert steps(tmp_path) == [1, 1, 2, 2, 3, 4]
