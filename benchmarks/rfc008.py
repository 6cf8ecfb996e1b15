"""Audit every environment of the library by the checks of OpenEnv's RFC 008, and record the reports.

    python benchmarks/rfc008.py                              all of them: most of an hour on one core
    python benchmarks/rfc008.py --only MASOrchestra ParaManager-Math    those whose ids begin so
    python benchmarks/rfc008.py --others                     those of examples/audit, which need their packages

Reports are added to benchmarks/results/rfc008.json as they come (of others to rfc008_others.json), in place of earlier
ones of the same name. Of each check there is the status; of those that failed, and of the two numbers on adversaries,
what was found. Those of several agents have the options with which no program of theirs needs a sandbox.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

from checks import ids
from harness import ROOT, cli, file_of, provenance, read, write

from toolorchestra.envs.checks.audit.report import AuditReport, audit_environment
from toolorchestra.envs.registration import is_multiagent

NUMBERS = ("statistical.adversarial_floor", "statistical.gameability_gap")
OTHERS: dict[str, dict[str, Any]] = {
    "others:guess_the_number": {"reward_range": (-0.1, 1.0)},
    "others:letter_counting": {},
    "others:TextWorldGame": {},
    "others:CoinCollector": {"oracle": "others:CoinOracle"},
}


@dataclass
class Options:
    """Audit environments."""

    only: tuple[str, ...] = ("",)  # what the ids of those to audit begin with
    episodes: int | None = None  # of each adversary; None: one for each task of the split test
    others: bool = False  # audit those of examples/audit
    new: bool = False  # leave out those of which there is a report


def summary(report: AuditReport, seconds: float) -> dict[str, Any]:
    """Return what is recorded of an audit."""
    told = {one.check_id: one for one in report.results if one.status in ("fail", "error") or one.check_id in NUMBERS}
    return {
        "verdict": report.verdict,
        "episodes": report.episodes,
        "options": report.options,
        "reward_range": list(report.reward_range),
        "seconds": round(seconds),
        "statuses": {one.check_id: one.status for one in report.results},
        "measured": {name: told[name].measured for name in NUMBERS},
        "evidence": {name: list(one.evidence) for name, one in told.items()},
    }


def audited(name: str, options: Options) -> dict[str, Any]:
    """Audit one environment."""
    began = time.process_time()
    made = {"python": "simulated"} if is_multiagent(name) and name.startswith(("MSARL", "TMATR")) else {}
    report = audit_environment(name, made, episodes=options.episodes, **OTHERS.get(name, {}))
    print(name, report.verdict, dict(report.counts), flush=True)
    for one in report.results:
        if one.status in ("fail", "error"):
            print("   ", one.check_id, *one.evidence[:1], flush=True)
    packages = ("gem-llm", "reasoning-gym", "textworld", "textworld-express") if name in OTHERS else ()
    own = ("toolorchestra", "gymnasium", "pettingzoo", "msgspec", "numpy")
    return {**provenance(*own, *packages), **summary(report, time.process_time() - began)}


def main(options: Options) -> bool:
    output = file_of("rfc008_others" if options.others else "rfc008")
    if options.others:
        sys.path.insert(0, str(ROOT / "examples" / "audit"))
    known = list(OTHERS) if options.others else ids()
    found: dict[str, Any] = read(output, {})
    for name in known:
        if name.startswith(options.only) and not (options.new and name in found):
            found[name] = audited(name, options)
            write(output, {one: found[one] for one in known if one in found})
    failed = [name for name, report in found.items() if report["verdict"] == "fail"]
    print(f"{len(found) - len(failed)} of {len(found)} pass; a check fails: {', '.join(failed) or 'none'}")
    return False


if __name__ == "__main__":
    cli(main)
