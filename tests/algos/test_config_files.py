"""Options from files: what a run wrote is read, flags go first, and mistakes are named with file, line and key."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from toolorchestra.algos.options.config_files import ConfigFile, config_argument, config_text, learner_of, parse_options
from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO, TrainTMATR
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError


def written(folder: Path, text: str) -> str:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    "config",
    [
        TrainGRPO(
            model="a/b", env_options={"tools": "full", "n": "3", "rule": '{"a": 1}'}, preference={"outcome": 1.0},
            filters=(), difficulty=(), learning_rate=1e-6, track_kl=True, scale=False, preference_text="Be quick: now.",
        ),
        TrainSFT(episodes=(Path("a.jsonl"), Path("b c.jsonl")), steps=0),
        TrainMSARL(reasoner="a", helper="b", env="MSARL-Custom-v0", source="math"),
        TrainTMATR(models={"planner": "a", "inferencer": "b"}, schedule=("both",)),
        TrainMultiGRPO(sharing={"reasoner": "one", "helper": "one"}),
    ],
)  # fmt: skip
def test_the_options_that_a_run_writes_are_a_file_for_config(config: TrainGRPO, tmp_path: Path) -> None:
    file = written(tmp_path, config_text(config))
    assert ConfigFile.read(file).learner == learner_of(type(config))
    assert parse_options(type(config), ["--config", file]) == config


def test_flags_go_before_the_file_and_replace_whole_values(tmp_path: Path) -> None:
    file = written(tmp_path, "steps: 7\ngroups: 4\nenv_options: {tools: full}\nscale: false\nfilters: [format]\n")
    words = ["--steps", "9", f"--config={file}", "--env-options", "max_turns", "3", "--scale", "--filters"]
    expected = TrainGRPO(steps=9, groups=4, env_options={"max_turns": "3"}, filters=())
    assert parse_options(TrainGRPO, words) == expected
    assert parse_options(TrainGRPO, ["--config", file]) == replace(
        expected, steps=7, env_options={"tools": "full"}, filters=("format",), scale=False
    )


def test_nested_values_and_numbers_without_a_point_are_understood(tmp_path: Path) -> None:
    text = "learning_rate: 1e-6\ntemperature: 1\nenv_options: {rule: {alpha: 0.22}, max_turns: 3, flag: true}\n"
    found = parse_options(TrainGRPO, ["--config", written(tmp_path, text)])
    assert (found.learning_rate, found.temperature) == (1e-6, 1.0)
    assert found.env_options == {"rule": '{"alpha": 0.22}', "max_turns": "3", "flag": "true"}


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("seed: 1\ngroup_siez: 4\n", ("mine.yaml:2: `group_siez`", "Did you mean 'group_size'?")),
        ("steps: many\n", ("mine.yaml:1: `steps`", "Expected `int`, got `str`", "found 'many'")),
        ("seed: 1\nupdates: 2.5\n", ("mine.yaml:2: `updates`", "Expected `int`, got `float`", "2.5")),
        ("learning_rate: fast\n", ("mine.yaml:1: `learning_rate`", "float", "found 'fast'")),
        ("filters: [format, length]\n", ("mine.yaml:1: `filters`", "length")),
        ("scale: 1\n", ("mine.yaml:1: `scale`", "Expected `bool`, got `int`")),
        ("env_options: tools\n", ("mine.yaml:1: `env_options`", "Expected `object`, got `str`")),
        ("preference: {outcome: high}\n", ("mine.yaml:1: `preference`", "Expected `float`, got `str`")),
        ("env_options: {tools: --output}\n", ("mine.yaml:1: `env_options`", "begin with two dashes")),
        ("learner: sft\n", ("of the learner 'sft', not of 'grpo'", "train --config")),
        ("learner: grop\n", ("mine.yaml:1: `learner`", "Did you mean 'grpo'?")),
        ("- a\n- b\n", ("expected the options of a learner by name, found ['a', 'b']",)),
        ("a: [1\n", ("mine.yaml", "Not valid YAML")),
        ("a: &x [1]\nb: *x\n", ("mine.yaml", "anchor or alias")),
        ("seed: 1\nseed: 2\n", ("mine.yaml", "'seed' stands twice")),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(tmp_path: Path, text: str, messages: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as raised:
        parse_options(TrainGRPO, ["--config", written(tmp_path, text)])
    for message in messages:
        assert message in str(raised.value)


def test_text_that_is_no_utf8_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"env: \xff\n")
    with pytest.raises(OptionError, match=r"mine\.yaml: .*utf-8"):
        ConfigFile.read(tmp_path / "mine.yaml")


def test_a_name_that_is_neither_a_file_nor_a_recipe_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'toolorchestra-8b'\?"):
        ConfigFile.read("toolorchestra-8")


def test_options_that_contradict_one_another_are_refused_as_on_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is below 2"):
        parse_options(TrainGRPO, ["--config", written(tmp_path, "group_size: 1\n")])


def test_config_without_a_value_is_a_mistake_and_a_word_of_another_option_is_not_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert config_argument(["--model", "m", "--seed", "1"]) is None
    with pytest.raises(SystemExit):
        parse_options(TrainGRPO, ["--config"])
    assert "--config" in capsys.readouterr().err


def test_a_script_reads_the_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs the extra `train`", exc_type=ImportError)
    from toolorchestra.algos.trainer import run_script

    monkeypatch.setattr(sys, "argv", ["sft.py", "--config", written(tmp_path, "steps: 7\n"), "--seed", "3"])
    given: list[TrainSFT] = []
    run_script(TrainSFT, given.append)
    assert given == [TrainSFT(steps=7, seed=3)]
