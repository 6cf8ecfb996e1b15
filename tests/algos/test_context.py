"""A run is never longer than what its models can read, and says before it begins what has no room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, LlamaConfig, MambaConfig, Qwen2Config, Qwen3Config

from toolorchestra.agents.builtin.model import BUILTIN_CONTEXT, build_model
from toolorchestra.algos.hardware import memory
from toolorchestra.algos.hardware.batching import spread
from toolorchestra.algos.options.context import context_of, longest_row, require_context, require_readable, require_room
from toolorchestra.algos.options.dry_run import estimate, require_memory
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.several_agents import TrainMultiGRPO, TrainTMATR
from toolorchestra.toolscale.common.errors import OptionError

CPU = torch.device("cpu")
TINY: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the configuration of a model of 135 million weights that reads 8,192 ids, without weights."""
    made = tmp_path_factory.mktemp("small")
    LlamaConfig(
        vocab_size=49_152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    ).save_pretrained(made)
    return made


@pytest.mark.parametrize(
    ("config", "context"),
    [
        (LlamaConfig(**TINY, max_position_embeddings=8192), 8192),
        (Qwen3Config(**TINY, max_position_embeddings=1024), 1024),
        (GPT2Config(n_positions=1024), 1024),
        (MambaConfig(), None),
        (build_model(64).config, BUILTIN_CONTEXT),
        (
            Qwen2Config(
                **TINY,
                max_position_embeddings=4096,
                rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096},
            ),
            16_384,
        ),
    ],
)
def test_the_context_is_what_the_configuration_says(config: Any, context: int | None) -> None:
    assert context_of(config) == context


@pytest.mark.parametrize(
    ("options", "contexts", "expected"),
    [
        (TrainGRPO(model="m"), [8192], 8192),
        (TrainGRPO(model="m"), [131_072], 16_000),
        (TrainGRPO(model="m"), [None], 16_000),
        (TrainGRPO(model="m", max_ids=700), [8192], 700),
        (TrainGRPO(model="m", max_ids=8192), [8192], 8192),
        (TrainMultiGRPO(env="TMATR-Math-v0", model="m"), [8192, 1024, None], 1024),
        (TrainTMATR(), [BUILTIN_CONTEXT], 512),
        (TrainGRPO(), [BUILTIN_CONTEXT], 1024),
        (TrainSFT(model="m"), [1024], 1024),
        (TrainGRPO(model="m"), [], 16_000),
    ],
)
def test_a_row_is_never_longer_than_what_every_model_reads(options: Any, contexts: Any, expected: int) -> None:
    assert longest_row(options, contexts) == expected


def test_more_than_the_context_is_refused_before_anything_is_made(folder: Path, tmp_path: Path) -> None:
    told = r"`max_ids` must be at most 8,192, .*, got 8,193\. Lower it, leave it out, or take a model"
    for config in (
        TrainGRPO(model=str(folder), max_ids=8193, output=tmp_path / "run"),
        TrainMultiGRPO(env="TMATR-Math-v0", model=str(folder), max_ids=8193, output=tmp_path / "run"),
    ):
        with pytest.raises(OptionError, match=told):
            require_context(config)
        with pytest.raises(OptionError, match=told):
            estimate(config)
    with pytest.raises(OptionError, match=f"must be at most {BUILTIN_CONTEXT:,}"):
        require_context(TrainGRPO(max_ids=BUILTIN_CONTEXT + 1))
    require_context(TrainGRPO(max_ids=BUILTIN_CONTEXT))
    require_context(TrainGRPO(model=str(folder), max_ids=8192))
    assert not (tmp_path / "run").exists()


def test_memory_is_that_of_the_models_own_context(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "free", lambda device: 24 * memory.GIB)
    found = require_memory(TrainGRPO(model=str(folder)), CPU)  # of 32,000 ids it would be 59 GiB
    assert found.length == 8192
    assert "8,192 tokens" in capsys.readouterr().out
    assert estimate(TrainGRPO(model=str(folder), max_ids=4096)).peak < found.peak


@pytest.mark.parametrize(("length", "fits"), [(9, True), (10, False), (11, False), (500, False), (1, True)])
def test_a_prompt_without_room_for_an_answer_is_refused(length: int, fits: bool) -> None:
    prompts = [("a", 3), ("b", length)]
    if fits:
        require_room(prompts, 10)
    else:
        told = rf"The prompt of b has {length} ids, and an episode may have 10, .* Give a larger `max_ids`"
        with pytest.raises(OptionError, match=told):
            require_room(prompts, 10)


def test_a_demonstration_longer_than_the_context_is_refused() -> None:
    model = build_model(16)
    require_readable([[1] * BUILTIN_CONTEXT], model)
    require_readable([], model)
    with pytest.raises(OptionError, match=r"longest demonstration has 4,097 ids, and the model can read 4,096"):
        require_readable([[1], [1] * (BUILTIN_CONTEXT + 1)], model)


def test_prompts_are_looked_at_all_over_the_tasks() -> None:
    assert spread(list(range(100)), 4) == [0, 25, 50, 75]
    assert spread([1, 2], 4) == [1, 2]
