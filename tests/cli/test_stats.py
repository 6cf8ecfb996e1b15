from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.export.domain_statistics import statistics

Run = Callable[..., Any]


def test_statistics_come_as_a_table_as_json_and_as_a_page(run: Run, folder: str):
    (facts,) = run("stats", folder, "--json").json
    assert facts["domain"] == "mini"
    assert facts["sequences"] == statistics(load_domain(folder)).sequences
    assert "distinct tool sequences" in run("stats", folder).out
    assert run("stats", folder, "--markdown").out.startswith("# Statistics of the domains\n")
    assert run("stats", folder, "--markdown", "--json").code == 2


def test_requests_of_a_file_stand_beside_ours(run: Run, folder: str, tmp_path: Path):
    file = tmp_path / "retail.json"
    file.write_text('[{"instruction": "Please send my order #W2378156 to another place."}]')
    table = run("stats", folder, "--beside", str(file)).out
    assert "requests with a word shaped like an id" in table
    ours, theirs = run("stats", folder, "--beside", str(file), "--json").json
    assert (ours["name"], theirs["name"], theirs["id_shaped"]) == ("mini", "retail", 1)
    assert "|  | mini | retail |" in run("stats", folder, "--beside", str(file), "--markdown").out
    assert run("stats", folder, "--beside", str(tmp_path / "none.json")).code == 2
