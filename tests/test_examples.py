from __future__ import annotations

import asyncio
import os
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
EXPECTED = {
    "courier.py": ([], "solved {'lookout': 1.0, 'courier': 1.0}"),
    "ppo_routing.py": (["--total-timesteps", "2048"], "steps=2048 mean_return="),
    "your_own_domain.py": ([], "pass  oracle"),
}
COMMANDS = {"chinook.py", "designs.py", "exchange.py", "trl_grpo.py"}  # with tests of their own
NOTEBOOKS = ("play", "synthesize", "train")


def test_every_example_is_run() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(EXPECTED) | COMMANDS
    assert {file.stem for file in (EXAMPLES / "notebooks").glob("*.ipynb")} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_example_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if name == "ppo_routing.py":
        pytest.importorskip("torch", reason="needs pip install -e '.[train]'")
    arguments, expected = EXPECTED[name]
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name != "play" else name for name in NOTEBOOKS]
)
def test_the_notebook_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs pip install -e '.[docs]'")
    nbclient = pytest.importorskip("nbclient", reason="needs pip install -e '.[docs]'")
    pytest.importorskip("ipykernel", reason="needs pip install -e '.[docs]'")
    if name == "train":
        pytest.importorskip("trl", reason="needs pip install -e '.[train]'")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(EXAMPLES / "notebooks" / f"{name}.ipynb", 4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    asyncio.run(nbclient.NotebookClient(notebook, timeout=300).async_execute())  # `execute` leaves its loop open
