"""Rows of data sets: from the Hugging Face hub, from an address, or from local files of the same columns.

Not covered: what a row means (`toolorchestra.envs.sources.public_rows`).
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import SPLITS
from toolorchestra.toolscale.tasks.task import Task

Row = Mapping[str, Any]
Files = str | Path | Mapping[str, str | Path] | None
"""A local file, the file of each split, or None for where the set is published."""
FILE_KINDS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
"""Suffixes of files of rows, and the loader of the package datasets that reads each."""


class HubSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a data set is published.

    Attributes:
        hub: Its name on the hub; or, of a set whose `files` are elsewhere, the page that publishes it.
        splits: The hub's split for each split of the library.
        revision: Commit that is read, since a later one may hold other questions or columns; None if no commit is known
            here, so that whoever reads the set has to name one.
        config: Its configuration there, if it has several.
        files: Files of a split (of the library), if the set is read by file: names in the hub's repository, or whole
            addresses.
    """

    hub: str
    splits: dict[str, str]
    revision: str | None = None
    config: str | None = None
    files: dict[str, list[str]] = {}


def split_rows(known: HubSet, files: Files, revision: str | None = None) -> dict[str, tuple[str, Iterable[Row]]]:
    """Return for each split where its rows are from, and the rows: those published if `files` is None.

    `revision` is that which is read, if it is not that of the set.

    Raises:
        UnknownNameError: There is no such split.
        OptionError: The set cannot be read where it is published, no revision of it is known or given, or a file cannot
            be read.
    """
    if files is None:
        if (commit := revision or known.revision) is None:
            raise OptionError(
                f"{known.hub}: expected a `revision`, since no commit of this set is known here. Give the commit to "
                "read, which the set's page lists ('main' is whatever is there today), or local `files`."
            )
        return {split: (known.hub, _published(known, split, commit)) for split in known.splits}
    if revision is not None:
        raise OptionError(f"revision: expected none beside `files`, which are not of the hub, got {revision!r}.")
    if not isinstance(files, Mapping):
        files = {"test": files}
    if wrong := [split for split in files if split not in SPLITS]:
        raise UnknownNameError("split", wrong[0], SPLITS)
    return {split: (str(file), _file_rows(Path(file))) for split, file in files.items()}


def tasks_of(
    rows: Iterable[Row], make: Callable[[Row, int], Task | None], limit: int | None, origin: str, columns: str
) -> Iterator[Task]:
    """Yield at most `limit` tasks made from rows and their numbers; where `make` returns None, there is none.

    If a row does not have the columns expected, the `OptionError` says where (`origin`) and which (`columns`).
    """

    def made() -> Iterator[Task]:
        for number, row in enumerate(rows):
            try:
                task = make(row, number)
            except (LookupError, TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
                reason = f"{type(error).__name__}: {error}"
                if isinstance(error, KeyError) and error.args and error.args[0] not in row:
                    reason = f"{error.args[0]!r} is missing"
                raise OptionError(
                    f"{origin}, row {number + 1}: expected the columns {columns}, found {', '.join(map(str, row))} "
                    f"({reason})."
                ) from None
            if task is not None:
                yield task

    return itertools.islice(made(), None if limit is None else max(0, limit))


def _published(known: HubSet, split: str, revision: str) -> Iterator[Row]:
    """Yield the rows of a split; the connection may break while they are read."""
    try:
        import datasets
    except ImportError as error:
        how = "pip install 'toolorchestra[train]', or give local `files`."
        raise ImportError(f"Data sets of the hub need the package datasets, which is not installed: {how}") from error
    try:
        if names := known.files.get(split):
            addresses = [
                name.replace("{revision}", revision)
                if "://" in name
                else f"hf://datasets/{known.hub}@{revision}/{name}"
                for name in names
            ]
            kind = FILE_KINDS[Path(names[0]).suffix]
            found = datasets.load_dataset(kind, data_files=addresses, split="train", streaming=True)
        else:
            found = datasets.load_dataset(
                known.hub, known.config, split=known.splits[split], revision=revision, streaming=True
            )
        yield from found
    except (OSError, ValueError) as error:  # no connection, no such set, no right to it, other splits than expected
        raise OptionError(
            f"{known.hub} at {revision} cannot be read from the hub: {str(error).rstrip('.')}. Give local `files` "
            "with its columns, or log in with `hf auth login` if the set asks for it."
        ) from error


def _file_rows(file: Path) -> Iterable[Row]:
    """Return the rows of a local file."""
    try:
        match file.suffix:
            case ".jsonl":
                return [msgspec.json.decode(line) for line in file.read_bytes().splitlines() if line.strip()]
            case ".json":
                rows = msgspec.json.decode(file.read_bytes())
                return rows if isinstance(rows, list) else list(rows["data"])
            case ".csv" | ".tsv":
                with file.open(newline="", encoding="utf-8") as stream:
                    return list(csv.DictReader(stream, delimiter="," if file.suffix == ".csv" else "\t"))
            case ".parquet":
                return _parquet_rows(file)
    except (OSError, UnicodeDecodeError, KeyError, TypeError, csv.Error, msgspec.DecodeError) as error:
        raise OptionError(f"{file} cannot be read as rows: {error}.") from None
    raise OptionError(f"{file}: expected .jsonl, .json, .csv, .tsv or .parquet, found {file.suffix!r}.")


def _parquet_rows(file: Path) -> Iterable[Row]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        how = "pip install 'toolorchestra[train]'"
        raise ImportError(f"Parquet files need pyarrow, which is not installed: {how}") from error
    rows: list[Row] = pyarrow.parquet.read_table(file).to_pylist()
    return rows
