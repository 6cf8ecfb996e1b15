from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.domain_statistics import statistics

Run = Callable[..., Any]


def test_statistics_come_as_a_table_as_json_and_as_a_page(run: Run, folder: str):
    (facts,) = run("stats", folder, "--json").json
    assert facts["domain"] == "mini"
    assert facts["sequences"] == statistics(load_domain(folder)).sequences
    assert "distinct tool sequences" in run("stats", folder).out
    assert run("stats", folder, "--markdown").out.startswith("# Statistics of the domains\n")
    assert run("stats", folder, "--markdown", "--json").code == 2
