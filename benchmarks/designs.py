"""Let scripted orchestrators design systems of agents for a weak and a strong model, and count what is solved.

    python benchmarks/designs.py            a minute of one core; writes benchmarks/results/designs.json

100 questions of each source (seeds 0 to 99 of the split `test`), by `python -m examples.designs run`.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from provenance import provenance

from examples.designs import main as command_line

SOURCES = ("Math", "MultiHopQA", "MASBenchDepth", "MASBenchParallel", "MASBenchRobustness")
MODELS = ("qwen2.5-7b", "gpt-oss-120b")
ORCHESTRATORS = ("single", "chain", "components", "moderator", "oracle")


@dataclass
class Benchmark:
    """Run designs."""

    episodes: int = 100
    """Questions of each source."""
    output: Path = Path(__file__).parent / "results" / "designs.json"
    """Where the numbers go."""


def main(benchmark: Benchmark) -> None:
    """Run the benchmark."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for source in SOURCES:
        for model in MODELS:
            for orchestrator in ORCHESTRATORS:
                words = ["run", "--source", source, "--model", model, "--orchestrator", orchestrator, "--json"]
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    command_line([*words, "--episodes", str(benchmark.episodes)])
                found.setdefault(source, {}).setdefault(model, {})[orchestrator] = json.loads(printed.getvalue())
    record = {**provenance(), "episodes": benchmark.episodes, "sources": found}
    benchmark.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
