"""The claim of a process to be the only writer of a file or a folder.

A claim is a lock on a small file that holds the process's id. The operating system lets go of it when the process ends,
however it ends. Where there are no such locks (a system without ``fcntl``, a file system without locks), the file's
existence is the claim, and one that a killed process left has to be removed by hand.
"""

from __future__ import annotations

import errno
import importlib
import os
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from toolorchestra.toolscale.common.errors import InUseError
from toolorchestra.toolscale.common.writing import make_folder, writing

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # not on this system
    fcntl = None

_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}


class Claim:
    """The claim to a file; for that to a folder see `of_folder`.

    The file need not exist; its folder is made. Devices and pipes may have several writers and are not claimed.

    Raises:
        InUseError: Another process has it; the message gives its id.
        OutputError: Nothing can be written there.
    """

    def __init__(self, file: Path) -> None:
        self._descriptor = -1
        place = Path(os.path.realpath(file))
        if os.path.exists(place) and not (os.path.isfile(place) or os.path.isdir(place)):
            return
        with writing(file):
            place.parent.mkdir(parents=True, exist_ok=True)
        self._take(file, place.with_name(f".{place.name}.lock"))

    @classmethod
    def of_folder(cls, folder: Path) -> Claim:
        """Claim a folder, which is made if need be, with all that is in it."""
        claim = cls.__new__(cls)
        claim._descriptor = -1
        claim._take(folder, make_folder(folder) / ".lock")
        return claim

    def _take(self, path: Path, lock: Path) -> None:
        self._lock = lock
        with writing(path):
            self._descriptor = _locked(path, lock)
        _held.add(self)

    def moved_to(self, folder: Path) -> Claim:
        """Say that the claimed folder has been renamed; returns the claim."""
        self._lock = folder / self._lock.name
        return self

    def close(self) -> None:
        """Give the claim up; nothing happens the second time."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                if fcntl is None:  # such systems do not remove open files
                    os.close(descriptor)
                    self._lock.unlink()
                else:
                    if _same(descriptor, self._lock):
                        self._lock.unlink()
                    os.close(descriptor)

    def forget(self) -> None:
        """Close the lock in a process that was forked: it is its parent's."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_held: weakref.WeakSet[Claim] = weakref.WeakSet()


def _forget_all() -> None:
    for claim in list(_held):
        claim.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _locked(path: Path, lock: Path) -> int:
    """Return the descriptor of the lock file, locked, with this process's id in it."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    while fcntl is not None:
        descriptor = os.open(lock, flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(descriptor, lock):  # else the one who had it has just removed it
                return _signed(descriptor)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise _in_use(path, owner) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                raise
            if not os.read(descriptor, 1):  # made here
                lock.unlink()
            os.close(descriptor)
            break
        os.close(descriptor)
    try:
        return _signed(os.open(lock, flags | os.O_EXCL, 0o644))
    except FileExistsError:
        owner = lock.read_text(encoding="ascii", errors="replace")[:20].strip()
        raise _in_use(path, owner, f" If that process is no more, remove {lock}.") from None


def _signed(descriptor: int) -> int:
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _same(descriptor: int, file: Path) -> bool:
    """Whether a descriptor is that of the file that has this name now."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _in_use(path: Path, owner: str, more: str = "") -> InUseError:
    who = f"process {owner}" if owner.isdigit() else "another process"
    return InUseError(f"{path} is being written by {who}. Wait until it has ended, or give another path.{more}")
