"""Workers as actors on a Ray cluster (extra ``ray``).

Every worker is an actor with one processor, and what is counted over all workers is in another, on the node of the
command. The actors end with the command, however it ends. Every node needs the same version of this library, the same
files at the same paths where options name files, and in the environment of ``ray start`` the keys of servers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from typing import Any

from toolorchestra.toolscale.errors import OptionError, install_line
from toolorchestra.toolscale.workers import central
from toolorchestra.toolscale.workers.pool import Event, WorkerPool
from toolorchestra.toolscale.workers.units import perform

_CALLS_AT_A_TIME = 64
"""Central calls answered at the same time; the others wait."""


class _Actor:
    """An actor, and the outcomes that it owes, the oldest first; the first is its start."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.owed: list[Any] = [handle.start.remote()]
        self.ready = False


class RayExecutor(WorkerPool[_Actor]):
    """An executor with actors on a Ray cluster; see `WorkerPool`.

    Args:
        workers: Number of actors, each with one processor.
        address: Address of a running cluster; by default that in ``RAY_ADDRESS``, or else Ray is started here and
            ended with the executor.
        max_retries: How often a unit is done again after its actor ended over it.

    Raises:
        ImportError: Ray is not installed.
        OptionError: There is no cluster at the address, or it has fewer processors than workers.
    """

    def __init__(self, workers: int, *, address: str | None = None, max_retries: int = 2) -> None:
        super().__init__(workers, max_retries=max_retries)
        self._ray = ray = import_ray()
        self._ours = not ray.is_initialized()
        if self._ours:
            connect(ray, workers, address)
        try:
            here = int(ray.cluster_resources().get("CPU", 0))
            if here < workers:
                raise OptionError(f"Expected a Ray cluster of at least {workers} processors, it has {here}.")
            node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                ray.get_runtime_context().get_node_id(), soft=False
            )
            self._central = (
                ray.remote(RayCentral)
                .options(num_cpus=0, max_concurrency=_CALLS_AT_A_TIME, scheduling_strategy=node)
                .remote()
            )
            self._worker = ray.remote(RayWorker).options(num_cpus=1, max_restarts=0)
        except BaseException:
            self.close()
            raise

    def _start(self) -> _Actor:
        return _Actor(self._worker.remote(installed_version("toolorchestra"), self._central))

    def _give(self, worker: _Actor, payload: bytes) -> None:
        worker.owed.append(worker.handle.perform.remote(payload))

    def _news(self, workers: Sequence[_Actor], timeout: float) -> list[Event[_Actor]]:
        by_outcome = {worker.owed[0]: worker for worker in workers if worker.owed}
        refs = list(by_outcome)
        found, _ = self._ray.wait(refs, num_returns=1, timeout=timeout) if refs else ([], [])
        if found:  # and all others that are there, without waiting
            found, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        return [self._read(by_outcome[ref]) for ref in found]

    def _read(self, worker: _Actor) -> Event[_Actor]:
        try:
            content = self._ray.get(worker.owed.pop(0))
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError):
            return worker, "ended", b""
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(cause := error.cause, OptionError):
                raise cause from None
            raise
        if worker.ready:
            return worker, "done", content
        worker.ready = True
        return worker, "ready", b""

    def _stop(self, worker: _Actor) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(worker.handle)

    def _why(self) -> str:
        return "`ray logs actor` shows what it wrote, `ray status` what the cluster has"

    def close(self) -> None:
        """End all workers, and Ray if it was connected to here; nothing happens the second time."""
        if self._ray.is_initialized():
            super().close()
            if (place := self.__dict__.pop("_central", None)) is not None:
                self._ray.kill(place)
            if self._ours:
                self._ray.shutdown()


class RayWorker:
    """The actor that does units; made with the version of the library that the command has, and the central actor."""

    def __init__(self, version: str, place: Any) -> None:
        import ray

        self._wrong = version if version != installed_version("toolorchestra") else None
        central.connect(lambda payload: ray.get(place.perform.remote(payload)))

    def start(self) -> bytes:
        """Return once the actor is ready; another version of the library raises `OptionError`."""
        if self._wrong:
            node = os.uname().nodename
            raise OptionError(
                f"Expected toolorchestra {self._wrong} on every node of the cluster, {node} has "
                f"{installed_version('toolorchestra')}. Install "
                "the same version on all nodes."
            )
        return b""

    def perform(self, payload: bytes) -> bytes:
        """Do a packed unit."""
        return perform(payload)


class RayCentral:
    """The actor that runs what must be in one place for all workers."""

    def perform(self, payload: bytes) -> bytes:
        """Do a packed unit."""
        return perform(payload)


def import_ray() -> Any:
    """Import Ray.

    Raises:
        ImportError: It is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anyone
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what newer versions do by default
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ImportError(f"The executor `ray` needs Ray: {install_line('ray')} ({error})") from None
    return ray


def connect(ray: Any, workers: int, address: str | None) -> None:
    """Connect to a cluster, or start Ray on this machine for so many workers."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "warning", "configure_logging": False}
    if not (address or os.environ.get("RAY_ADDRESS")):
        options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(**({"address": address} | options))
    except (ConnectionError, ValueError) as error:
        raise OptionError(
            f"Expected a Ray cluster at {address or os.environ.get('RAY_ADDRESS')}, cannot connect: "
            f"{str(error).splitlines()[0]}. Start one with: ray start --head"
        ) from None
