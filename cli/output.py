"""What the commands print as JSON, and the files that they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


def print_json(value: Any) -> int:
    """Print a value as JSON, and return the exit status of success."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    return 0


def with_folder(file: Path) -> Path:
    """Return the path of a file to write, after making its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def write_text(file: Path, content: str) -> None:
    """Write a file, and make its folder if it does not exist."""
    with_folder(file).write_text(content, encoding="utf-8")
