"""Export and import of tasks.

Four formats: ``tau2``, the JSON of τ²-bench, in whose shape ToolScale was published; ``jsonl``, one `Task` a line;
``parquet``, one table; ``datasets``, a folder for Hugging Face `datasets` with a card and one Parquet file a split.
Any of them may hold rows in τ²-bench's shape or in the library's own.

Every task that is read is checked against a domain: its tools must take the calls, the reference trajectory must run
and pass, and doing nothing must not. All errors are reported at once, by task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import OptionError, TaskError, UnknownNameError
from toolorchestra.toolscale.exchange_files import Format, read_rows, write_datasets, write_parquet
from toolorchestra.toolscale.exchange_rows import TaskReader, tau2_row
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Task, write_tasks
from toolorchestra.toolscale.tool import Status

_SUFFIXES: dict[str, Format] = {".json": "tau2", ".jsonl": "jsonl", ".parquet": "parquet", "": "datasets"}
_MAX_REPORTED = 200


def export_tasks(domain: Domain, tasks: Sequence[Task], path: Path, format: Format | None = None) -> None:
    """Write tasks of a domain.

    Args:
        domain: Their domain.
        tasks: The tasks.
        path: File, or folder for ``datasets``; made if it does not exist.
        format: By default from the path's ending: .json is ``tau2``, none ``datasets``.

    Raises:
        OptionError: The format is none, there is no task, or Parquet cannot be written here.
    """
    if not tasks:
        raise OptionError("There is no task to export.")
    writers: dict[Format, Callable[[Domain, Sequence[Task], Path], None]] = {
        "tau2": _write_tau2,
        "jsonl": lambda _, tasks, path: write_tasks(path, tasks),
        "parquet": lambda _, tasks, path: write_parquet(path, tasks),
        "datasets": write_datasets,
    }
    write = writers[_format(path, format)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write(domain, tasks, path)


def import_tasks(path: Path, domain: Domain, format: Format | None = None) -> list[Task]:
    """Return the tasks of a file, or of a folder of `datasets`; each is checked against its domain.

    The format is by default that of the path's ending.

    Raises:
        OptionError: Nothing can be read there.
        TaskError: Names every task that does not fit the domain, and why.
    """
    found: dict[str, Task] = {}
    wrong: dict[str, list[str]] = {}
    rows = list(read_rows(path, _format(path, format)))
    session = domain.session()
    for source in rows:
        task_id = str(source.row.get("id") or f"{source.where} (no id)")
        reader = TaskReader(domain, source, task_id)
        task = reader.task()
        if task_id in found or task_id in wrong:
            reader.wrong.append("the id stands in the file before")
        if task is not None and not reader.wrong:
            reader.wrong += _trial(domain, task, session)
        if reader.wrong:
            wrong.setdefault(task_id, []).extend(reader.wrong)
        elif task is not None:
            found[task_id] = task
    session.close()
    if wrong:
        lines = [f"{task_id}: {reason}" for task_id, reasons in wrong.items() for reason in reasons]
        more = f"\n… and {len(lines) - _MAX_REPORTED} more" if len(lines) > _MAX_REPORTED else ""
        shown = "\n".join(lines[:_MAX_REPORTED]) + more
        raise TaskError(f"{len(wrong)} of {len(rows)} tasks of {path} do not fit the domain {domain.name}:\n{shown}")
    if not found:
        raise OptionError(f"{path} holds no task.")
    return list(found.values())


def _format(path: Path, format: Format | None) -> Format:
    if format is not None:
        if format not in get_args(Format):
            raise UnknownNameError("format", format, get_args(Format))
        return format
    if path.suffix not in _SUFFIXES:
        known = ", ".join(filter(None, _SUFFIXES))
        raise OptionError(f"The format of {path} is unknown: expected {known} or a folder.")
    return _SUFFIXES[path.suffix]


def _write_tau2(domain: Domain, tasks: Sequence[Task], path: Path) -> None:
    text = msgspec.json.format(msgspec.json.encode([tau2_row(domain, task) for task in tasks]), indent=1)
    path.write_bytes(text + b"\n")


def _trial(domain: Domain, task: Task, session: Session) -> list[str]:
    """Return what is wrong with a task when its reference trajectories and an empty episode are run."""
    for path in (*task.alternatives, task.reference_calls):
        session.reset()
        for call in path:
            result = domain.call(call, session)
            if result.status is Status.PARSE_ERR:
                return [str(result.error)]
            if result.status is not Status.OK:
                return [f"the reference call {call.name}({call.arguments}) errs: {result.error}"]
    verdict = domain.verify(task, session, task.answer)
    if not verdict.solved:
        return [f"the reference trajectory does not pass: {verdict}"]
    if domain.replay(task, (), "", session).solved:
        return ["it is solved by doing and saying nothing"]
    return []
