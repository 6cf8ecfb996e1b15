"""What the commands have in common when they print and write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


def print_json(value: Any) -> int:
    """Print a value as JSON, and return the exit code of success."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
    return 0


def with_folder(file: Path) -> Path:
    """Return a file that is going to be written; its folder is there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def write_text(file: Path, content: str) -> None:
    """Write a file, and its folder if need be."""
    with_folder(file).write_text(content, encoding="utf-8")
