"""Append-only JSONL files, for data that must not be lost or bought twice, such as the answers of a model.

A line is in the file, and on disk where that is asked for, before it is used. The file has one writer at a time. A line
that was cut short by a kill is removed when the file is opened again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from toolorchestra.toolscale.common.claim import Claim
from toolorchestra.toolscale.common.errors import OutputError, ResumableError
from toolorchestra.toolscale.common.writing import output_error, sync_folder, write_whole, writing

T = TypeVar("T")


class AppendingError(ResumableError):
    """An append-only file is not what it should be, or is closed."""


def read_appended(file: Path, kind: type[T], what: str) -> tuple[list[T], int]:
    """Return the lines of an append-only file and the bytes that they take, without a last line that is cut short.

    A last line that lacks only its end is not cut short.

    Raises:
        AppendingError: It cannot be read, or a line is no `kind`.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise AppendingError(f"{file} cannot be read: {error.strerror}.") from None
    decoder = msgspec.json.Decoder(kind)
    lines: list[T] = []
    *complete, last = content.split(b"\n")
    for number, line in enumerate([*complete, *([last] if last else [])], 1):
        try:
            lines.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if number > len(complete) and line.startswith(b"{"):
                return lines, len(content) - len(last)
            message = f"{file}, line {number}: expected {what}, found {line[:60]!r} ({error})."
            raise AppendingError(f"{message} Remove that line, or give another file.") from None
    return lines, len(content)


class AppendOnly(Generic[T]):
    """An append-only JSONL file with one writer, which has it until `close`; made, for its owner only, if need be.

    Each line is a `kind` (`what` in words); `lines` are those that it held when it was opened. With `sync` a line that
    was added outlives a crash of the machine too, not only of the process.

    Raises:
        InUseError: Another process writes it.
        OutputError: It cannot be written.
        AppendingError: It is not such a file.
    """

    def __init__(self, file: Path, kind: type[T], what: str, *, sync: bool = True) -> None:
        self.file = file
        self._sync = sync
        self._lock = threading.Lock()
        self._descriptor = -1
        self._claim = Claim(file)
        try:
            with writing(file):
                self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                self.lines, whole = read_appended(file, kind, what) if file.is_file() else ([], 0)
                if file.is_file():
                    os.ftruncate(self._descriptor, whole)  # where a kill cut its writing short
                    if whole and os.lseek(self._descriptor, -1, os.SEEK_END) and os.read(self._descriptor, 1) != b"\n":
                        os.write(self._descriptor, b"\n")
                if sync:
                    os.fsync(self._descriptor)
                    sync_folder(file.parent)
        except BaseException:
            self.close()
            raise

    def add(self, value: T) -> None:
        """Append a line; it is there when this returns. Safe to call from several threads.

        Raises:
            OutputError: It cannot be written; the file is as it was.
            AppendingError: It is closed.
        """
        line = msgspec.json.encode(value) + b"\n"
        with self._lock:
            if self._descriptor < 0:
                raise AppendingError(f"{self.file} is closed.", resumable=True)
            size = os.fstat(self._descriptor).st_size
            try:
                written = 0
                while written < len(line):  # what is left after a short write fails, and says why
                    written += os.write(self._descriptor, line[written:])
                if self._sync:
                    os.fsync(self._descriptor)
            except OSError as error:
                os.ftruncate(self._descriptor, size)  # leave no torn line before the next one
                raise OutputError(f"{output_error(self.file, error)} Then run the same command again.") from None

    def keep(self, lines: Sequence[T]) -> None:
        """Have only these lines in the file, which is replaced whole.

        Raises:
            OutputError: It cannot be written; the file is as it was.
        """
        with self._lock:
            write_whole(self.file, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
            with writing(self.file):
                descriptor = os.open(self.file, os.O_RDWR | os.O_APPEND)
            os.close(self._descriptor)
            self._descriptor, self.lines = descriptor, list(lines)

    def close(self) -> None:
        """Let go of the file; nothing happens the second time."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1
            self._claim.close()
