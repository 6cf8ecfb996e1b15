"""Work that checks give to other processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from toolorchestra.toolscale.common.errors import OptionError


def packed_for_others(*work: Any) -> bytes:
    """Return what another process needs to work on an environment with these arguments.

    Raises:
        OptionError: An argument cannot be sent there.
    """
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise OptionError(
            f"The environment's arguments cannot be sent to another process ({error}): give names or folders."
        ) from None


def done_elsewhere(function: Callable[[], None], work: bytes, hash_seed: str) -> bytes:
    """Return what a function of a module writes to standard output in another process, given `work` at its input.

    Args:
        function: The function; it is imported there by its name.
        work: What it reads.
        hash_seed: The process's ``PYTHONHASHSEED``.

    Raises:
        RuntimeError: The other process failed.
    """
    name = function.__name__
    done = subprocess.run(
        [sys.executable, "-c", f"from {function.__module__} import {name}; {name}()"],
        input=work,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"The other process ended with code {done.returncode}: {' '.join(last)}")
    return done.stdout
