"""Making an executor by its name."""

from __future__ import annotations

from typing import Literal

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.workers.units import Executor, InProcess

ExecutorName = Literal["process", "ray"]


def make_executor(name: ExecutorName = "process", workers: int = 1, ray_address: str | None = None) -> Executor:
    """Return an executor.

    Args:
        name: ``process`` for processes on this machine, ``ray`` for tasks on a Ray cluster.
        workers: Number of workers; one process is this one.
        ray_address: Address of a running cluster (``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``); without it, that in
            the variable ``RAY_ADDRESS``, or else Ray is started on this machine.

    Raises:
        OptionError: There is no worker, or the cluster has too few processors.
        ImportError: Ray is not installed.
    """
    if workers < 1:
        raise OptionError(f"Expected at least one worker, got {workers}.")
    if name == "ray":
        from toolorchestra.toolscale.workers.ray_cluster import RayExecutor

        return RayExecutor(workers, address=ray_address)
    if ray_address is not None:
        raise OptionError(f"A Ray address ({ray_address}) is for the executor `ray`, got `{name}`.")
    if workers == 1:
        return InProcess()
    from toolorchestra.toolscale.workers.processes import ProcessExecutor

    return ProcessExecutor(workers)
