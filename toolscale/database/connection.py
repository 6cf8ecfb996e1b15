"""SQLite connections that close themselves when nothing refers to them any more.

Domains, sessions and indexes come and go with environments, which may be dropped without being closed: no data is lost
with their databases, which are in memory or read-only. From Python 3.13 on, `sqlite3` warns of each such connection.
"""

from __future__ import annotations

import contextlib
import sqlite3


class Connection(sqlite3.Connection):
    """A connection for ``sqlite3.connect(…, factory=Connection)``."""

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # it never opened, or belongs to another thread
            self.close()
