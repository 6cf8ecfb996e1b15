"""Where a record comes from: the command, the date, the commit, the versions of packages and the processor."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FIELDS = ("command", "date", "commit", "uncommitted", "versions", "processor", "cores")
sys.path.append(str(Path(__file__).parents[1]))  # for `examples`, which some benchmarks run
PACKAGES = ("toolorchestra", "gymnasium", "msgspec", "numpy", "torch", "transformers", "trl")


def provenance(*packages: str) -> dict[str, Any]:
    """Return where a record comes from, under the names of `FIELDS`.

    ``date`` is the time in UTC. ``commit`` is that of the checkout when the script began; it is ``uncommitted`` if
    tracked files, other than records, differed from it. ``versions`` are those of Python and of installed packages.

    Args:
        packages: The packages; what benchmarks depend on by default.
    """
    versions = {"python": platform.python_version()}
    for package in packages or PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "command": shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": COMMIT,
        "uncommitted": UNCOMMITTED,
        "versions": versions,
        "processor": processor(),
        "cores": os.cpu_count(),
    }


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


COMMIT, UNCOMMITTED = state(Path(__file__).parent)
"""Of the code that was loaded: a long script may be followed by further commits before it writes its record."""
