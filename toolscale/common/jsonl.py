"""JSONL files of one type: read with errors that name the line, written whole or not at all."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.writing import whole_file

T = TypeVar("T")


def read_jsonl(file: Path, kind: type[T], what: str) -> Iterator[tuple[int, T]]:
    """Yield the line number and the object of each line that is not blank; `what` is one object, in words.

    Raises:
        OptionError: The file cannot be read, or a line is not a `kind`.
    """
    decoder = msgspec.json.Decoder(kind)
    number = 0
    try:
        with file.open("rb") as stream:
            for line in stream:
                number += 1
                if line.strip():
                    yield number, decoder.decode(line)
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OptionError(f"{file}:{number}: expected {what} as JSON: {error}.") from None


def write_jsonl(file: Path, values: Iterable[msgspec.Struct | msgspec.Raw]) -> None:
    """Write a line for each value (a `msgspec.Raw` as it is); the file, in a new folder if need be, appears whole.

    Raises:
        InUseError: Another process writes it.
        OutputError: It cannot be written.
    """
    with Claim(file):
        for draft in file.parent.glob(f".{glob.escape(file.name)}.*.part"):  # of one that was killed
            draft.unlink(missing_ok=True)
        with whole_file(file) as stream:
            stream.writelines(msgspec.json.encode(value) + b"\n" for value in values)
