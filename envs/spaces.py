"""The space of texts: any Unicode string up to a length.

Gymnasium's `Text` has a fixed alphabet. `UnicodeText` accepts every string that can be encoded (no lone surrogates),
works in synchronous and asynchronous vector environments, and samples printable ASCII.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import string
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium.spaces import Text
from gymnasium.vector.utils import shared_memory
from numpy.typing import NDArray

MAX_OBSERVATION_CHARACTERS = 262_144
"""Maximum characters of the observation after one message; the results of several calls share them."""

_LENGTH_BYTES = 8
_BYTES_PER_CHARACTER = 4  # maximum of UTF-8


class UnicodeText(Text):
    """Strings of up to `max_length` characters, of any alphabet.

    >>> UnicodeText(100).contains("Crème brûlée, 飲み物")
    True
    """

    def __init__(self, max_length: int = 65_536, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable, seed=seed)

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string that fits and can be encoded."""
        if not isinstance(x, str) or len(x) > self.max_length:
            return False
        try:
            x.encode()
        except UnicodeEncodeError:
            return False
        return True

    def sample(self, mask: None = None, probability: None = None) -> str:  # type: ignore[override]  # no alphabet, no mask
        """Return a random short string of printable ASCII."""
        length = int(self.np_random.integers(0, min(self.max_length, 80) + 1))
        return "".join(self.np_random.choice(self.character_list, size=length))

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # spaces are mutable (they hold a generator)

    @property
    def slot(self) -> int:
        """Bytes that one string may take in shared memory."""
        return _LENGTH_BYTES + _BYTES_PER_CHARACTER * self.max_length


@shared_memory.create_shared_memory.register(UnicodeText)
def _create(space: UnicodeText, n: int = 1, ctx: ModuleType = multiprocessing) -> Any:
    return ctx.Array(ctypes.c_uint8, n * space.slot)


def _view(memory: Any) -> NDArray[np.uint8]:
    return np.frombuffer(memory.get_obj(), dtype=np.uint8)


@shared_memory.write_to_shared_memory.register(UnicodeText)
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    data = value.encode()
    slot = np.frombuffer(len(data).to_bytes(_LENGTH_BYTES, "little") + data, np.uint8)
    start = index * space.slot
    _view(shared_memory)[start : start + len(slot)] = slot


@shared_memory.read_from_shared_memory.register(UnicodeText)
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> _SharedTexts:
    return _SharedTexts(_view(shared_memory), space.slot, n)


class _SharedTexts(Sequence[str]):
    """The strings in shared memory, read at each access: Gymnasium reads the memory only once.

    A deep copy, which asynchronous environments return by default, is a tuple of the strings.
    """

    def __init__(self, view: NDArray[np.uint8], slot: int, n: int) -> None:
        self._slots = view.reshape(n, slot)

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        slot = self._slots[index]
        size = int.from_bytes(slot[:_LENGTH_BYTES].tobytes(), "little")
        return str(slot[_LENGTH_BYTES : _LENGTH_BYTES + size].tobytes(), "utf-8")

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return repr(tuple(self))
