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

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import cli, file_of, provenance, read, save, write

import toolorchestra  # noqa: F401 (registers the environments)
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.registration import environment_ids, multiagent_ids
from toolorchestra.toolscale.domain_folder import builtin_domains


@dataclass
class Options:
    """Check environments."""

    only: tuple[str, ...] = ("",)  # what the ids of those to check begin with
    random_episodes: int = 1_000  # episodes of the random policy
    hostile: int | None = None  # hostile actions sent; None: 3,000, and 10,000 with `domains`
    new: bool = False  # leave out those of which there is a report
    domains: bool = False  # check the shipped domains under ToolOrchestra
    output: Path | None = None  # where the reports go; None: checks.json, and validation.json with `domains`


def ids() -> list[str]:
    """Return the ids of all environments that play shipped tasks."""
    return [*environment_ids(), *multiagent_ids()]


def main(options: Options) -> bool:
    return check_domains(options) if options.domains else check_all(options)


def check_all(options: Options) -> bool:
    """Check the environments, and add the reports to those that there are."""
    output, hostile = options.output or file_of("checks"), options.hostile or 3_000
    found: dict[str, Any] = read(output, {})
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
            "checks": report.results,
        }
        write(output, {one: found[one] for one in ids() if one in found})
    failed = [env_id for env_id, report in found.items() if not report["passed"]]
    print(f"{len(found) - len(failed)} of {len(found)} environments pass; failed: {', '.join(failed) or 'none'}")
    return bool(failed)


def check_domains(options: Options) -> bool:
    """Check the shipped domains."""
    reports = {}
    for name in builtin_domains():
        env_id = f"ToolOrchestra-{name.title()}-v0"
        hostile = options.hostile or 10_000
        reports[name] = check_environment(env_id, random_episodes=options.random_episodes, hostile=hostile)
        print(reports[name], flush=True)
    passed = {name: report.passed for name, report in reports.items()}
    results = {name: report.results for name, report in reports.items()}
    save(options.output or file_of("validation"), {"passed": passed, "reports": results})
    return not all(passed.values())


if __name__ == "__main__":
    cli(main)
