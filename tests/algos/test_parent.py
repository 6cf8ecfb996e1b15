"""A training that a study started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import until

from toolorchestra.algos.hardware.parent import exit_with_parent

STARTER = """
import os, subprocess, sys
environment = {**os.environ, "TOOLORCHESTRA_PARENT": str(os.getpid())}
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment)
print(child.pid, flush=True)
child.wait()
"""
TRAINING = """
import signal
from toolorchestra.algos.hardware.parent import exit_with_parent
exit_with_parent()
signal.pause()
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
    try:
        until(lambda: not running(training), "the training ends")
    finally:
        if running(training):
            os.kill(training, signal.SIGKILL)


def test_a_training_on_its_own_runs_on() -> None:
    assert "TOOLORCHESTRA_PARENT" not in os.environ
    threads = threading.enumerate()
    exit_with_parent()
    assert threading.enumerate() == threads  # none waits for a parent
