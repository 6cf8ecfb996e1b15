"""What lasts longer than two seconds is shown, a turn of many tokens too."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console
from transformers import Qwen3Config, Qwen3ForCausalLM
from waiting import until

from toolorchestra.algos import activity
from toolorchestra.algos.reporting.report import RunLog
from toolorchestra.algos.rollout.sampling import ModelSampler


def shown(folder: Path, *, terminal: bool, act: Callable[[io.StringIO], object]) -> str:
    """Return what a console shows of something that is done; it sees what is shown."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120)
    with RunLog(folder, tensorboard=False, console=console) as log, log.watch("Episodes", 4) as count:
        count(1)
        act(stream)
    return stream.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_long_turn_shows_its_tokens_while_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(activity, "FIRST", 0.01)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=20, num_hidden_layers=1, head_dim=8, **sizes))
    renderer: Any = SimpleNamespace(stop_ids=(99,), pad_id=0)
    sampler = ModelSampler(model, renderer)

    def write(stream: io.StringIO) -> None:
        passes = count()

        def hold(*_: Any) -> None:
            if next(passes) == 10:  # in the middle of the turn
                until(lambda: " tokens written" in stream.getvalue(), "the tokens written so far are shown")

        model.register_forward_hook(hold)
        sampler([[5, 6, 7]], [20], [0])

    found = shown(tmp_path, terminal=terminal, act=write)
    assert "1/4" in found
    assert " tokens written" in found
    assert "2 tokens read" in found


def test_nothing_is_shown_of_what_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "FIRST", 3600)
    assert shown(tmp_path, terminal=False, act=lambda _: None) == ""
