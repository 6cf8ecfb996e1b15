from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.export.domain_card import card
from toolorchestra.toolscale.export.domain_statistics import statistics

Run = Callable[..., Any]


def test_statistics_come_as_a_table_as_json_and_as_a_page(run: Run, folder: str):
    (facts,) = run("envs", folder, "--stats", "--json").json
    assert facts["domain"] == "mini"
    assert facts["sequences"] == statistics(load_domain(folder)).sequences
    assert "distinct tool sequences" in run("envs", folder, "--stats").out
    assert run("envs", folder, "--stats", "--markdown").out.startswith("# Statistics of the domains\n")
    assert run("envs", folder, "--stats", "--markdown", "--json").code == 2
    assert run("envs", folder, "--markdown").code == run("envs", "--card").code == 2


def test_requests_of_a_file_stand_beside_ours(run: Run, folder: str, tmp_path: Path):
    file = tmp_path / "retail.json"
    file.write_text('[{"instruction": "Please send my order #W2378156 to another place."}]')
    table = run("envs", folder, "--stats", "--beside", str(file)).out
    assert "requests with a word shaped like an id" in table
    ours, theirs = run("envs", folder, "--stats", "--beside", str(file), "--json").json
    assert (ours["name"], theirs["name"], theirs["id_shaped"]) == ("mini", "retail", 1)
    assert "|  | mini | retail |" in run("envs", folder, "--stats", "--beside", str(file), "--markdown").out
    assert run("envs", folder, "--stats", "--beside", str(tmp_path / "none.json")).code == 2


def test_the_card_of_a_folder_is_markdown(run: Run, folder: str):
    output = run("envs", folder, "--card")
    assert output.code == 0
    assert output.out == card(load_domain(folder))
