from __future__ import annotations

import io

from rich.console import Console, RenderableType

from toolorchestra.cli.display.synthesis import filter_table, synthesis_table
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.filters import apply_filters
from toolorchestra.toolscale.synth.model_queries import StageCount


def lines_of(table: RenderableType) -> list[list[str]]:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table)
    return [line.split() for line in console.export_text().splitlines()]


def test_the_table_of_a_report_names_filters_counts_and_what_did_not_run(mini: Domain) -> None:
    tasks = mini.tasks()
    _, report = apply_filters(mini, [*tasks, tasks[0]])
    shown = lines_of(filter_table(report))
    (duplicates,) = [line for line in shown if "near-duplicate" in line and "1" in line]
    assert duplicates[duplicates.index("near-duplicate") + 1 :][:2] == [str(len(tasks)), "1"]
    (nothing,) = [" ".join(line) for line in shown if line[:2] == ["dropped", "nothing:"]]
    assert "exact duplicate" in nothing
    assert "near-duplicate" not in nothing
    assert "unsolved in pass@8 did not run: no solver was given" in [" ".join(line) for line in shown]


def test_the_table_of_a_synthesis_has_a_line_for_each_stage_and_their_sums() -> None:
    tools = StageCount("tools", 16, 9, 8, 2, 1, 0, 12_000, 3_000, 0.25)
    intents = StageCount("intents", 4, 4, 4, 0, 0, 1, 1_000, 500, 0.5)
    shown = lines_of(synthesis_table([tools, intents]))
    assert ["tools", "9", "16", "8", "2", "1", "0", "12,000", "3,000", "$0.2500"] in shown
    assert ["all", "13", "20", "12", "2", "1", "1", "13,000", "3,500", "$0.7500"] in shown
    assert not any(line[:1] == ["all"] for line in lines_of(synthesis_table([tools])))
