"""A database that nothing refers to any more is closed, without a warning."""

from __future__ import annotations

import gc
import sqlite3
import threading
import warnings

import pytest

from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.domain import Domain


def test_a_dropped_connection_is_closed_without_a_warning() -> None:
    connection = sqlite3.connect(":memory:", factory=Connection)
    connection.__del__()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    connection.__del__()


def test_a_connection_of_another_thread_is_left_alone() -> None:
    connections: list[Connection] = []
    thread = threading.Thread(target=lambda: connections.append(sqlite3.connect(":memory:", factory=Connection)))
    thread.start()
    thread.join()
    connections[0].__del__()
    Connection.__new__(Connection).__del__()  # one that never opened


def test_a_session_can_be_dropped(mini: Domain) -> None:
    with warnings.catch_warnings(record=True, action="always") as seen:
        session = mini.session()
        assert isinstance(session.connection, Connection)
        del session
        gc.collect()
    assert not [warning for warning in seen if issubclass(warning.category, ResourceWarning)]
