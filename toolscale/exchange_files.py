"""Files of tasks: Parquet, folders for Hugging Face `datasets`, JSON and JSON lines, and the rows read from them.

Arguments of calls stand as JSON text in Parquet, because a column of objects would give every call the arguments of all
others, as nulls.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

import msgspec

from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task

Format = Literal["tau2", "jsonl", "parquet", "datasets"]

_TYPES = dict.fromkeys(("id", "domain", "intent", "split", "instruction", "answer", "parent", "operator"), "string") | {
    "difficulty": "int64",
    "branches": "bool",
    "refuses": "bool",
}
_CALL_TYPES = {"name": "string", "arguments": "string", "stage": "int64"}
_HOLDS = {
    "train": "for training",
    "test": "the same kinds of requests about other entries",
    "test_intents": "kinds of requests that the training split does not have",
}


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    """Return pyarrow and its module for Parquet, which the extra ``train`` brings."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        message = "Parquet needs pyarrow, which is not installed: pip install 'toolorchestra[train]'."
        raise OptionError(message) from None


def write_parquet(path: Path, tasks: Iterable[Task]) -> None:
    """Write tasks as one table."""
    arrow, parquet = _pyarrow()
    calls = arrow.list_(arrow.struct([arrow.field(name, kind) for name, kind in _CALL_TYPES.items()]))
    types = _TYPES | {
        "reference_calls": calls,
        "communicate": arrow.list_(arrow.list_(arrow.string())),
        "more": "string",
    }
    schema = arrow.schema([arrow.field(name, kind) for name, kind in types.items()])
    parquet.write_table(arrow.Table.from_pylist([_flat(task) for task in tasks], schema=schema), path)


def _flat(task: Task) -> dict[str, Any]:
    """Return a task as a row of Parquet: what may have any shape is JSON text."""
    row = {name: getattr(task, name) for name in (*_TYPES, "communicate")}
    row["reference_calls"] = [
        {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode(), "stage": call.stage}
        for call in task.reference_calls
    ]
    more = {key: value for key, value in msgspec.to_builtins(task).items() if key not in row}
    return row | {"more": msgspec.json.encode(more).decode()}


def write_datasets(domain: Domain, tasks: Sequence[Task], path: Path) -> None:
    """Write tasks as a folder for `datasets`: a card, and one Parquet file a split."""
    _pyarrow()
    splits = {split: chosen for split in SPLITS if (chosen := [task for task in tasks if task.split == split])}
    (path / "data").mkdir(parents=True, exist_ok=True)
    for split, chosen in splits.items():
        write_parquet(path / "data" / f"{split}.parquet", chosen)
    (path / "README.md").write_text(_card(domain, splits), encoding="utf-8")


def _card(domain: Domain, splits: Mapping[str, Sequence[Task]]) -> str:
    count = sum(map(len, splits.values()))
    bounds = (("n<1K", 1_000), ("1K<n<10K", 10_000), ("10K<n<100K", 100_000), ("100K<n<1M", 1_000_000))
    features = [f"  - name: {name}\n    dtype: {kind}" for name, kind in _TYPES.items()]
    features += ["  - name: reference_calls\n    list:"]
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


class SourceRow(NamedTuple):
    """A row that was read, the split that its file is named after, and where it stands."""

    row: Mapping[str, Any]
    split: str | None
    where: str


def read_rows(path: Path, kind: Format) -> Iterator[SourceRow]:
    """Yield the rows of a file or folder.

    Raises:
        OptionError: It cannot be read, or holds something else.
    """
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
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: expected JSON: {error}.") from None
    if isinstance(found, dict) and isinstance(found.get("tasks"), list):
        found = found["tasks"]
    if not isinstance(found, list):
        raise OptionError(f"{file}: expected a list of tasks, found {type(found).__name__}.")
    return found


def _read_parquet(file: Path) -> Iterable[Any]:
    arrow, parquet = _pyarrow()
    try:
        rows: list[Any] = parquet.read_table(file).to_pylist()
    except arrow.ArrowInvalid as error:
        raise OptionError(f"{file}: expected Parquet: {error}.") from None
    return rows
