"""Run `check_environment` on every environment of the library, one after the other, and record the reports.

    python benchmarks/checks.py                                      all of them: some hours on one core
    python benchmarks/checks.py --only MASOrchestra ParaManager-Math  those whose ids begin so
    python benchmarks/checks.py --random-episodes 200 --hostile 500  all checks, with fewer episodes
    python benchmarks/checks.py --domains                            the shipped domains, 10,000 hostile actions each

Reports are added to benchmarks/results/checks.json as they come, in place of earlier ones of the same id, each with the
numbers of episodes that it was made with; the exit code is 1 if one of all reports there is failed. Environments called
``Custom`` play a file of one's own and are left out. Those of the domains are written to validation.json, all at once.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import tyro
from provenance import provenance

import toolorchestra  # noqa: F401 (registers the environments)
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.registration import multiagent_ids
from toolorchestra.toolscale.domain_folder import builtin_domains

PROTOCOLS = ("ToolOrchestra", "ParaManager", "MASOrchestra")
RESULTS = Path(__file__).parent / "results"


@dataclass
class Options:
    """Check environments."""

    only: tuple[str, ...] = ("",)
    """What the ids of those to check begin with."""
    random_episodes: int = 1_000
    """Episodes of the random policy."""
    hostile: int | None = None
    """Hostile actions sent; None: 3,000, and 10,000 with `domains`."""
    new: bool = False
    """Leave out those of which there is a report."""
    domains: bool = False
    """Check the shipped domains under ToolOrchestra."""
    output: Path | None = None
    """Where the reports go; None: checks.json, and validation.json with `domains`."""


def ids() -> list[str]:
    """Return the ids of all environments that play shipped tasks."""
    single = [one for one in gymnasium.registry if one.partition("-")[0] in PROTOCOLS]
    return [one for one in (*single, *multiagent_ids()) if "-Custom-" not in one]


def main(options: Options) -> int:
    return check_domains(options) if options.domains else check_all(options)


def check_all(options: Options) -> int:
    """Check the environments, and add the reports to those that there are."""
    output, hostile = options.output or RESULTS / "checks.json", options.hostile or 3_000
    found: dict[str, Any] = msgspec.json.decode(output.read_bytes()) if output.exists() else {}
    for env_id in ids():
        if not env_id.startswith(options.only) or (options.new and env_id in found):
            continue
        began = time.process_time()
        report = check_environment(env_id, random_episodes=options.random_episodes, hostile=hostile)
        print(report, flush=True)
        found[env_id] = {
            **provenance(),
            "passed": report.passed,
            "random_episodes": options.random_episodes,
            "hostile": hostile,
            "seconds": round(time.process_time() - began),
            "checks": [msgspec.to_builtins(result) for result in report.results],
        }
        ordered = {one: found[one] for one in ids() if one in found}
        output.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    failed = [env_id for env_id, report in found.items() if not report["passed"]]
    print(f"{len(found) - len(failed)} of {len(found)} environments pass; failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


def check_domains(options: Options) -> int:
    """Check the shipped domains."""
    reports = {}
    for name in builtin_domains():
        env_id = f"ToolOrchestra-{name.title()}-v0"
        hostile = options.hostile or 10_000
        reports[name] = check_environment(env_id, random_episodes=options.random_episodes, hostile=hostile)
        print(reports[name], flush=True)
    content = {
        **provenance(),
        "passed": {name: report.passed for name, report in reports.items()},
        "reports": {name: report.results for name, report in reports.items()},
    }
    output = options.output or RESULTS / "validation.json"
    output.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    return int(not all(report.passed for report in reports.values()))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
