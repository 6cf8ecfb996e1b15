"""Rows of given models: drawn when they are needed, the same in any order, and none longer than the model reads."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.policies.reference import NullPolicy
from toolorchestra.algos import sft
from toolorchestra.algos.data import demonstrations
from toolorchestra.algos.data.demonstrations import Candidates, Demonstration, encode
from toolorchestra.algos.data.drawn_rows import DemonstrationPool, DrawnRows
from toolorchestra.algos.options.smoke import make_tiny_model
from toolorchestra.toolscale.common.errors import OptionError

MINI = str(Path(__file__).parents[1] / "data" / "mini")


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(make_tiny_model(tmp_path / "model"))


def settings(tmp_path: Path, **changes: Any) -> sft.TrainSFT:
    return sft.TrainSFT(**{"env": MINI, "output": tmp_path / "run", "steps": 2, "batch": 2, "threads": 1, **changes})


def reader(renderer: CompactRenderer, longest: int | None) -> Any:
    """Return as much of a policy as a pool looks at."""
    text = SimpleNamespace(max_position_embeddings=longest)
    return SimpleNamespace(
        renderer=renderer, model=SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text))
    )


def test_a_row_is_the_same_whatever_was_drawn_before_and_is_played_only_when_it_is_drawn(
    good: list[Demonstration], renderer: CompactRenderer
) -> None:
    played: list[int] = []

    def make(number: int) -> list[Demonstration]:
        played.append(number)
        return [good[number]] if number % 2 else []

    def rows() -> DrawnRows:
        nothing = DemonstrationPool(Candidates(3, lambda number: []), reader(renderer, None))
        pool = DemonstrationPool(Candidates(len(good), make), reader(renderer, None), otherwise=nothing)
        nothing.otherwise = pool
        return DrawnRows(12, 3, [pool, nothing], lambda at, rng: pool if at < 0.5 else nothing)

    whole = rows()
    assert not played
    assert whole[0]
    assert played
    alone = rows()
    assert [alone[number] for number in reversed(range(12))][::-1] == list(whole)
    assert len({str(ids) for ids, _ in whole}) > 1


def test_what_is_longer_than_the_model_reads_is_left_out_and_counted(
    good: list[Demonstration], renderer: CompactRenderer, caplog: pytest.LogCaptureFixture
) -> None:
    lengths = sorted(len(encode(renderer, one)[0]) for one in good)
    bound = lengths[len(lengths) // 2]
    rows = DrawnRows(200, 0, [DemonstrationPool(Candidates.of(good), reader(renderer, bound))])
    assert max(len(ids) for ids, _ in rows) == bound
    rows.warn_of_long()
    longer = sum(length > bound for length in lengths)
    assert f"{longer} of {len(good)} demonstrations are longer than the {bound} ids" in caplog.text
    with pytest.raises(OptionError, match=rf"{len(good)} demonstrations are longer than the 5 ids.*longer context"):
        DemonstrationPool(Candidates.of(good), reader(renderer, 5)).draw(random.Random(0))


@pytest.mark.parametrize("given", [True, False])
def test_a_teacher_that_solves_nothing_is_refused_with_a_remedy(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    monkeypatch.setattr(demonstrations, "OraclePolicy", NullPolicy)
    with pytest.raises(OptionError, match=r"None of .* episodes.*`difficulty`.*`teacher`"):
        sft.teach(settings(tmp_path, model=model if given else None, replays=1))


@pytest.mark.slow
def test_a_given_model_is_taught_and_resumes_as_if_it_had_not_stopped(tmp_path: Path, model: str) -> None:
    whole = sft.teach(settings(tmp_path / "a", model=model, steps=4, save_every=0))
    start = TokenPolicy.load(model)
    sft.teach(settings(tmp_path / "b", model=model, steps=4, save_every=2))
    (tmp_path / "b" / "run" / "checkpoints" / "checkpoint-4").rename(tmp_path / "lost")
    resumed = sft.teach(settings(tmp_path / "b", model=model, steps=4, save_every=2, resume=True))
    pairs = list(zip(*(policy.model.parameters() for policy in (whole, resumed, start)), strict=True))
    assert all(torch.equal(a, b) for a, b, _ in pairs)
    assert not all(torch.equal(a, before) for a, _, before in pairs)
