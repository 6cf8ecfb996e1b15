"""The command `toolorchestra card`."""

from dataclasses import dataclass

from toolorchestra.cli.environments import domains_of
from toolorchestra.cli.options import Env


@dataclass
class CardCommand:
    """Print the card of a domain as Markdown: rules, entities, tools, example tasks, statistics."""

    env: Env
    """Id of an environment, folder of a domain, or JSONL file of tasks."""

    def run(self) -> int:
        """Print it."""
        from toolorchestra.toolscale.export.domain_card import card

        print("\n".join(card(domain) for domain, _ in domains_of(self.env)), end="")
        return 0
