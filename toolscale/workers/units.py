"""Units of work, the protocol of executors, and the executor that needs no other process."""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple, Protocol, Self

from toolorchestra.toolscale.common.errors import OptionError, ResumableError

AHEAD = 4
"""Units for each worker that may be done or under way beyond the oldest result still missing."""


class WorkerError(ResumableError):
    """A unit ends its workers again and again; what was recorded is kept."""


class Unit(NamedTuple):
    """A part of the work: a function and its arguments.

    Attributes:
        identity: What the unit is, for messages: e.g. the environment, the policy and the seeds.
        function: A function of a module, which workers import by its name. Its result must depend on the arguments
            alone, and on what they name (weights of a policy) as long as that stays the same: a unit whose worker ends
            is done again.
        arguments: Its arguments; they and the result must be picklable.
    """

    identity: tuple[object, ...]
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.identity))


class Executor(Protocol):
    """Does units and yields their results, one for each unit, in the order of the units.

    Use it in a ``with`` block: its end frees the workers, also those at work. Only a bounded number of units is taken
    ahead of the results, so units can be generated lazily and without end.

    Attributes:
        workers: Number of units done at a time.
    """

    @property
    def workers(self) -> int: ...  # noqa: D102  (documented above)

    def run(self, units: Iterable[Unit]) -> Generator[Any]:
        """Yield the results; an exception of a unit is raised when it is its turn."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class WorkerPool(ABC):
    """The base of executors whose workers are other processes.

    Args:
        workers: Number of units done at a time.
        max_retries: How often a unit is done again after its worker ended over it.

    Raises:
        OptionError: There is no worker.
    """

    def __init__(self, workers: int, max_retries: int) -> None:
        if workers < 1 or max_retries < 0:
            raise OptionError(f"Expected workers >= 1 and max_retries >= 0, got {workers} and {max_retries}.")
        self.workers, self.max_retries = workers, max_retries

    def _ended_again(self, unit: Unit, why: str) -> WorkerError:
        """Return the error of a unit that was done again as often as may be; `why` says where to look."""
        return WorkerError(
            f"The worker that did `{unit}` ended {self.max_retries + 1} times ({why}). What was recorded is kept.",
            resumable=True,
        )

    @abstractmethod
    def run(self, units: Iterable[Unit]) -> Generator[Any]:
        """Yield the results; see `Executor`."""

    @abstractmethod
    def close(self) -> None:
        """End all workers; nothing happens the second time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InProcess:
    """The executor that does one unit after another in this process.

    >>> list(InProcess().run(Unit(("power", n), pow, (2, n)) for n in range(4)))
    [1, 2, 4, 8]
    """

    workers = 1

    def run(self, units: Iterable[Unit]) -> Generator[Any]:
        """Yield the results."""
        for unit in units:
            yield unit.function(*unit.arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def packed(unit: Unit) -> bytes:
    """Return what `perform` takes: the function and its arguments."""
    return pickle.dumps((unit.function, unit.arguments))


def perform(payload: bytes) -> bytes:
    """Do a packed unit, in a worker, and return its outcome for `outcome`: a result or an exception."""
    try:
        function, arguments = pickle.loads(payload)
        return pickle.dumps((function(*arguments), None))
    except Exception as error:
        error.add_note(f"In a worker:\n{''.join(traceback.format_tb(error.__traceback__)).rstrip()}")
        return failure(error)
    except SystemExit as end:  # which would end the command, as if it had come to its end
        return failure(RuntimeError(f"What a worker did called exit({end.code!r})."))


def failure(error: Exception) -> bytes:
    """Return the outcome that raises an exception."""
    try:
        content = pickle.dumps((None, error))
        pickle.loads(content)
    except Exception:  # an exception that cannot be sent as it is
        content = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    return content


def outcome(content: bytes) -> Any:
    """Return the result that `perform` packed, or raise the exception."""
    result, error = pickle.loads(content)
    if error is not None:
        raise error
    return result
