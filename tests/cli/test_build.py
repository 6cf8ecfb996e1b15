from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra import toolscale
from toolorchestra.toolscale.database.format import json_schema
from toolorchestra.toolscale.domain_folder import load_domain, make_domain, read_spec

Run = Callable[..., Any]


def test_build_makes_the_folder_loadable_and_says_what_it_made(run: Run, edited: Callable[..., Path]):
    folder = edited()
    output = run("build", folder)
    assert output.code == 0
    assert {path.name for path in folder.iterdir()} >= {"domain.db", "tasks.jsonl", "build.json"}
    assert f"{len(load_domain(folder).tasks())} tasks" in output.out
    assert "built mini" in output.out


def test_build_says_where_a_domain_is_wrong(run: Run, edited: Callable[..., Path]):
    folder = edited("tables.orders.columns.price.type", "MONEY")
    output = run("build", folder)
    assert output.code == 2
    assert "tables.orders.columns.price.type" in output.err


def test_build_filters_by_policies_and_experts_of_two_strengths_and_says_what_it_dropped(
    run: Run, edited: Callable[..., Path]
):
    edited("evolution", {"share": 0.3})
    folder = edited("intents.drop_order.instructions", ["Cancel the order {order_id}."] * 2)
    output = run("build", folder, "--solver", "noisy-oracle", "strong-expert", "weak-expert", "--k", 2)
    assert output.code == 0
    info = json.loads((folder / "build.json").read_bytes())
    found = {one["name"]: one for one in info["filters"]}
    solved = found["unsolved in pass@2"]["solved"]
    assert set(solved) == {"noisy-oracle", "strong-expert", "weak-expert"}
    assert solved["strong-expert"] > solved["weak-expert"] > 0
    assert f"strong-expert solves {solved['strong-expert']} in 2 attempts" in output.out
    assert "unsolved in pass@2" in output.out
    assert "% evolved: " in output.out
    assert info["not_run"] == []
    loaded = load_domain(folder)
    made = make_domain(read_spec(folder))
    assert [task.id for task in made.tasks() if task.id not in info["filtered"]] == [task.id for task in loaded.tasks()]
    assert sum(one["dropped"] for one in info["filters"]) == len(info["filtered"])


def test_a_build_without_solvers_runs_no_filter(run: Run, edited: Callable[..., Path]):
    folder = edited()
    assert run("build", folder).code == 0
    assert json.loads((folder / "build.json").read_bytes())["filters"] == []
    assert run("build", folder, "--solver", "noisy-oracle", "--k", 0).code == 2


def test_a_build_of_which_no_task_is_left_fails(run: Run, edited: Callable[..., Path], monkeypatch: pytest.MonkeyPatch):
    @contextmanager
    def hopeless(name: str, folder: Path) -> Iterator[Any]:
        yield lambda domain, task, seed: False

    monkeypatch.setattr("toolorchestra.cli.synth.solvers.task_solver", hopeless)
    output = run("build", edited(), "--solver", "weak-expert")
    assert output.code == 1
    assert "no task is left after the filters" in output.err


def test_the_schema_that_editors_read_is_current(run: Run):
    file = Path(toolscale.__file__).parent / "domain.schema.json"
    assert json.loads(file.read_bytes()) == msgspec.json.decode(msgspec.json.encode(json_schema()))
    assert run("build", "--schema").out == file.read_text()
    assert "Expected a FOLDER" in run("build").err
