"""Sandboxes for the tests, one of each kind that this machine has; the others skip with the way to get them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolorchestra.envs.tools.sandbox import ProgramLimits, Sandbox, make_sandbox
from toolorchestra.toolscale.common.errors import SandboxError

ENABLE = "To run this test: bash .ci/sandboxes (as root, on Debian)"
LIMITS = ProgramLimits(seconds=60, memory_mb=128, pids=16, output_bytes=100_000, disk_mb=16)


def made(kind: str, **options: object) -> Sandbox:
    """Make a sandbox, or skip the test."""
    try:
        if kind == "process":
            with pytest.warns(UserWarning, match="does not isolate"):
                return make_sandbox(kind, **({"limits": LIMITS} | options))
        return make_sandbox(kind, **({"limits": LIMITS} | options))
    except SandboxError as error:
        pytest.skip(f"{error} {ENABLE}")


@pytest.fixture(scope="module", params=["docker", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox that isolates."""
    with made(request.param, workers=1) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=["docker", "bubblewrap", "bubblewrap without control groups"])
def bounded(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox in each way that bounds what all processes of a program use together."""
    kind, _, variant = request.param.partition(" ")
    with made(kind, workers=1, **({"control_groups": False} if variant else {})) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=["docker", "bubblewrap", "process"])
def any_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox of any kind, with two workers."""
    with made(request.param, workers=2) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def named() -> Callable[[str], list[int]]:
    """Return the processes of this machine, in whatever namespace, that call themselves so: ``named("x")``."""

    def find(name: str) -> list[int]:
        return [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/comm") if _text(file) == name]

    return find


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:  # the process has ended
        return ""


@pytest.fixture
def make() -> Callable[..., Sandbox]:
    """Make a sandbox, or skip the test: ``make("docker", workers=2)``."""
    return made
