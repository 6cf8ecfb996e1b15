from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos import sft
from toolorchestra.algos.activity import Count
from toolorchestra.algos.data.augmentation import sft_rows
from toolorchestra.algos.data.demonstrations import Demonstration
from toolorchestra.toolscale.common.errors import OptionError

MINI = str(Path(__file__).parents[1] / "data" / "mini")


def small(tmp_path: Path, **changes: object) -> sft.TrainSFT:
    settings = {"env": MINI, "output": tmp_path, "difficulty": (1,), "steps": 4, "batch": 4, "replays": 1, "threads": 1}
    return sft.TrainSFT(**(settings | changes))  # type: ignore[arg-type]


def test_the_loss_is_trls_on_the_same_rows(
    good: list[Demonstration], renderer: CompactRenderer, tmp_path: Path
) -> None:
    rows = sft_rows(renderer, good, rows=2, rng=random.Random(0), curriculum=False)
    policy = TokenPolicy.built_in(renderer, seed=0)
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [renderer.pad_id] * (width - len(row)) for row, _ in rows])
    labels = torch.tensor([label + [-100] * (width - len(label)) for _, label in rows])
    with torch.no_grad():
        logits = policy.model(ids, attention_mask=(ids != renderer.pad_id).long()).logits
    expected = float(torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()))
    seen: list[float] = []
    sft.fit(
        policy,
        rows * 10,
        small(tmp_path),
        output=tmp_path,
        batch=2,
        learning_rate=0.0,
        report=lambda step, metrics: seen.append(metrics["loss"]),
    )
    assert seen[0] == pytest.approx(expected, abs=2e-3)


def test_any_number_of_rows_at_once_gives_the_same_weights(
    good: list[Demonstration], renderer: CompactRenderer, tmp_path: Path
) -> None:
    rows = sft_rows(renderer, good, rows=6, rng=random.Random(0), curriculum=False)
    weights = []
    for micro_batch, checkpointing in ((None, False), (1, False), (2, True)):
        policy = TokenPolicy.built_in(renderer, seed=0)
        config = small(tmp_path, gradient_checkpointing=checkpointing, micro_batch=micro_batch)
        config.set_up(policy.model)
        sft.fit(policy, rows, config, output=tmp_path, batch=3, learning_rate=1e-3)
        weights.append([parameter.detach() for parameter in policy.model.parameters()])
    for found in weights[1:]:
        assert max(float((a - b).abs().max()) for a, b in zip(found, weights[0], strict=True)) < 1e-4


def test_what_comes_before_a_step_and_its_passes_are_counted(tmp_path: Path) -> None:
    shown: dict[str, list[int]] = {}

    @contextmanager
    def watch(what: str, total: int, first: float = 2.0) -> Iterator[Count]:
        shown[what] = [total]
        yield shown[what].append

    sft.teach(small(tmp_path, steps=1, batch=3, micro_batch=1, save_every=0), watch=watch)
    total, *done = shown["Demonstrations"]
    assert done == list(range(1, len(done) + 1))
    assert total / 2 < len(done) <= total  # those that the noisy oracle did not end, and the wrong ones, are left out
    assert shown["Rows"] == [3, 1, 2, 3]
    assert shown["Passes of a step"] == [3, 0, 1, 2]


@pytest.mark.slow
def test_resuming_gives_the_weights_of_an_unbroken_run(tmp_path: Path) -> None:
    whole = sft.teach(small(tmp_path / "a", steps=4, save_every=0))
    sft.teach(small(tmp_path / "b", steps=4, save_every=2))
    (tmp_path / "b" / "checkpoints" / "checkpoint-4").rename(tmp_path / "lost")
    resumed = sft.teach(small(tmp_path / "b", steps=4, save_every=2, resume=True))
    pairs = zip(whole.model.parameters(), resumed.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.usefixtures("curves")
def test_the_command_leaves_a_policy_metrics_and_curves(tmp_path: Path) -> None:
    sft.train(small(tmp_path, steps=20, save_every=0))
    for name in ("metrics.jsonl", "curves.png", "final/renderer.json"):
        assert (tmp_path / name).exists(), name
    first, last = (json.loads(line)["loss"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert last < first
    assert isinstance(TokenPolicy.load(tmp_path / "final").renderer, CompactRenderer)


def test_resuming_from_nothing_says_so_and_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No checkpoint"):
        sft.train(small(tmp_path / "typo", resume=True))
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [({"error": 1.5}, "must lie in"), ({"batch": 0}, "at least 1"), ({"resume": True, "save_every": 0}, "checkpoints")],
)
def test_impossible_settings_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        small(tmp_path, **change)
