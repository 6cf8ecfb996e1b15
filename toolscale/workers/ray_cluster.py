"""Units as tasks on a Ray cluster (extra ``ray``).

Every task has one processor, and what is counted over all workers is in an actor on the node of the command. They end
with the command, however it ends. Every node needs the same version of this library, the same files at the same paths
where options name files, and in the environment of ``ray start`` the keys of servers.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable
from importlib.metadata import version as installed_version
from itertools import islice
from typing import Any

from toolorchestra.toolscale.common.errors import OptionError, install_line
from toolorchestra.toolscale.workers import driver_calls
from toolorchestra.toolscale.workers.units import AHEAD, Unit, WorkerPool, outcome, packed, perform

_CALLS_AT_A_TIME = 64
"""Central calls answered at the same time; the others wait."""


class RayExecutor(WorkerPool):
    """An executor whose units are tasks on a Ray cluster; see `Executor`. Ray does those again whose worker ends.

    Args:
        workers: Number of units done at a time, each on one processor.
        address: Address of a running cluster; by default that in ``RAY_ADDRESS``, or else Ray is started here and
            ended with the executor.
        max_retries: How often a unit is done again after its worker ended over it.

    Raises:
        ImportError: Ray is not installed.
        OptionError: There is no cluster at the address, or it has fewer processors than workers.
    """

    def __init__(self, workers: int, *, address: str | None = None, max_retries: int = 2) -> None:
        super().__init__(workers, max_retries)
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
            self._perform = ray.remote(perform_on_node).options(num_cpus=1, max_retries=max_retries)
        except BaseException:
            self.close()
            raise

    def run(self, units: Iterable[Unit]) -> Generator[Any]:
        """Yield the results in the order of the units; an exception of a unit is raised when it is its turn.

        Raises:
            WorkerError: A unit ended its worker more than `max_retries` times.
            OptionError: A node has another version of the library.
        """
        coming, given = iter(units), (installed_version("toolorchestra"), self._central)
        jobs: deque[tuple[Unit, Any]] = deque()
        under_way: list[Any] = []
        try:
            while True:
                room = min(self.workers - len(under_way), AHEAD * self.workers - len(jobs))
                for unit in islice(coming, room):
                    under_way.append(self._perform.remote(*given, packed(unit)))
                    jobs.append((unit, under_way[-1]))
                if not jobs:
                    return
                if under_way:
                    _, under_way = self._ray.wait(under_way, num_returns=1)
                while jobs and jobs[0][1] not in under_way:
                    yield outcome(self._content(*jobs.popleft()))
        finally:
            for task in under_way:  # of a run that is not played to its end
                self._ray.cancel(task, force=True)

    def _content(self, unit: Unit, task: Any) -> bytes:
        """Return the outcome of a unit's task, which has ended."""
        try:
            content: bytes = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(cause := error.cause, OptionError):
                raise cause from None
            raise
        except self._ray.exceptions.RayError as error:
            why = f"{type(error).__name__}; `ray logs` shows what workers wrote, `ray status` what the cluster has"
            raise self._ended_again(unit, why) from None
        return content

    def close(self) -> None:
        """End all workers, and Ray if it was connected to here; nothing happens the second time."""
        if self._ray.is_initialized():
            if (place := self.__dict__.pop("_central", None)) is not None:
                self._ray.kill(place)
            if self._ours:
                self._ray.shutdown()


def perform_on_node(version: str, place: Any, payload: bytes) -> bytes:
    """Do a packed unit in a worker of Ray.

    Args:
        version: The version of the library that the command has.
        place: The actor of what must be in one place.
        payload: The unit.

    Raises:
        OptionError: The node has another version of the library.
    """
    import ray

    if version != (here := installed_version("toolorchestra")):
        raise OptionError(
            f"Expected toolorchestra {version} on every node of the cluster, {os.uname().nodename} has {here}. Install "
            "the same version on all nodes."
        )
    driver_calls.connect(lambda payload: ray.get(place.perform.remote(payload)))
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
