from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.cli.train import LEARNERS

Run = Callable[..., Any]
MULTI_AGENT = "MSARL-Math-v0"


def test_train_hands_its_options_to_the_algorithm(run: Run, monkeypatch: pytest.MonkeyPatch):
    grpo = pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    given = []
    monkeypatch.setattr(grpo, "train", given.append)
    assert run("train", "grpo", "--env", "ToolOrchestra-All-v0", "--seed", 5).code == 0
    assert (given[0].env, given[0].seed) == ("ToolOrchestra-All-v0", 5)
    assert "toolorchestra train grpo" in run("train", "grpo", "--help").out


def test_every_learner_of_the_command_line_is_there(run: Run):
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    for name in LEARNERS:
        output = run("train", name, "--help")
        assert output.code == 0
        assert f"toolorchestra train {name}" in output.out


def test_train_says_how_to_install_what_it_needs(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("toolorchestra.algos")]:
        monkeypatch.delitem(sys.modules, name)
    output = run("train", "grpo")
    assert output.code == 2
    assert "pip install 'toolorchestra[train]'" in output.err


def test_an_unknown_algorithm_is_a_mistake(run: Run):
    assert run("train", "grp").code == 2


@pytest.mark.parametrize("learner", ["grpo", "sft"])
def test_learners_of_one_agent_name_those_of_several(run: Run, learner: str) -> None:
    pytest.importorskip("toolorchestra.algos.grpo", reason="needs the extra `train`", exc_type=ImportError)
    output = run("train", learner, "--env", MULTI_AGENT)
    assert output.code == 2
    message = " ".join(output.err.replace("│", " ").split())
    assert f"algos/msarl.py --env {MULTI_AGENT}" in message
    assert "algos/multi_grpo.py" in message
