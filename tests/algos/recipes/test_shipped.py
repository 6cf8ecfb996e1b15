"""The recipes hold the numbers of the papers; where one does not, it names the departure."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolorchestra.algos.options.config_files import ConfigFile, options_of, parse_options, recipe_names
from toolorchestra.envs.starts import json_or_text

PAPERS = yaml.safe_load(Path(__file__).with_name("papers.yaml").read_text(encoding="utf-8"))
ROWS = [(name, quantity, row) for name, rows in PAPERS.items() for quantity, row in rows.items()]


def value_of(config: Any, path: str) -> Any:
    """Return the option at a path such as ``env_options.rule.alpha``, as a file would hold it."""
    first, *rest = path.split(".")
    value = getattr(config, first)
    for key in rest:
        value = json_or_text(value).get(key) if isinstance(value, str) else value.get(key)
    return json.loads(json.dumps(json_or_text(value)))


@pytest.fixture(scope="module")
def recipes() -> dict[str, Any]:
    found = {}
    for name in recipe_names():
        learner = ConfigFile.read(name).learner
        found[name] = parse_options(options_of(learner), ["--config", name])
    return found


def test_there_is_a_recipe_for_each_table() -> None:
    assert recipe_names() == sorted(PAPERS)
    assert len(ROWS) > 80


@pytest.mark.parametrize(("name", "quantity", "row"), ROWS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_number_of_a_paper_is_in_its_recipe_or_a_departure_is_named(
    recipes: dict[str, Any], name: str, quantity: str, row: dict[str, Any]
) -> None:
    about = ConfigFile.read(name).values["about"]
    if departure := row.get("departure"):
        assert len(about["departures"][departure].split()) >= 4, "a departure says what and why"
    else:
        assert set(row) == {"source", "value", "option"}
    assert row["source"].startswith(("§", "Table", "App.", "Eq."))
    if "option" in row:
        assert value_of(recipes[name], row["option"]) == row.get("here", row["value"])


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_says_what_it_needs_what_was_chosen_and_what_has_been_run(name: str, recipes: dict[str, Any]) -> None:
    recipe = ConfigFile.read(name)
    about = recipe.values["about"]
    assert set(about) == {"title", "before", "departures", "not_in_paper", "hardware", "run"} - (
        set() if "before" in about else {"before"}
    )
    assert "estimate" in about["hardware"]
    assert about["run"].startswith("Nothing of this recipe has been run at its size.")
    assert recipes[name].output == Path("runs") / name
    used = {row.get("departure") for row in PAPERS[name].values()} - {None}
    assert used <= set(about["departures"])
    fields = set(vars(recipes[name])) | {"weight_decay", "warm_up"}
    assert set(about["not_in_paper"]) <= fields


@pytest.mark.parametrize("name", recipe_names())
def test_the_commands_of_a_recipe_exist(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from toolorchestra.cli.main import expand, main

    for line in ConfigFile.read(name).values["about"].get("before", ()):
        if not line.startswith("toolorchestra "):
            continue
        words = expand(shlex.split(line)[1:])
        names = words[: 3 if words[:2] == ["synth", "select"] else 2 if words[0] == "synth" else 1]
        assert main([*names, "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in words if word.startswith("--")), line
