from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
EXPECTED = {"courier.py": "solved {'lookout': 1.0, 'courier': 1.0}", "your_own_domain.py": "pass  oracle"}


def test_every_example_is_run() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert EXPECTED[name] in capsys.readouterr().out
