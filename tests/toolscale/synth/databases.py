"""Writing small SQLite files."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Rows = Sequence[Sequence[Any]]


def written(file: Path, ddl: str, rows: Mapping[str, Rows]) -> Path:
    """Write a database of these tables and rows, and return its file."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript(ddl)
        for table, some in rows.items():
            connection.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(some[0]))})', some)
        connection.commit()
    return file
