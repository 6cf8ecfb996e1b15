"""Export and import of tasks.

Four formats: ``tau2``, the JSON of τ²-bench, in whose shape ToolScale was published; ``jsonl``, one `Task` a line;
``parquet``, one table; ``datasets``, a folder for Hugging Face `datasets` with a card and one Parquet file a split.
Any of them may hold rows in τ²-bench's shape or in the library's own.

Every task that is read is checked against a domain: its tools must take the calls, the reference trajectory must run
and pass, and doing nothing must not. All errors are reported at once, by task.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

import msgspec

from toolorchestra.toolscale.common.errors import OptionError, TaskError, UnknownNameError, install_line
from toolorchestra.toolscale.common.writing import make_folder, whole_file, write_whole
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.export.exchange_rows import SourceRow, TaskReader, tau2_row
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Task, write_tasks
from toolorchestra.toolscale.tools.tool import Status

Format = Literal["tau2", "jsonl", "parquet", "datasets"]

_SUFFIXES: dict[str, Format] = {".json": "tau2", ".jsonl": "jsonl", ".parquet": "parquet", "": "datasets"}
_MAX_REPORTED = 200
_TEXTS = ("id", "domain", "intent", "split", "instruction", "answer", "parent", "operator")
_TYPES = dict.fromkeys(_TEXTS, "string") | {"difficulty": "int64", "branches": "bool", "refuses": "bool"}
_CALLS = ("lookups", "reference_calls")
_CALL_TYPES = {"name": "string", "arguments": "string", "stage": "int64"}
_HOLDS = {
    "train": "for training",
    "test": "the same kinds of requests about other entries",
    "test_intents": "kinds of requests that the training split does not have",
}


def export_tasks(domain: Domain, tasks: Sequence[Task], path: Path, format: Format | None = None) -> None:
    """Write tasks of a domain to a file, or to a folder for ``datasets``; it is made if it does not exist.

    The format is by default that of the path's ending: ``tau2`` for .json, ``datasets`` for none.

    Raises:
        OptionError: There is no such format, no task, or no library for Parquet.
    """
    if not tasks:
        raise OptionError("There is no task to export.")
    kind = _format(path, format)
    match kind:
        case "tau2":
            rows = [tau2_row(domain, task) for task in tasks]
            write_whole(path, msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
        case "jsonl":
            write_tasks(path, tasks)
        case "parquet":
            _write_parquet(path, tasks)
        case "datasets":
            _write_datasets(path, domain, tasks)


def import_tasks(path: Path, domain: Domain, format: Format | None = None) -> list[Task]:
    """Return the tasks of a file, or of a folder of `datasets`; each is checked against its domain.

    The format is by default that of the path's ending.

    Raises:
        OptionError: Nothing can be read there.
        TaskError: Names every task that does not fit the domain, and why.
    """
    found: dict[str, Task] = {}
    wrong: dict[str, list[str]] = {}
    rows = list(_read_rows(path, _format(path, format)))
    session = domain.session()
    for source in rows:
        task_id = str(source.row.get("id") or f"{source.where} (no id)")
        reader = TaskReader(domain, source, task_id)
        task = reader.task()
        if task_id in found or task_id in wrong:
            reader.wrong.append("the id stands in the file before")
        if task is not None and not reader.wrong:
            reader.wrong += _errors(domain, task, session)
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


def _errors(domain: Domain, task: Task, session: Session) -> list[str]:
    """Return what is wrong with a task when its reference trajectories and an empty episode are run."""
    for calls in (*task.alternatives, task.reference_calls):
        session.reset()
        for call in calls:
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
    for call in task.lookups:
        if domain.tools[call.name].effect == "write":
            return [f"the look-up {call.name}({call.arguments}) writes"]
        session.reset()
        result = domain.call(call, session)
        if result.status is not Status.OK:
            return [f"the look-up {call.name}({call.arguments}) errs: {result.error}"]
    return []


def load_pyarrow() -> tuple[ModuleType, ModuleType]:
    """Return pyarrow and its module for Parquet, which the extra ``train`` brings."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        message = f"Parquet needs pyarrow, which is not installed: {install_line('train')}."
        raise OptionError(message) from None


def _write_parquet(path: Path, tasks: Iterable[Task]) -> None:
    """Write tasks as one table."""
    arrow, parquet = load_pyarrow()
    calls = arrow.list_(arrow.struct([arrow.field(name, kind) for name, kind in _CALL_TYPES.items()]))
    phrases = arrow.list_(arrow.list_(arrow.string()))
    types = _TYPES | {"lookups": calls, "reference_calls": calls, "communicate": phrases, "more": "string"}
    schema = arrow.schema([arrow.field(name, kind) for name, kind in types.items()])
    table = arrow.Table.from_pylist([_flat(task) for task in tasks], schema=schema)
    with whole_file(path) as stream:
        parquet.write_table(table, stream)


def _flat(task: Task) -> dict[str, Any]:
    """Return a task as a row of Parquet; arguments are JSON text, as columns of objects fill each other with nulls."""
    row = {name: getattr(task, name) for name in (*_TYPES, "communicate")}
    for name in _CALLS:
        row[name] = [
            {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode(), "stage": call.stage}
            for call in getattr(task, name)
        ]
    more = {key: value for key, value in msgspec.to_builtins(task).items() if key not in row}
    return row | {"more": msgspec.json.encode(more).decode()}


def _write_datasets(path: Path, domain: Domain, tasks: Sequence[Task]) -> None:
    """Write tasks as a folder for `datasets`: a card, and one Parquet file a split."""
    load_pyarrow()
    splits = {split: chosen for split in SPLITS if (chosen := [task for task in tasks if task.split == split])}
    make_folder(path / "data")
    for split, chosen in splits.items():
        _write_parquet(path / "data" / f"{split}.parquet", chosen)
    write_whole(path / "README.md", _card(domain, splits))


def _card(domain: Domain, splits: Mapping[str, Sequence[Task]]) -> str:
    count = sum(map(len, splits.values()))
    bounds = (("n<1K", 1_000), ("1K<n<10K", 10_000), ("10K<n<100K", 100_000), ("100K<n<1M", 1_000_000))
    features = [f"  - name: {name}\n    dtype: {kind}" for name, kind in _TYPES.items()]
    for column in _CALLS:
        features += [f"  - name: {column}\n    list:"]
        features += [f"    - name: {name}\n      dtype: {kind}" for name, kind in _CALL_TYPES.items()]
    features += ["  - name: communicate\n    list:\n      list: string", "  - name: more\n    dtype: string"]
    template = Path(__file__).with_name("dataset_card.md").read_text(encoding="utf-8")
    return template.format(
        title=msgspec.json.encode(f"{domain.spec.title}: tasks").decode(),
        size=next((name for name, limit in bounds if count < limit), "n>1M"),
        files="\n".join(f"  - split: {split}\n    path: data/{split}.parquet" for split in splits),
        features="\n".join(features),
        heading=" ".join(domain.spec.title.split()),
        count=count,
        name=domain.name,
        today=domain.spec.today,
        description=domain.spec.description.strip(),
        table="\n".join(f"| `{split}` | {len(tasks):,} | {_HOLDS[split]} |" for split, tasks in splits.items()),
    )


def _read_rows(path: Path, kind: Format) -> Iterator[SourceRow]:
    """Yield the rows of a file or folder."""
    try:
        if kind == "datasets":
            files = sorted(f for f in path.rglob("*") if f.suffix in (".parquet", ".jsonl") and f.is_file())
            if not files:
                raise OptionError(f"Expected a folder with .parquet or .jsonl files; {path} has none.")
        else:
            files = [path]
        for file in files:
            read = _read_parquet if file.suffix == ".parquet" or kind == "parquet" else _read_json
            for number, row in enumerate(read(file), 1):
                if not isinstance(row, Mapping):
                    raise OptionError(f"{file}: expected an object for each task, found {type(row).__name__}.")
                name = re.sub(r"-\d{5}-of-\d{5}$", "", file.stem)
                yield SourceRow(row, name if kind == "datasets" and name in SPLITS else None, f"{file.name}:{number}")
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror or error}.") from None


def _read_json(file: Path) -> Iterable[Any]:
    data = file.read_bytes()
    try:
        if file.suffix == ".jsonl":
            return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OptionError(f"{file}: expected JSON: {error}.") from None
    if isinstance(found, dict) and isinstance(found.get("tasks"), list):
        found = found["tasks"]
    if not isinstance(found, list):
        raise OptionError(f"{file}: expected a list of tasks, found {type(found).__name__}.")
    return found


def _read_parquet(file: Path) -> Iterable[Any]:
    arrow, parquet = load_pyarrow()
    try:
        rows: list[Any] = parquet.read_table(file).to_pylist()
    except arrow.ArrowInvalid as error:
        raise OptionError(f"{file}: expected Parquet: {error}.") from None
    return rows
