"""Measure how a training by GRPO with its default options begins on a CPU: its first line, its silences, its memory.

    python benchmarks/first_step.py --record                      the default, until its first step or for `minutes`
    python benchmarks/first_step.py --more="--max-turn-ids 256"   further options of the training

A model of Qwen3's kind with random weights, of four layers, and Qwen3's chat template, which thinks, is trained by
``toolorchestra train grpo --env ToolOrchestra-Restaurant-v0 --model PATH`` in a process whose address space is limited
to `limit` GiB (``ulimit -v``). A random model ends a turn by chance, after 2,000 tokens on average.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from provenance import provenance

RECORD = Path(__file__).parent / "results" / "first_step.json"


@dataclass
class Benchmark:
    """What is measured."""

    limit: float = 4.0
    """GiB of address space."""
    minutes: float = 30.0
    """Maximum of minutes; the training is ended then, or after its first step."""
    layers: int = 4
    """Layers of the model."""
    more: str = ""
    """Further options of the training, as on a command line."""
    record: bool = False
    """Write the numbers to ``benchmarks/results/first_step.json``, beside those of other options."""


def measure(benchmark: Benchmark) -> dict[str, Any]:
    """Train, and return what was seen meanwhile."""
    from toolorchestra.algos.options.smoke import make_tiny_model

    with TemporaryDirectory() as name:
        folder = Path(name)
        model = make_tiny_model(folder / "model", num_hidden_layers=benchmark.layers)
        template = files("trl").joinpath("chat_templates", "qwen3.jinja").read_text(encoding="utf-8")
        (model / "chat_template.jinja").write_text(template, encoding="utf-8")
        command = [sys.executable, "-m", "toolorchestra.cli", "train", "grpo", "--env", "ToolOrchestra-Restaurant-v0"]
        command += ["--model", str(model), "--output", str(folder / "run"), *shlex.split(benchmark.more)]
        return watch(command, folder / "run" / "metrics.jsonl", benchmark)


def watch(command: list[str], metrics: Path, benchmark: Benchmark) -> dict[str, Any]:
    """Run a training until its first step, and return when it said something and what it took."""
    size = round(benchmark.limit * 2**30)
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    shown: list[tuple[float, str]] = []
    step, peak = None, 0.0
    while time.monotonic() - began < 60 * benchmark.minutes and step is None:
        try:
            if (line := lines.get(timeout=0.5)) is None:
                process.wait()
                break
            if line.strip():
                shown.append((time.monotonic() - began, line.rstrip()))
        except queue.Empty:
            pass
        peak = max(peak, _peak(process.pid))
        step = first_step(metrics)
    seconds = time.monotonic() - began
    ended = process.poll()
    process.terminate()
    process.wait()
    reader.join()
    if not shown or (step is None and ended is not None):
        raise SystemExit(f"The training ended with {ended}:\n" + "\n".join(line for _, line in shown[-20:]))
    times = [0.0, *(when for when, _ in shown), seconds]
    return {
        "first_line_seconds": round(times[1], 1),
        "longest_silence_seconds": round(max(b - a for a, b in pairwise(times[1:])), 1),
        "first_step_seconds": None if step is None else round(seconds, 1),
        "watched_seconds": round(seconds, 1),
        "peak_gib": round(peak, 2),
        "step": step,
        "last_lines": [line for _, line in shown[-3:]],
    }


def first_step(metrics: Path) -> dict[str, Any] | None:
    """Return the metrics of the first step of the training, once they are written."""
    if not metrics.exists():
        return None
    for line in metrics.read_text(encoding="utf-8").splitlines():
        found: dict[str, Any] = json.loads(line)
        if found["kind"] == "train":
            return found
    return None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def _peak(pid: int) -> float:
    """Return the peak of a process's resident memory so far, in GiB; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 2**20 for line in status if line.startswith("VmHWM")), 0.0)


def main(benchmark: Benchmark) -> None:
    """Measure, print and record."""
    origin = provenance()  # of the code that is measured: a later commit is of other code
    found = measure(benchmark)
    print(json.dumps(found, indent=2))
    if benchmark.record:
        known = json.loads(RECORD.read_text(encoding="utf-8"))["runs"] if RECORD.exists() else {}
        name = benchmark.more or "default"
        load = round(os.getloadavg()[0], 1)
        known[name] = {**origin, "settings": asdict(benchmark), "load": load, **found}
        RECORD.write_text(json.dumps({"runs": known}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Benchmark, description=__doc__))
