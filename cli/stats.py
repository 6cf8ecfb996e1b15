"""The command `toolorchestra stats`."""

from dataclasses import dataclass
from pathlib import Path

from toolorchestra.cli.environments import domains_of
from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import Env, UsageError


@dataclass
class StatsCommand:
    """Print how large domains are and how varied their tasks: sizes, shares, diversity."""

    env: Env = "ToolOrchestra-All-v0"
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    json: bool = False
    """Print JSON: a list of figures, one object a domain; with `beside`, the figures that are compared."""
    markdown: bool = False
    """Print the statistics page, with the paper's sizes beside ours."""
    beside: Path | None = None
    """Requests to put beside ours: τ²-bench's tasks.json, or JSON Lines of objects with an instruction."""

    def __post_init__(self) -> None:
        if self.json and self.markdown:
            raise UsageError("Expected one of --json and --markdown, got both.")

    def run(self) -> int:
        """Print them."""
        from toolorchestra.cli.display import show
        from toolorchestra.cli.display_domains import beside_table, statistics_tables
        from toolorchestra.toolscale.export.domain_card import statistics_page
        from toolorchestra.toolscale.export.domain_statistics import request_statistics, statistics
        from toolorchestra.toolscale.export.text_statistics import read_requests, text_statistics

        file = self.beside
        beside = None if file is None else [text_statistics(file.stem, read_requests(file))]
        domains = domains_of(self.env)
        texts = [request_statistics(domain, tasks) for domain, tasks in domains]
        facts = [statistics(*pair, requests) for pair, requests in zip(domains, texts, strict=True)]
        if self.json:
            return print_json([*texts, *beside] if beside else facts)
        if self.markdown:
            print(statistics_page(facts, texts, beside), end="")
        else:
            show(statistics_tables(facts))
            if beside:
                show(beside_table([*texts, *beside]))
        return 0
