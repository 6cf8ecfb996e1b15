from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tyro

from toolorchestra.cli.envs import EnvsCommand
from toolorchestra.cli.options import UsageError, option_values, real_model, require_at_least, subcommands
from toolorchestra.cli.serve import ServeCommand


def test_values_are_decoded_where_they_are_json():
    given = {"n": "8", "share": "0.5", "only": '["a", "b"]', "tools": "full", "quoted": '"8"', "none": "null"}
    expected = {"n": 8, "share": 0.5, "only": ["a", "b"], "tools": "full", "quoted": "8", "none": None}
    assert option_values(given) == expected


def test_a_value_below_its_bound_is_refused_by_the_name_of_its_option():
    command = SimpleNamespace(max_tokens=1, timeout=0.5)
    require_at_least(command, max_tokens=1, timeout=0.5)
    with pytest.raises(UsageError, match=r"^--max-tokens must be at least 2, got 1\.$"):
        require_at_least(command, timeout=0.1, max_tokens=2)


def test_commands_are_chosen_by_their_names_and_groups_are_described(capsys: pytest.CaptureFixture[str]):
    group = subcommands({"figures": EnvsCommand, "serving": ServeCommand})
    union = subcommands({"domains": group, "serve": ServeCommand}, {"domains": "About domains."})
    assert isinstance(tyro.cli(union, args=["domains", "serving", "X"]), ServeCommand)
    assert tyro.cli(union, args=["domains", "figures", "X"]) == EnvsCommand("X")
    with pytest.raises(SystemExit):
        tyro.cli(union, args=["--help"])
    shown = capsys.readouterr().out
    assert "About domains." in shown
    assert "Serve an environment" in shown


def test_a_real_model_is_closed_also_after_an_error():
    closed: list[str] = []
    catalog: Any = SimpleNamespace(chat=lambda name: SimpleNamespace(close=lambda: closed.append(name)))
    with pytest.raises(ValueError, match="stop"), real_model(catalog, "gpt-5"):
        raise ValueError("stop")
    assert closed == ["gpt-5"]
    scripted = object()
    catalog.chat = lambda name: scripted  # has nothing to close
    with real_model(catalog, "gpt-5") as model:
        assert model is scripted
