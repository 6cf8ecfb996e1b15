"""Build a domain of your own, play it, and check that it is sound.

Run: python examples/your_own_domain.py [FOLDER]      (default: the bike hire beside this file)
"""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym

import toolorchestra
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.toolscale.domain_folder import load_domain


def main(folder: Path) -> None:
    domain = load_domain(folder)  # a folder that has not been built is built in memory
    print(domain)

    env = gym.make("ToolOrchestra-Custom-v0", domain=folder, render_mode="ansi")
    for name in ("random", "oracle"):
        play_episode(env, make_policy(name), seed=3)
        print(f"\n{name}:\n{env.render()}")

    report = toolorchestra.check_environment("ToolOrchestra-Custom-v0", domain=folder)
    print(f"\n{report}")
    if not report.passed:
        raise SystemExit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "bike_hire")
