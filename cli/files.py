"""What the commands read and write: recorded episodes, JSON on standard output, and files in folders that they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.common.writing import writing

if TYPE_CHECKING:
    from toolorchestra.envs.records.episode import Episode


def read_recorded(file: Path) -> list[Episode]:
    """Return the episodes of a file; an `OptionError` says why it cannot be read, or that it has none."""
    from toolorchestra.envs.records.episode import read_episodes

    try:
        episodes = list(read_episodes(file))
    except OSError as error:
        raise OptionError(f"{file} cannot be read: {error.strerror}.") from None
    if not episodes:
        raise OptionError(f"{file} holds no episode.")
    return episodes


def print_json(value: Any) -> int:
    """Print a value as JSON, and return the exit status of success."""
    print(visible(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))
    return 0


def with_folder(file: Path) -> Path:
    """Return the path of a file to write, after making its folder; an `OutputError` says why that is impossible."""
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    return file
