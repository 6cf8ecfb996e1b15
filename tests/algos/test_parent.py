"""A training that a study started ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

STARTER = """
import os, subprocess, sys
environment = {**os.environ, "TOOLORCHESTRA_PARENT": str(os.getpid())}
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment)
print(child.pid, flush=True)
child.wait()
"""
TRAINING = """
import time
from toolorchestra.algos.parent import end_with_parent
end_with_parent()
time.sleep(60)
"""


def running(process: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc; runs on Linux")
def test_a_training_ends_when_the_study_that_started_it_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER, TRAINING], stdout=subprocess.PIPE, text=True) as study:
        assert study.stdout is not None
        training = int(study.stdout.readline())
        assert running(training)
        study.kill()
    until = time.monotonic() + 30
    while running(training):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_training_on_its_own_runs_on() -> None:
    code = "from toolorchestra.algos.parent import end_with_parent; end_with_parent(); import time; time.sleep(0.2)"
    assert "TOOLORCHESTRA_PARENT" not in os.environ
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
