from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.domain import Domain

Run = Callable[..., Any]
MULTI_AGENT = "MSARL-Math-v0"


def test_tasks_are_listed_and_filtered(run: Run, folder: str, mini: Domain):
    every = run("envs", folder, "--json").json
    assert len(every) == len(mini.tasks())
    some = run("envs", folder, "--split", "train", "--difficulty", 1, "--intent", "ask_price", "--json").json
    assert some
    assert all((task["split"], task["difficulty"], task["intent"]) == ("train", 1, "ask_price") for task in some)
    text = run("envs", folder, "--limit", 3).out
    assert text.count("mini/") == 3
    assert f"{len(every)} tasks of 4 intents" in text
    assert "3 shown" in text


def test_a_task_is_shown_with_its_reference_trajectory(run: Run, folder: str):
    text = run("envs", folder, "--task", "mini/ask_price/000").out
    for part in ("reference trajectory", "get_order(order_id=", "information to communicate", "a right answer"):
        assert part in text
    assert run("envs", folder, "--task", "mini/ask_price/000", "--json").json["intent"] == "ask_price"


def test_unknown_tasks_and_intents_suggest_the_nearest(run: Run, folder: str):
    assert "Did you mean 'mini/ask_price/0" in run("envs", folder, "--task", "mini/ask_price/00").err
    assert "Did you mean 'ask_price'?" in run("envs", folder, "--intent", "ask_prize").err


def test_the_tasks_of_several_agents_are_listed(run: Run) -> None:
    output = run("envs", MULTI_AGENT, "--split", "test", "--difficulty", 1, "--limit", 3)
    assert output.code == 0
    assert output.out.count("math/") == 3


def test_look_ups_stand_before_the_reference_trajectory(run: Run, named: Domain, named_folder: Path):
    task = next(task for task in named.tasks() if task.lookups)
    text = run("envs", str(named_folder), "--task", task.id).out
    places = [text.index(part) for part in ("look-ups", "get_customer(", "list_orders(", "reference trajectory")]
    assert places == sorted(places)
    listed = run("envs", str(named_folder), "--intent", "ask_price").out
    assert "look-ups" in listed
    plain = next(task for task in named.tasks() if not task.lookups)
    assert "look-ups" not in run("envs", str(named_folder), "--task", plain.id).out
