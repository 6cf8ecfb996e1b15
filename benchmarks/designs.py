"""Let scripted orchestrators design systems of agents for a weak and a strong model, and count what is solved.

    python benchmarks/designs.py            a minute of one core; writes benchmarks/results/designs.json

100 questions of each source (seeds 0 to 99 of the split `test`), by `python -m examples.designs run`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import RESULTS, cli, printed, save

from examples.designs import main as command_line

SOURCES = ("Math", "MultiHopQA", "MASBenchDepth", "MASBenchParallel", "MASBenchRobustness")
MODELS = ("qwen2.5-7b", "gpt-oss-120b")
ORCHESTRATORS = ("single", "chain", "components", "moderator", "oracle")


def main(episodes: int = 100, output: Path = RESULTS / "designs.json") -> None:
    def run(*words: str) -> Any:
        return json.loads(printed(command_line, "run", *words, "--json", "--episodes", str(episodes)))

    found = {
        source: {
            model: {name: run("--source", source, "--model", model, "--orchestrator", name) for name in ORCHESTRATORS}
            for model in MODELS
        }
        for source in SOURCES
    }
    save(output, {"episodes": episodes, "sources": found})


if __name__ == "__main__":
    cli(main)
