from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.trl_trainers import run_trainer
from toolorchestra.toolscale.common.errors import OptionError, TrainingError


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("total", [0, 1, 5, 6])
def test_shares_are_merged_in_the_order_of_the_items(monkeypatch: pytest.MonkeyPatch, count: int, total: int) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: count)
    shares: list[list[int]] = []
    for rank in range(count):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        shares.append(list(distributed.shard(list(range(total)))))
    monkeypatch.setattr(distributed, "gather", lambda own: shares)
    assert distributed.all_gather(shares[0]) == list(range(total))


def test_what_processes_cannot_have_equal_parts_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    assert distributed.require_divisible(8, "groups", "") == 2
    with pytest.raises(OptionError, match=r"^6 groups cannot be shared among 4 processes\. Choose"):
        distributed.require_divisible(6, "groups", "Choose `groups` accordingly.")


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
    assert re.search(message, distributed._refused())


SCRIPT = """
import os, sys, time
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.trainer import run_script
from toolorchestra.algos.options.one_agent import TrainSFT
from toolorchestra.toolscale.common.errors import OptionError

def train(config):
    assert distributed.gather(distributed.rank()) == [0, 1]
    assert distributed.from_main(lambda: f"made by {distributed.rank()}") == "made by 0"
    assert distributed.all_gather([n * n for n in distributed.shard(range(5))]) == [0, 1, 4, 9, 16]
    if distributed.rank() == 1:
        if config.seed == 1:
            os._exit(9)  # as if killed
        raise OptionError("the disk of the second is empty")
    distributed.wait()

run_script(TrainSFT, train)
"""


def launch(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    kept = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    kept |= {"OMP_NUM_THREADS": "1"}
    command = [*launcher, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=kept | environment, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ((), {}, "error: the disk of the second is empty"),
        pytest.param(
            *(("--seed", "1"), {}, "error: The connection of process 0 to another of the 2 processes broke"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *((), {"ACCELERATE_USE_FSDP": "true"}, "error: The configuration is for FSDP of version 1"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_error_of_one_process_ends_all_with_one_message(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], message: str
) -> None:
    ended = launch(tmp_path, *arguments, **environment)
    assert ended.returncode != 0
    assert ended.stderr.count(message) == 1, ended.stderr
    assert ended.stderr.count("Traceback") <= 1, ended.stderr  # torchrun's own
