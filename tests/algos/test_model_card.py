from __future__ import annotations

from pathlib import Path

import pytest

from toolorchestra.algos.options.model_card import card, write_cards
from toolorchestra.algos.options.one_agent import TrainGRPO
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO


def test_the_card_of_a_built_in_model_says_that_it_is_one() -> None:
    text = card(TrainGRPO(env_options={"tools": "full"}, seed=3), "grpo", "The start")
    assert text.startswith("---\nlibrary_name: transformers\n")
    assert "# GRPO on ToolOrchestra-Restaurant-v0" in text
    assert "The start of `toolorchestra train grpo --env ToolOrchestra-Restaurant-v0`, seed 3" in text
    assert "`tools=full`" in text
    assert "built-in model" in text
    assert "None" not in text
    assert "base_model" not in text


@pytest.mark.parametrize(
    ("config", "models"),
    [
        (TrainGRPO(model="Qwen/Qwen3-0.6B"), ["Qwen/Qwen3-0.6B"]),
        (TrainMSARL(reasoner="a/b", helper="c/d"), ["a/b", "c/d"]),
        (TrainMultiGRPO(model="a/b", models={"helper": "c/d"}), ["a/b", "c/d"]),
    ],
)
def test_the_card_of_a_model_names_what_it_was_made_of(
    config: TrainGRPO | TrainMSARL | TrainMultiGRPO, models: list[str]
) -> None:
    text = card(config, "grpo", "The result")
    assert "base_model:\n" + "".join(f"- {model}\n" for model in models) + "---" in text
    assert "built-in" not in text.partition("```")[0]


def test_a_local_model_and_a_start_are_named_without_a_link_to_the_hub(tmp_path: Path) -> None:
    assert "base_model" not in (text := card(TrainGRPO(model=str(tmp_path)), "grpo", "The result"))
    assert f"The run started from `{tmp_path}`." in text
    assert f"from the policies in `{tmp_path}`" in card(TrainGRPO(start=tmp_path), "grpo", "The result")


def test_every_policy_of_a_folder_gets_its_card(tmp_path: Path) -> None:
    for name, file in (("a", "config.json"), ("b", "adapter_config.json"), ("c", "notes.txt")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    write_cards(tmp_path, TrainMultiGRPO(), "multi-grpo", "The start")
    assert [path.parent.name for path in sorted(tmp_path.glob("*/README.md"))] == ["a", "b"]
