"""What is left behind is asked after each module: workers of its sandboxes are replaced by tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from leftovers import nothing_left


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a module that leaves a thread, a process, a socket, a pipe or a file open."""
    with nothing_left(request):
        yield
