"""The command `toolorchestra stats`."""

from dataclasses import dataclass

from toolorchestra.cli.environments import domains_of
from toolorchestra.cli.files import print_json
from toolorchestra.cli.options import Env, UsageError


@dataclass
class StatsCommand:
    """Print how large domains are and how varied their tasks: sizes, shares, diversity."""

    env: Env = "ToolOrchestra-All-v0"
    """Id of an environment, folder of a domain, or JSONL file of tasks."""
    json: bool = False
    """Print JSON: a list of figures, one object a domain."""
    markdown: bool = False
    """Print the statistics page, with the paper's sizes beside ours."""

    def __post_init__(self) -> None:
        if self.json and self.markdown:
            raise UsageError("Expected one of --json and --markdown, got both.")

    def run(self) -> int:
        """Print them."""
        from toolorchestra.cli.display import show
        from toolorchestra.cli.display_domains import statistics_tables
        from toolorchestra.toolscale.domain_card import statistics_page
        from toolorchestra.toolscale.domain_statistics import statistics

        facts = [statistics(domain, tasks) for domain, tasks in domains_of(self.env)]
        if self.json:
            return print_json(facts)
        if self.markdown:
            print(statistics_page(facts), end="")
        else:
            show(statistics_tables(facts))
        return 0
