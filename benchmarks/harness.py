"""What benchmarks have in common: their command line, their records, tables as text, times, memory and trainings.

A script's `main` takes its options, as parameters or as a dataclass, and `cli` runs it by the command line. What most
scripts have means the same in all of them: ``--record`` writes benchmarks/results/SCRIPT.json, ``--output`` names
another file for it, ``--runs`` a folder to keep trainings in (otherwise a temporary one), and ``--quick`` is a look.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import re
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import tyro

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # for `examples`, which some benchmarks run
RESULTS = ROOT / "benchmarks" / "results"
FIELDS = ("command", "date", "commit", "uncommitted", "versions", "processor", "cores")
PACKAGES = ("toolorchestra", "gymnasium", "msgspec", "numpy", "torch", "transformers", "trl")
Rows = Iterable[Sequence[object]]


def cli(main: Callable[..., int | None]) -> None:
    """Run a script by its command line, with the text at its top as help, and exit with what its `main` returns."""
    sys.exit(tyro.cli(main, description=sys.modules["__main__"].__doc__, config=(tyro.conf.OmitArgPrefixes,)))


# ------------------------------------------------------------------------------------------------------------- records


def provenance(*packages: str) -> dict[str, Any]:
    """Return where a record comes from, under the names of `FIELDS`.

    ``command`` names temporary files by their names. ``date`` is the time in UTC. ``commit`` is that of the checkout
    when the script began; it is ``uncommitted`` if tracked files, other than records, differed from it. ``versions``
    are those of Python and of installed packages.

    Args:
        packages: The packages; what benchmarks depend on by default.
    """
    versions = {"python": platform.python_version()}
    for package in packages or PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *map(_portable, sys.argv[1:])]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": COMMIT,
        "uncommitted": UNCOMMITTED,
        "versions": versions,
        "processor": processor(),
        "cores": os.cpu_count(),
    }


def _portable(word: str) -> str:
    """Return a word of a command without the folder of temporary files, which is another one elsewhere."""
    return word.removeprefix(f"{tempfile.gettempdir()}/")


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def state(folder: Path) -> tuple[str, bool]:
    """Return the commit of a checkout, and whether tracked files other than records differ from it.

    Where there is no checkout, the commit is empty, and what ran is uncommitted.
    """

    def git(*words: str) -> str:
        done = subprocess.run(("git", "-C", str(folder), *words), capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    commit = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/results")
    return commit, not commit or bool(changed)


COMMIT, UNCOMMITTED = state(ROOT)
"""Of the code that was loaded: a long script may be followed by further commits before it writes its record."""


def file_of(name: str | Path) -> Path:
    """Return the file of a record: that of a name in benchmarks/results, or the file itself."""
    return name if isinstance(name, Path) else RESULTS / f"{name}.json"


def read(name: str | Path, otherwise: Any = None) -> Any:
    """Return a record; if there is none, what it is otherwise, unless that is None."""
    file = file_of(name)
    return otherwise if otherwise is not None and not file.exists() else json.loads(file.read_text(encoding="utf-8"))


def write(name: str | Path, record: Any) -> None:
    """Write a record whole, or not at all; structs become objects."""
    from toolorchestra.toolscale.common.writing import write_whole

    text = json.dumps(record, indent=1, ensure_ascii=False, default=msgspec.to_builtins)
    write_whole(file_of(name), text + "\n")


def save(name: str | Path, found: Mapping[str, Any], *packages: str) -> None:
    """Write what was found, and where it comes from."""
    write(name, {**provenance(*packages), **found})


def lines(file: Path) -> list[Any]:
    """Return what the lines of a file hold as JSON."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


# -------------------------------------------------------------------------------------------------------------- tables


def markdown(header: str, rows: Rows) -> str:
    """Return a table; a column whose title ends in ``:`` is aligned to the right."""
    titles = header.split("|")
    rule = ["--:" if title.endswith(":") else "---" for title in titles]
    shown = ["| " + " | ".join(title.rstrip(":") for title in titles) + " |", "|" + "|".join(rule) + "|"]
    shown += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(shown).replace("|  |", "| |") + "\n"


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, without the sign."""
    return f"{100 * share:.{digits}f}"


def interval(found: Mapping[str, float], digits: int, scale: float = 1) -> str:
    """Return a difference with its 95 % interval."""
    low, high = (f"{scale * found[end]:.{digits}f}" for end in ("low", "high"))
    return f"{scale * found['estimate']:+.{digits}f} [{low}, {high}]"


def change(before: float, after: float, digits: int = 1, scale: float = 100) -> str:
    """Return a value before and after; in percent, without the sign, if not scaled otherwise."""
    return f"{scale * before:.{digits}f} → {scale * after:.{digits}f}"


# ------------------------------------------------------------------------------------------------------------ measures


def micros(act: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the microseconds that an act takes: CPU time of this process, unless by another clock."""
    start = clock()
    act()
    return (clock() - start) * 1e6


def median(found: Sequence[Any]) -> Any:
    """Return the median of numbers, and of those with the same name in dictionaries."""
    if isinstance(found[0], dict):
        return {name: median([one[name] for one in found]) for name in found[0]}
    return statistics.median(found)


def rounded(value: Any, digits: int | None = 3) -> Any:
    """Return a value with its numbers rounded, in dictionaries too; without digits they become whole numbers."""
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    return round(value, digits) if isinstance(value, float) else value


def resident(field: str = "VmRSS", process: int | str = "self") -> int:
    """Return the bytes of a process's resident memory, or with ``VmHWM`` their peak; on Linux only."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# ------------------------------------------------------------------------------------------------------------ commands


def printed(command: Callable[[list[str]], int], *words: str) -> str:
    """Return what a command prints, in this process.

    Raises:
        SystemExit: It failed.
    """
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        status = command([*words])
    if status:
        raise SystemExit(f"{' '.join(words)} ended with status {status}.")
    return stream.getvalue()


def folder_for(runs: Path | None) -> Path:
    """Return the folder of the trainings: a temporary one, if none is given."""
    folder = runs or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def learn(learner: str, run: Path, *options: str, quiet: bool = False) -> dict[str, float]:
    """Train by a script of `algos/` in a process of its own, so that its time includes all that a user waits for.

    Returns:
        Its ``seconds`` by the clock, its ``cpu_seconds``, and the load of the machine before it.

    Raises:
        SystemExit: It failed.
    """
    script, load, start = ROOT / "algos" / f"{learner}.py", os.getloadavg()[0], time.perf_counter()
    command = [sys.executable, str(script), *options, "--output", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL if quiet else None)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{learner} {' '.join(options)} ended with status {os.waitstatus_to_exitcode(status)}.")
    spent = {"seconds": time.perf_counter() - start, "cpu_seconds": used.ru_utime + used.ru_stime}
    return {**rounded(spent, 1), "load_before": round(load, 2)}


def held_out(run: Path) -> dict[str, Any]:
    """Return what a training found out on held-out tasks."""
    found: dict[str, Any] = read(run / "heldout.json")
    return found
