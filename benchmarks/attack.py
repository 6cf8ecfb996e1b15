"""Attack the library in every way there is, and print what was tried, what held and what took longest.

    python benchmarks/attack.py                     the whole campaign: about an hour on two cores
    python benchmarks/attack.py --scale 0.001       a thousandth of it, within minutes
    python benchmarks/attack.py --parts parsers sandboxes
    python benchmarks/attack.py --record            and write down what was found

The parts:

- *grading*: hostile answers and expressions for graders and calculators (`graders.py`);
- *actions*: hostile actions on every environment of every protocol, and on one domain at length (`hostile.py`);
- *parsers*: long texts for everything that reads what a model writes (`parsers.py`);
- *sandboxes*: programs that try to get out of every sandbox that this machine has (`tests/envs/tools/sandbox`);
- *servers*: model servers that fail in every way (`faulty_servers.py`);
- *kills*: runs that are killed at random moments and continued (`kills.py`);
- *disk*: commands that write to a disk that is full, or where they may not (`disk_full.py`).

A part is tried in slices, so many at the same time as there are `--workers`. `--record` writes the results down after
each slice and goes on with those that the record lacks, so a campaign that was interrupted is continued by the same
command; delete the record to begin anew. Kills of the whole campaign are those that `kills.py` has recorded, and as
many more as are missing.

The exit status is 1 if something did not hold, and 2 if a part could not be run, which is said beside it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from campaign import Part, merged
from provenance import provenance

from toolorchestra.toolscale.common.writing import write_whole

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "attack.json"
SANDBOX_TESTS = "tests/envs/tools/sandbox"
TEXTS, ACTIONS, ACTIONS_AT_LENGTH, CHUNK, KILLS = 1_000_000, 5_000, 100_000, 1_000, 50
CHUNKS = 20
"""Chunks of texts in a slice."""
PARSER_SLICES = 20
AT_LENGTH = "one environment at length"


class Kind(NamedTuple):
    """A kind of attack: the names of its slices at a scale, and what tries one of them."""

    slices: Callable[[float], Sequence[str]]
    attack: Callable[[str, float], list[Part]]


def text_seeds(scale: float) -> range:
    """Return the seeds of the chunks of texts."""
    return range(max(1, round(TEXTS * scale / CHUNK)))


def grading(first: str, scale: float) -> list[Part]:
    """Grade hostile answers and compute hostile expressions; a chunk that does not hold ends at its first fault."""
    graders = importlib.import_module("graders")
    part = Part("grading: answers and expressions")
    for seed in text_seeds(scale)[int(first) :][:CHUNKS]:
        try:
            _, slowest = graders.attack(CHUNK, seed)
        except AssertionError as error:
            part.note(f"{CHUNK:,} texts of seed {seed}", 0.0, str(error))
            continue
        seconds, text = max(slow[0] for slow in slowest.values())
        part.note(text, seconds)
        part.tried, part.held = part.tried + CHUNK - 1, part.held + CHUNK - 1
    return [part]


def actions(where: str, scale: float) -> list[Part]:
    """Send hostile actions to an environment."""
    from toolorchestra.envs.checks.environment import check_environment

    start = time.process_time()
    if where == AT_LENGTH:
        hostile = importlib.import_module("hostile")
        part, count, fault = Part("actions: at length"), max(100, round(ACTIONS_AT_LENGTH * scale)), None
        try:
            hostile.attack(hostile.load_domain("restaurant"), count, 0)
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
    else:
        part, count = Part(f"actions: {where.partition('-')[0]}"), max(20, round(ACTIONS * scale))
        report = check_environment(where, checks=["hostile"], hostile=count)
        fault = None if report.passed else str(report)
    part.note(f"{count:,} actions to {where}", time.process_time() - start, fault)
    part.tried, part.held = part.tried + count - 1, part.held + (count - 1) * (fault is None)
    return [part]


def parsers(start: str, scale: float) -> list[Part]:
    """Give every parser long texts."""
    every = max(1, round(min(0.03 / scale, 40)))
    parts: list[Part] = importlib.import_module("parsers").campaign(
        every=every * PARSER_SLICES, start=every * int(start)
    )
    return parts


def sandboxes(_: str, scale: float) -> list[Part]:
    """Run the programs of the tests of the sandboxes, each on every backend, whatever the scale."""
    del scale
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", SANDBOX_TESTS]
        command.append(f"--junitxml={report}")
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            return [Part("sandboxes", skipped=f"pytest did not run: {(done.stdout + done.stderr)[-300:]}")]
        tests = list(ElementTree.parse(report).iter("testcase"))
    parts = {name: Part(f"sandboxes: {name}") for name in ("docker", "bubblewrap", "process", "all")}
    for test in tests:
        name = test.get("name", "")
        part = parts[next((backend for backend in parts if f"[{backend}" in name or f"-{backend}" in name), "all")]
        if (skipped := test.find("skipped")) is not None:
            part.skipped = skipped.get("message", "")[:300]
            continue
        faults = [found.get("message", "")[:300] for kind in ("failure", "error") for found in test.iter(kind)]
        part.note(name, float(test.get("time", 0)), faults[0] if faults else None)
    return list(parts.values())


def kills(_: str, scale: float) -> list[Part]:
    """Kill runs of every kind, in a process that has no threads before it forks."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(__file__).parent / "results" / "kills.json" if scale == 1 else Path(folder) / "kills.json"
        command = [sys.executable, str(Path(__file__).with_name("kills.py")), "--record", "--output", str(report)]
        command += ["--kills", str(max(1, round(KILLS * scale)))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            return [Part("kills", skipped=f"kills.py did not run: {(done.stdout + done.stderr)[-300:]}")]
        found = json.loads(report.read_text())
    parts = []
    for kind, seeds in found.items():
        parts.append(part := Part(f"kills: {kind}"))
        for run in seeds.values():
            fault = run.get("failed")
            if fault is None and (run["differing"] or run["stuck"]):
                fault = f"{run['differing']} of {run['runs']} runs ended otherwise, {run['stuck']} did not end"
            part.note(f"{run.get('kills', 0)} kills", run.get("seconds", 0.0), fault)
            more = max(0, run.get("kills", 0) - 1)
            part.tried, part.held = part.tried + more, part.held + more * (fault is None)
    return parts


def elsewhere(module: str) -> Kind:
    """Return the kind that a script of its own tries, whatever the scale."""

    def attack(_: str, scale: float) -> list[Part]:
        del scale
        return list(importlib.import_module(module).campaign())

    return Kind(whole, attack)


def whole(scale: float) -> Sequence[str]:
    """Return the slices of what is tried at once."""
    del scale
    return ("whole",)


def environments(scale: float) -> Sequence[str]:
    """Return the ids of the environments that actions are sent to."""
    del scale
    return [*importlib.import_module("checks").ids(), AT_LENGTH]


KINDS = {
    "kills": Kind(whole, kills),  # first, since most of the time they wait
    "servers": elsewhere("faulty_servers"),
    "disk": elsewhere("disk_full"),
    "sandboxes": Kind(whole, sandboxes),
    "actions": Kind(environments, actions),
    "grading": Kind(lambda scale: [str(first) for first in text_seeds(scale)[::CHUNKS]], grading),
    "parsers": Kind(lambda scale: [str(start) for start in range(PARSER_SLICES)], parsers),
}


def attack(kind: str, part: str, scale: float) -> dict[str, Any]:
    """Try a slice of a kind, and return what is recorded of it."""
    start = time.perf_counter()
    parts = [vars(found) for found in KINDS[kind].attack(part, scale)]
    return {"commit": provenance()["commit"], "seconds": round(time.perf_counter() - start, 1), "parts": parts}


def line(part: Part) -> str:
    """Return a part as a line of the table."""
    if not part.tried:
        return f"{part.name:36}{'not run':>10}  {part.skipped}"
    shown = f"{part.name:36}{part.tried:>10,}{part.held:>10,}{part.slowest:>9.2f} s  {part.slowest_is[:60]!r}"
    return f"{shown}  (partly skipped: {part.skipped})" if part.skipped else shown


def total(slices: dict[str, Any]) -> list[Part]:
    """Return the parts of all slices, those of a kind together."""
    return merged(Part(**part) for found in slices.values() for part in found["parts"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=list(KINDS), default=list(KINDS), help="which to run")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the texts and actions to try")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="slices tried at the same time")
    parser.add_argument("--record", action="store_true", help="add the results to the output")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"a JSON file; {RESULTS.name} by default")
    given = parser.parse_args()
    if not 0 < given.scale <= 1:
        parser.error(f"--scale: expected more than 0 and at most 1, got {given.scale}.")
    if given.workers < 1:
        parser.error(f"--workers: expected at least 1, got {given.workers}.")
    slices: dict[str, Any] = {}
    if given.record and given.output.exists():
        record = json.loads(given.output.read_text(encoding="utf-8"))
        if record.get("scale") != given.scale or "slices" not in record:
            parser.error(
                f"{given.output}: expected slices of --scale {given.scale}, found {len(record.get('slices', ()))} of "
                f"--scale {record.get('scale')}; delete it to begin anew."
            )
        slices = record["slices"]
    named = {f"{kind}: {part}": (kind, part) for kind in given.parts for part in KINDS[kind].slices(given.scale)}
    missing = [name for name in named if name not in slices]
    with ProcessPoolExecutor(given.workers, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(attack, *named[name], given.scale): name for name in missing}
        for number, done in enumerate(as_completed(running), 1):
            name, found = running[done], done.result()
            slices[name] = found
            print(f"{number} of {len(missing)} slices: {name}, {found['seconds']:.0f} s", file=sys.stderr, flush=True)
            for fault in (fault for part in found["parts"] for fault in part["faults"]):
                print(f"    {fault}", file=sys.stderr, flush=True)
            if given.record:
                slices = {one: slices[one] for one in sorted(slices, key=[*named, *slices].index)}
                parts = [vars(part) for part in total(slices)]
                content = {**provenance(), "scale": given.scale, "parts": parts, "slices": slices}
                write_whole(given.output, json.dumps(content, indent=1) + "\n")
    found = total({name: slices[name] for name in named})
    print(f"{'part':36}{'tried':>10}{'held':>10}{'slowest':>11}")
    for part in found:
        print(line(part))
    whole_campaign = Part("all")
    for part in found:
        whole_campaign.add(part)
    print(line(whole_campaign))
    return 1 if whole_campaign.held < whole_campaign.tried else 2 if any(not part.tried for part in found) else 0


if __name__ == "__main__":
    sys.exit(main())
