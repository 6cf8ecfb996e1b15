"""Fixtures of the tests of commands: they run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from toolorchestra.cli.main import main

BLOCKING = """
import itertools, signal, sys
from toolorchestra.cli.main import main
from toolorchestra.envs.base import OrchestrationEnv

reset, begun = OrchestrationEnv.reset, itertools.count()

def begin(*arguments, **options):
    if next(begun) == 40:
        signal.pause()
    return reset(*arguments, **options)

OrchestrationEnv.reset = begin
if __name__ == "__main__":
    sys.exit(main())
"""


class Output(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Output]:
    """Run a command, given its words."""

    def run(*arguments: object) -> Output:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Output(code, captured.out, captured.err)

    return run


@pytest.fixture
def blocking(tmp_path: Path) -> Path:
    """The command as a script, whose process, or workers, begin 40 episodes each and then wait to be ended."""
    script = tmp_path / "blocking.py"
    script.write_text(BLOCKING, encoding="utf-8")
    return script


@pytest.fixture
def folder(mini_folder: Path) -> str:
    return str(mini_folder)


@pytest.fixture
def recorded(run: Callable[..., Output], folder: str, tmp_path: Path) -> Path:
    """A file of 20 episodes of a noisy oracle."""
    file = tmp_path / "noisy.jsonl"
    run("rollout", folder, "--policy", "noisy-oracle", "--split", "all", "--episodes", 20, "--out", file)
    return file
