"""The error tree of the library.

Every message says what was expected, what was found and how to fix it::

    ToolOrchestraError
    ├── DomainError          a domain folder is wrong (file, key path, expected, actual, remedy)
    │   └── CatalogError     a catalogue of experts is (agents.catalog)
    ├── UnknownNameError     an unknown id, name or option; suggests the nearest known one
    ├── TaskError            a task cannot be posed or its reference trajectory does not run
    ├── OptionError          an option has a wrong value or contradicts another
    ├── ArgumentError        arguments do not fit a tool (toolscale.tools.tool; becomes a call's PARSE_ERR)
    ├── OutputError          a file or folder cannot be written: no room, no permission, not the place for it
    │   └── InUseError       another process writes it
    ├── ResumableError       the same command may go on from what was saved
    │   ├── SynthesisError   a domain could not be synthesised to its end
    │   ├── SamplerError     the server that generates for a learner failed for good (algos.rollout.vllm_server)
    │   ├── AppendingError   an append-only file is not what it should be (toolscale.common.append_only)
    │   └── WorkerError      worker processes end again and again (toolscale.workers)
    ├── TrainingError        a training run ended before its last step
    ├── EvaluationError      too many episodes of an evaluation were not judged (envs.records.unjudged)
    ├── AgentError           an agent of yours raised an exception; keeps the episode (envs.bridges.any_agent)
    ├── SandboxError         a sandbox could not run a program (that the program failed is a result)
    └── ExpertError          a model endpoint failed for good (after retries)
        └── BatchError       some requests of a batch did; keeps the other completions (agents.chat)

Failures *inside* an episode (a call that errs, a malformed message) are never exceptions: they are
call statuses and episode outcomes, because a policy must be able to learn from them. Whose failure it was, the
policy's or that of what the episode runs on, is decided by `is_outage`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class ToolOrchestraError(Exception):
    """Base of every error that this library raises on purpose. All of them can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:  # the constructors take other arguments than `args`
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[ToolOrchestraError], args: tuple[Any, ...]) -> ToolOrchestraError:
    error = kind.__new__(kind)
    error.args = args
    return error


class DomainError(ToolOrchestraError):
    """A domain's files do not describe a valid domain.

    The message begins with the file and the key path in it (``tools.get_order.parameters.date``), and ends with the
    remedy.
    """

    def __init__(self, message: str, *, file: Path | str | None = None, path: str = "", remedy: str = "") -> None:
        where = ": ".join(str(part) for part in (file, path) if part)
        text = f"{where}: {message}" if where else message
        super().__init__(f"{text} {remedy}".strip() if remedy else text)
        self.message, self.file, self.path, self.remedy = message, file, path, remedy


class UnknownNameError(ToolOrchestraError, KeyError):
    """A name that nothing is known by; the message suggests the nearest known names.

    >>> print(UnknownNameError("tool", "get_ordr", ["get_order", "get_dish"]))
    Unknown tool 'get_ordr'. Did you mean 'get_order'? Known: get_dish, get_order.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str], limit: int = 30) -> None:
        super().__init__(unknown_name(kind, name, known, limit))

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0])


class TaskError(ToolOrchestraError):
    """A task cannot be posed, or its reference trajectory does not run."""


class OptionError(ToolOrchestraError, ValueError):
    """An option has a value that cannot be used, or two options contradict each other."""


class ExpertError(ToolOrchestraError):
    """A model endpoint failed for good: retries, timeouts or budget are spent.

    Attributes:
        outage: Whether that is the fault of the endpoint; False where the request is to blame, which it may have
            refused because it is too long.
    """

    def __init__(self, message: str, *, outage: bool = True) -> None:
        super().__init__(message)
        self.outage = outage


class SandboxError(ToolOrchestraError):
    """A sandbox could not be had, or could not run a program; what the program itself did wrong is a result."""


class OutputError(ToolOrchestraError):
    """A file or a folder cannot be written; the message begins with the path that was asked for."""


class TrainingError(ToolOrchestraError):
    """A training run ended before its last step."""


class InUseError(OutputError):
    """A file or a folder is being written by another process; the message gives its id."""


def exit_status(error: ToolOrchestraError) -> int:
    """Return the exit status of a command that an error ends: 4 if something cannot be written, 2 for a mistake."""
    return 4 if isinstance(error, OutputError) else 2


class ResumableError(ToolOrchestraError):
    """An error after which the same command may go on from what was saved (`resumable`)."""

    def __init__(self, message: str, *, resumable: bool = False) -> None:
        super().__init__(message)
        self.resumable = resumable


class SynthesisError(ResumableError):
    """A domain could not be synthesised to its end; what was made so far is saved.

    It is `resumable` if an endpoint failed or a budget was spent.
    """


class SamplerError(ResumableError):
    """A server that generates for a learner failed for good, after retries; the run can be resumed."""


def is_outage(error: BaseException) -> bool:
    """Return whether an error is of an endpoint, a sandbox or this machine, and not of what was asked of it.

    >>> is_outage(ExpertError("status 500")), is_outage(OSError("disk full")), is_outage(ZeroDivisionError())
    (True, True, False)
    """
    if isinstance(error, ExpertError):
        return error.outage
    return isinstance(error, SandboxError | ResumableError | OSError)


def unknown_name(kind: str, name: str, known: Iterable[str], limit: int = 30) -> str:
    """Return the sentence that reports an unknown name and suggests the nearest known one."""
    names = sorted(known)
    nearest = difflib.get_close_matches(name[:80], names, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    shown = ", ".join(names[:limit]) + (f", … ({len(names)} in all)" if len(names) > limit else "")
    return f"Unknown {kind} {name[:80]!r}.{hint} Known: {shown or 'none'}."


def install_line(extra: str) -> str:
    """Return the command that installs an extra: of the checkout from which the package is imported, if it is one."""
    root = Path(__file__).parents[2]
    what = f"{root}[{extra}]" if (root / "pyproject.toml").is_file() else f"toolorchestra[{extra}]"
    return f"pip install {'-e ' if what.startswith(str(root)) else ''}'{what}'"
