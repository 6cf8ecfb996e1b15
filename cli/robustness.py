"""The command `toolorchestra robustness`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from tyro.conf import Positional, arg

from toolorchestra.cli.environments import environment
from toolorchestra.cli.files import print_json, read_recorded
from toolorchestra.cli.options import UsageError


@dataclass
class RobustnessCommand:
    """Report how policies withstood the attacks of a robustness set (`synth adversarial` makes one)."""

    tasks: Annotated[Positional[Path], arg(metavar="TASKS")]
    """JSONL file of the attacked tasks."""
    episodes: Annotated[Positional[tuple[Path, ...]], arg(metavar="EPISODES")]
    """JSONL files of episodes of them, one for each policy, as `rollout TASKS` writes them."""
    json: bool = False
    """Print the report as JSON."""

    def __post_init__(self) -> None:
        if not self.episodes:
            raise UsageError("Expected at least one file of episodes: toolorchestra rollout TASKS --split all …")

    def run(self) -> int:
        """Judge the episodes and print the shares."""
        from toolorchestra.cli.display import show
        from toolorchestra.cli.display_episodes import robustness_table
        from toolorchestra.envs.records.robustness import robustness

        source = environment(str(self.tasks)).source
        results = {file.stem: robustness(source, read_recorded(file)) for file in self.episodes}
        if self.json:
            extra = {name: {"share": found.share, "interval": found.interval} for name, found in results.items()}
            return print_json({name: msgspec.structs.asdict(results[name]) | extra[name] for name in results})
        show(robustness_table(results))
        return 0
