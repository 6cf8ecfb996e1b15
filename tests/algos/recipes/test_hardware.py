"""What a recipe says of the memory that it needs is what a dry run says of models of these shapes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import Qwen2Config, Qwen3Config

from toolorchestra.algos.hardware.memory import GIB
from toolorchestra.algos.options.config_files import ConfigFile, options_of, parse_options, recipe_names
from toolorchestra.algos.options.dry_run import MemoryEstimate, estimate
from toolorchestra.algos.options.smoke import builtin_environment

QWEN3 = {"vocab_size": 151_936, "num_key_value_heads": 8, "head_dim": 128, "num_hidden_layers": 36}
SHAPES: dict[str, Any] = {
    "Qwen/Qwen3-8B": Qwen3Config(
        **QWEN3, hidden_size=4096, intermediate_size=12_288, num_attention_heads=32, tie_word_embeddings=False
    ),
    "Qwen/Qwen3-4B": Qwen3Config(
        **QWEN3,
        hidden_size=2560,
        intermediate_size=9728,
        num_attention_heads=32,
        max_position_embeddings=262_144,  # of Instruct-2507, of which the recipes are
        tie_word_embeddings=True,
    ),
    "Qwen/Qwen2.5-7B-Instruct": Qwen2Config(
        vocab_size=152_064,
        hidden_size=3584,
        intermediate_size=18_944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        tie_word_embeddings=False,
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": Qwen2Config(
        vocab_size=151_936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    ),
}
"""Shapes of the models that recipes name; others have one of these (`ALIKE`)."""
ALIKE = {
    "Qwen/Qwen2.5-Math-1.5B-Instruct": "Qwen/Qwen2.5-1.5B-Instruct",
    "Qwen/Qwen3-4B-Instruct-2507": "Qwen/Qwen3-4B",
    "runs/paramanager-4b-sft/final": "Qwen/Qwen3-4B",
}


def local(value: Any, folder: Path) -> Any:
    """Return an option that names models with folders of their configurations instead."""
    if isinstance(value, dict):
        return {name: local(one, folder) for name, one in value.items()}
    name = ALIKE.get(value, value)
    place = folder / name.replace("/", "--")
    SHAPES[name].save_pretrained(place)
    return str(place)


def least(name: str, folder: Path) -> MemoryEstimate:
    """Return what a recipe needs with one row at a time, in each process."""
    config = parse_options(options_of(ConfigFile.read(name).learner), ["--config", name])
    models = {
        option: getattr(config, option) for option in (*config.model_options, "helper") if getattr(config, option, None)
    }
    changes = {option: local(value, folder) for option, value in models.items()}
    return estimate(replace(config, **builtin_environment(config), **changes))


def sentence(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a recipe is to say."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    alone = least(name, folder)
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("TOOLORCHESTRA_SHARD", "true")
    part = least(name, folder)
    state = alone.weights + alone.gradients + alone.optimizer
    return (
        f"The estimate of `--dry-run` with one row of {alone.length:,} tokens at a time is {alone.peak / GIB:.0f} GiB "
        f"on one device, {state / GIB:.0f} of them weights, gradients and the optimiser, or {part.peak / GIB:.0f} GiB "
        "on each of 8 with `--shard`."
    )


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_says_what_a_dry_run_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = " ".join(ConfigFile.read(name).values["about"]["hardware"].split())
    assert sentence(name, tmp_path, monkeypatch) in said
