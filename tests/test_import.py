"""Importing the library is quick and brings nothing heavy along."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "trl", "datasets", "aiohttp", "matplotlib", "pandas", "faker", "pettingzoo")


def loaded_after(program: str) -> set[str]:
    code = f"import sys\n{program}\nprint(*sorted(m for m in sys.modules if m in {HEAVY!r}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return set(found.stdout.split())


def test_importing_the_library_loads_nothing_heavy() -> None:
    assert loaded_after("import toolorchestra") == set()


def test_playing_a_built_domain_loads_nothing_heavy() -> None:
    program = (
        "import gymnasium, toolorchestra\n"
        "env = gymnasium.make('ToolOrchestra-Restaurant-v0')\n"
        "env.reset(seed=0)\n"
        "env.step('I cannot help you.')"
    )
    assert loaded_after(program) == set()


def test_the_help_of_a_learner_waits_for_no_trainer() -> None:
    pytest.importorskip("trl", reason="comes with the extra `train`")
    program = (
        "import contextlib, io; from toolorchestra.cli.main import main\n"
        "for learner in ('sft', 'grpo', 'msarl', 'tmatr', 'multi-grpo'):\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as output:\n"
        "        assert main(['train', learner, '--help']) == 0\n"
        "    assert '--env' in output.getvalue()\n"
        "    loaded = {'transformers', 'trl', 'datasets'} & set(sys.modules)\n"
        "    assert not loaded, f'{learner} loads {loaded}'"
    )
    assert not {"transformers", "trl", "datasets"} & loaded_after(program)
