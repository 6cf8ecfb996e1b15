"""Trainings that end with the process that started them, however that ends: `kill -9` of a study stops its training."""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT = "TOOLORCHESTRA_PARENT"
"""Environment variable with the id of the process that a training ends with."""


def exit_with_parent() -> None:
    """End this process when it is no longer a child of the process in `PARENT`; nothing is done without that."""
    if parent := os.environ.get(PARENT):
        threading.Thread(target=_wait, args=(int(parent),), name="parent", daemon=True).start()


def _wait(parent: int) -> None:
    while os.getppid() == parent:  # it is that of another process once the parent is gone
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
