"""Search for a workflow that answers the questions of a validation set, as a command in the root of a clone.

python -m examples.searches --method evolution --budget 2 --out search.jsonl --best best.txt
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from tyro.conf import arg

from examples.designs import QuestionOptions
from examples.searches.search import SearchBudget, Validation, best, search
from examples.searches.strategies import WorkflowCandidate
from toolorchestra.cli.display.console import progress_bars
from toolorchestra.cli.files import print_json
from toolorchestra.cli.main import run_command
from toolorchestra.cli.options import Split
from toolorchestra.envs.masorchestra import figure
from toolorchestra.envs.masorchestra.design import to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.toolscale.common.writing import write_whole


@dataclass(kw_only=True)
class Command(QuestionOptions):
    """Search for a workflow that answers the questions of a validation set."""

    split: Split = "train"
    """Split from which the validation set is drawn."""
    method: Literal["evolution", "random", "tree", "aflow", "gptswarm"] = "evolution"
    """Evolution with niches (EvoFlow), random workflows, Monte Carlo tree search over edits (with AFlow's choice of
    parents: `aflow`), or learnt edges between fixed agents (GPTSwarm)."""
    questions: int = 30
    """Size of the validation set."""
    candidates: int = 50
    """Maximum number of workflows evaluated."""
    budget: Annotated[float | None, arg(metavar="USD")] = None
    """US dollars after which no further workflow is evaluated."""
    max_agents: int = 8
    """Maximum number of agents of a workflow."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("mas_search.jsonl")
    """JSONL file of every candidate; the same command continues it."""
    best: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the best workflow's text here."""
    json: bool = False
    """Print the result as JSON."""

    def run(self) -> int:
        """Search, and report the best."""
        with self.env("high") as env:
            history = self._search(env)
        found, single = best(history), history[0].score
        if self.best is not None:
            write_whole(self.best, to_text(found.design) + "\n")
        if self.json:
            return print_json(msgspec.to_builtins(found) | {"measured": len(history), "single": single})
        low, high = found.interval
        print(figure.text(found.design))
        print(
            f"best of {len(history)} workflows: {found.score:.0%} ({low:.0%} to {high:.0%}) of {found.episodes} "
            f"questions, ${found.usd:.4f} and {found.seconds:.1f} s each; a single agent: {single:.0%}. "
            "Measure it on other questions before you believe it."
        )
        return 0

    def _search(self, env: MASOrchestraEnv) -> list[WorkflowCandidate]:
        """Return the workflows evaluated, in their order."""
        budget = SearchBudget(self.candidates, self.budget)
        validation = Validation.drawn(env, self.questions, self.seed, self.split)
        options: dict[str, Any] = {"seed": self.seed, "max_agents": self.max_agents, "file": self.out}
        highest = 0.0
        with progress_bars() as progress:
            bar = progress.add_task(self.method, total=self.candidates, note="")

            def watch(candidate: WorkflowCandidate) -> None:
                nonlocal highest
                highest = max(highest, candidate.score)
                progress.update(bar, advance=1, note=f"best {highest:.0%}")

            return search(self.method, validation, budget, watch=watch, **options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_command(Command, given, "python -m examples.searches", "Search for a workflow.")


if __name__ == "__main__":
    sys.exit(main())
