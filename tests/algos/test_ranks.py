from __future__ import annotations

import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from torch.distributed import TCPStore
from waiting import until

from toolorchestra.algos import ranks
from toolorchestra.algos.options_one_agent import TrainSFT
from toolorchestra.algos.trainer import run_script
from toolorchestra.algos.trl_trainers import run_trainer
from toolorchestra.toolscale.errors import OptionError, TrainingError


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("total", [0, 1, 5, 6])
def test_shares_are_merged_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch, count: int, total: int) -> None:
    monkeypatch.setattr(ranks, "count", lambda: count)
    shares: list[list[int]] = []
    for rank in range(count):
        monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
        shares.append(list(ranks.share(list(range(total)))))
    monkeypatch.setattr(ranks, "gather", lambda own: shares)
    assert ranks.merge(shares[0]) == list(range(total))


def test_what_processes_cannot_have_equal_parts_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "count", lambda: 4)
    assert ranks.divided(8, "groups", "") == 2
    with pytest.raises(OptionError, match=r"^6 groups cannot be shared among 4 processes\. Choose"):
        ranks.divided(6, "groups", "Choose `groups` accordingly.")


def test_a_run_with_fewer_steps_than_asked_fails() -> None:
    class Stopping:
        args, state = type("Args", (), {"max_steps": 3}), type("State", (), {"global_step": 1})

        def remove_callback(self, callback: Any) -> None: ...

        def train(self, resume_from_checkpoint: str | None) -> None: ...

    with pytest.raises(TrainingError, match="ended after 1 of 3 optimiser steps"):
        run_trainer(Stopping(), torch.nn.Linear(1, 1), None)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, r"DeepSpeed makes an optimiser step .*launch_configs fsdp2.yaml` names"),
        ({"ACCELERATE_USE_FSDP": "true"}, "FSDP of version 1, .* set `fsdp_version: 2`"),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1"}, "FSDP of version 1"),
        (
            {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_OFFLOAD_PARAMS": "true"},
            "set `fsdp_offload_params: false`",
        ),
        (
            {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_ACTIVATION_CHECKPOINTING": "true"},
            "add `--gradient-checkpointing`",
        ),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, r"mixed precision \(bf16\), .* add `--precision bf16`"),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_OFFLOAD_PARAMS": "false"}, "^$"),
        ({"ACCELERATE_MIXED_PRECISION": "no"}, "^$"),
        ({}, "^$"),
    ],
)
def test_what_no_learner_trains_with_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], message: str
) -> None:
    for name in [name for name in os.environ if name.startswith(("ACCELERATE_", "FSDP_"))]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert re.search(message, ranks._refused())


def train(config: TrainSFT) -> None:
    """Exchange things among two processes, until the second fails, or ends as if it were killed."""
    assert ranks.gather(ranks.rank()) == [0, 1]
    assert ranks.from_main(lambda: f"made by {ranks.rank()}") == "made by 0"
    assert ranks.merge([n * n for n in ranks.share(range(5))]) == [0, 1, 4, 9, 16]
    if ranks.rank() == 1:
        if config.seed == 1:
            os._exit(9)
        raise OptionError("the disk of the second is empty")
    ranks.wait()


def fork_rank(rank: int, arguments: Sequence[str], environment: dict[str, str], output: Path) -> int:
    """Run the script in a copy of this process, which has imported what it needs; return the copy's number."""
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        with output.open("a") as stream:
            os.dup2(stream.fileno(), 2)
            sys.stderr, sys.argv = stream, ["script.py", *arguments]
            os.environ |= environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            PartialState._reset_state()  # of trainings of other tests
            try:
                run_script(TrainSFT, train)
            except SystemExit as end:
                status = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
    finally:
        os._exit(status)


@pytest.mark.parametrize(
    ("arguments", "environment", "message", "statuses"),
    [
        ((), {}, "error: the disk of the second is empty", [1, 2]),
        (("--seed", "1"), {}, "error: The connection of process 0 to another of the 2 processes broke", [2, 9]),
        ((), {"ACCELERATE_USE_FSDP": "true"}, "error: The configuration is for FSDP of version 1", [1, 2]),
    ],
)
def test_an_error_of_one_process_ends_all_with_one_message(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], message: str, statuses: list[int]
) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # as torchrun has one
    there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    there |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    output = tmp_path / "stderr"
    children = [fork_rank(rank, arguments, there | environment, output) for rank in range(2)]
    ended: list[int] = []
    try:
        while children:
            ended.append(until(partial(status_of, children[0]), "the process to end")[1])
            children.pop(0)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    shown = output.read_text()
    assert sorted(map(os.waitstatus_to_exitcode, ended)) == statuses, shown
    assert shown.count(message) == 1, shown
    assert "Traceback" not in shown, shown


def status_of(child: int) -> tuple[int, int] | None:
    """Return the number and the status of a process that has ended."""
    found = os.waitpid(child, os.WNOHANG)
    return found if found[0] else None
