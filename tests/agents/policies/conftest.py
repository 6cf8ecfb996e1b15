from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def env(make_env: Callable[..., Any]) -> Any:
    return make_env(disable_env_checker=True).unwrapped
