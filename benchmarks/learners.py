"""How benchmarks run a learner: in a process of its own, so that its time includes everything a user waits for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def run_learner(name: str, options: Sequence[str], *, quiet: bool = False) -> dict[str, float]:
    """Run a script of `algos/` to its end; return its ``seconds`` by the clock and ``cpu_seconds``.

    Raises:
        SystemExit: It failed.
    """
    script = Path(__file__).parent.parent / "algos" / f"{name}.py"
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, str(script), *options], stdout=subprocess.DEVNULL if quiet else None)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{name} {' '.join(options)} ended with status {os.waitstatus_to_exitcode(status)}.")
    seconds = time.perf_counter() - start
    return {"seconds": round(seconds, 1), "cpu_seconds": round(used.ru_utime + used.ru_stime, 1)}
