from __future__ import annotations

import io

from rich.console import Console

from toolorchestra.cli.display_synth import filter_table
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.filters import apply_filters


def test_the_table_of_a_report_names_filters_counts_and_what_did_not_run(mini: Domain) -> None:
    tasks = mini.tasks()
    _, report = apply_filters(mini, [*tasks, tasks[0]])
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(filter_table(report))
    shown = console.export_text()
    assert "near-duplicate" in shown
    assert "unsolved in pass@8 did not run: no solver was given" in shown
