"""Where a record comes from: the commit, the versions of packages and the processor."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def provenance(*packages: str) -> dict[str, Any]:
    """Return the commit, the versions of Python and of those packages that are installed, and the processor."""
    git = ("git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD")
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "commit": subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip(),
        "versions": versions,
        "processor": processor(),
    }


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
