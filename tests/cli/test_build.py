from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.domain_folder import load_domain

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
