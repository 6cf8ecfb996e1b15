from __future__ import annotations

import sys
from typing import Any

import pytest

from toolorchestra.algos.options.one_agent import TrainGRPO, TrainSFT
from toolorchestra.algos.options.options import OWN_LEARNERS
from toolorchestra.algos.options.several_agents import TrainMSARL, TrainMultiGRPO, TrainTMATR
from toolorchestra.algos.trainer import run_script
from toolorchestra.envs.registration import PROTOCOLS
from toolorchestra.toolscale.common.errors import OptionError


def test_a_learner_of_one_agent_refuses_environments_of_several_and_names_their_learners() -> None:
    for protocol in (name for name, one in PROTOCOLS.items() if one.kind == "several"):
        own = OWN_LEARNERS.get(protocol, "multi_grpo")
        with pytest.raises(OptionError, match=rf"algos/{own}\.py --env {protocol}-Math-v0"):
            TrainGRPO(env=f"{protocol}-Math-v0")
    TrainGRPO(env="ToolOrchestra-Math-v0")


@pytest.mark.parametrize("learner", [TrainMSARL, TrainMultiGRPO])
def test_learners_of_several_refuse_environments_of_one_and_name_theirs(learner: type) -> None:
    with pytest.raises(OptionError, match=r"algos/grpo\.py --env ToolOrchestra-Math-v0"):
        learner(env="ToolOrchestra-Math-v0")
    learner(env="MSARL-Math-v0")


class OfOneProcess(TrainSFT):
    many_processes = False


@pytest.mark.parametrize("learner", [TrainGRPO, TrainSFT, TrainMSARL, TrainMultiGRPO, TrainTMATR, OfOneProcess])
def test_a_learner_of_one_process_refuses_several(learner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    learner()
    monkeypatch.setenv("WORLD_SIZE", "2")
    if learner.many_processes:
        learner()
        return
    with pytest.raises(OptionError, match=r"one process, and 2 were started\. Start one"):
        learner()


def test_a_script_reports_mistakes_and_interruptions_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["sft.py", "--steps", "7"])
    given: list[TrainSFT] = []
    run_script(TrainSFT, given.append)
    assert given == [TrainSFT(steps=7)]

    def run_and_raise(error: BaseException) -> None:
        def train(config: TrainSFT) -> None:
            raise error

        run_script(TrainSFT, train)

    for error, code, message in (
        (OptionError("`steps` must be positive."), 2, "error: --steps must be positive.\n"),
        (KeyboardInterrupt(), 130, "\nInterrupted. Add --resume to continue from the last checkpoint.\n"),
    ):
        with pytest.raises(SystemExit) as end:
            run_and_raise(error)
        assert end.value.code == code
        assert capsys.readouterr().err == message
    with pytest.raises(ZeroDivisionError):
        run_and_raise(ZeroDivisionError())
