"""Record how TRL's own trainers learn an environment: `examples/trl_grpo.py`, from one seed.

python benchmarks/grpo_trl.py --record             # about ten minutes on one core
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness import cli, save

from examples.trl_grpo import DOMAIN, learned


@dataclass
class Options:
    """Learn, and print the mean reward of each step."""

    sft_steps: int = 300
    grpo_steps: int = 40
    record: bool = False  # write benchmarks/results/grpo_trl.json
    output: Path | None = None  # another file for the record


def main(options: Options) -> None:
    """Learn, print and record."""
    rewards = [round(reward, 4) for reward in learned(options.sft_steps, options.grpo_steps)]
    print(*rewards)
    if options.record or options.output:
        found = {"domain": Path(DOMAIN).name, "seed": 0, "sft_steps": options.sft_steps, "rewards": rewards}
        save(options.output or "grpo_trl", found, "torch", "transformers", "trl")


if __name__ == "__main__":
    cli(main)
