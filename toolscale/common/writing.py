"""Files and folders that appear whole or not at all, and errors of writing that name what was asked for.

What is written goes to a hidden draft beside its place (``.NAME.….part``), is synced to the disk, and is renamed: a
kill, a crash or a full disk leaves what was there before. Not here: files that grow
(`toolorchestra.toolscale.common.append_only`), and who may write (`toolorchestra.toolscale.common.claim`).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from toolorchestra.toolscale.common.errors import OutputError

_REMEDIES = {
    errno.ENOSPC: "Make room, or give another path.",
    errno.EDQUOT: "Make room, or give another path.",
    errno.EFBIG: "Raise the limit of the size of files (`ulimit -f`), or give another path.",
    errno.EACCES: "Give a path that you may write to.",
    errno.EPERM: "Give a path that you may write to.",
    errno.EROFS: "Give a path that you may write to.",
    errno.EISDIR: "Give the path of a file.",
}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def output_error(path: Path, error: OSError) -> OutputError:
    """Return the error that says why `path` cannot be written."""
    reason, remedy = error.strerror or str(error) or type(error).__name__, _REMEDIES.get(error.errno or 0)
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        file = next((one for one in (path, *path.parents) if os.path.exists(one) and not os.path.isdir(one)), path)
        reason = f"{file} is a file, not a folder"
    return OutputError(f"{path} cannot be written: {reason}. {remedy or 'Give another path.'}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise what the operating system has against writing `path` as an `OutputError`."""
    try:
        yield
    except (ConnectionError, TimeoutError, ChildProcessError):  # of other things that happen meanwhile
        raise
    except OSError as error:
        raise output_error(path, error) from error
    except Exception as error:
        if (native := _native_error(error)) is None:
            raise
        raise output_error(path, native) from error


def out_of_room(error: BaseException) -> bool:
    """Whether an error is of a disk that is full or a file that grew too large, whichever library raised it."""
    found = error if isinstance(error, OSError) else _native_error(error)
    return found is not None and found.errno in _FULL


def _native_error(error: BaseException) -> OSError | None:
    """Return the error of the operating system behind an error of safetensors or torch; None if there is none."""
    text = str(error)
    if found := re.search(r"\(os error (\d+)\)", text):  # safetensors
        return OSError(int(found[1]), os.strerror(int(found[1])))
    if "PytorchStreamWriter failed" in text or "unexpected pos" in text:  # torch does not say why
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return None


def make_folder(folder: Path) -> Path:
    """Make a folder and those above it, unless they are there, and return it.

    Raises:
        OutputError: It cannot be made.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def check_place(path: Path) -> None:
    """Check that a file or a folder can be made at a path, or written if it is there, before work is done for it.

    Nothing is left behind, no folder either.

    Raises:
        OutputError: It cannot.
    """
    with writing(path):
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_dir() and not place.is_file():
            return  # a device or a pipe
        folder = place if place.is_dir() else place.parent
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def whole_file(file: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose content becomes that of `file` when the block ends without an error.

    The folder is made if need be. A device or a pipe is written to as it is.

    Raises:
        OutputError: It cannot be written.
    """
    place = Path(os.path.realpath(file))  # a link stays a link
    with writing(file):
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = place.stat().st_mode if place.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            with place.open("wb") as stream:
                yield stream
            return
        draft = place.with_name(f".{place.name}.{os.getpid()}.part")
        try:
            with draft.open("wb") as stream:
                if mode is not None:
                    draft.chmod(stat.S_IMODE(mode))
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(place)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        sync_folder(place.parent)


def write_whole(file: Path, content: bytes | str) -> None:
    """Write a file (text as UTF-8), in a new folder if need be; it appears whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    with whole_file(file) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `folder`, in place of one that is there, when the block ends without an error.

    Raises:
        OutputError: It cannot be written.
    """
    place = Path(os.path.realpath(folder))
    draft, former = (place.with_name(f".{place.name}.{kind}") for kind in ("part", "old"))
    with writing(folder):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            yield draft
            for inner, _, files in os.walk(draft):
                for name in files:
                    _sync(Path(inner) / name)
                sync_folder(Path(inner))
            shutil.rmtree(former, ignore_errors=True)
            if place.exists():
                place.rename(former)
            draft.rename(place)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        sync_folder(place.parent)
        shutil.rmtree(former, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder are those after a crash, where the system can do that."""
    with suppress(PermissionError):  # Windows opens no folders
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
