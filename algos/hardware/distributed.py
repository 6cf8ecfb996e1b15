"""The processes of one run: which part of the work each has, and how they stay in step.

`torchrun` and `accelerate launch` start them, each with a number, its rank. All make the same decisions: they draw the
same tasks, each plays its share of the episodes, what came of them is exchanged, and each computes the gradient of its
share of the rows. Rank 0 alone writes. A run of one process is a run of rank 0: nothing is exchanged, nobody waits.

Not here: how models are divided over devices, which is up to accelerate's configuration (``docs/distributed.md``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import distributed
from torch.distributed.tensor import DTensor

from toolorchestra.algos.hardware.launch import LAUNCHED_FSDP, SHARD, launched_sharded, processes
from toolorchestra.toolscale.common.errors import OptionError, TrainingError
from toolorchestra.toolscale.common.writing import whole_folder

T = TypeVar("T")

_FAILED = "toolorchestra/failed"
_LAUNCHED_DEEPSPEED = "ACCELERATE_USE_DEEPSPEED"
_LAUNCHED_PRECISION = "ACCELERATE_MIXED_PRECISION"


def start() -> None:
    """Connect the processes that were started together, before anything is put on a device.

    Models are divided by this library (`toolorchestra.algos.hardware.sharding`), not by the plugins of accelerate.

    Raises:
        OptionError: They were started with a configuration that no learner trains with.
    """
    if processes() == 1 or distributed.is_initialized():
        return
    from accelerate import PartialState

    refused = _refused()
    if launched_sharded():
        os.environ[SHARD] = "true"
    for name in (LAUNCHED_FSDP, _LAUNCHED_DEEPSPEED):  # else the connection would already be made their way
        os.environ.pop(name, None)
    if not torch.cuda.is_available():  # accelerate would number it, and torch loads no checkpoint to "cpu:0"
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    PartialState(cpu=not torch.cuda.is_available())
    if refused:
        raise OptionError(refused)


def _refused() -> str:
    """Return what no learner trains with in the configuration of `accelerate launch`; empty if there is nothing."""

    def given(name: str) -> bool:
        return os.environ.get(name, "").lower() == "true"

    if given(_LAUNCHED_DEEPSPEED):
        return (
            "DeepSpeed makes an optimiser step in every backward pass, and learners make several for a step. FSDP2 "
            "divides the same over the processes: start them with the configuration that "
            "`python -m toolorchestra.algos.launch_configs fsdp2.yaml` names, or add `--shard` under `torchrun`."
        )
    if os.environ.get(_LAUNCHED_PRECISION, "no").lower() not in ("no", "fp32", ""):
        return (
            f"The configuration asks for mixed precision ({os.environ[_LAUNCHED_PRECISION]}), which is an option of "
            "the learners, for sampling too: set `mixed_precision: 'no'`, and add `--precision bf16`."
        )
    if not given(LAUNCHED_FSDP):
        return ""
    if os.environ.get("FSDP_VERSION", "1") != "2":
        return "The configuration is for FSDP of version 1, and models are divided by version 2: set `fsdp_version: 2`."
    if given("FSDP_OFFLOAD_PARAMS"):
        return "Weights are not kept on the CPU between passes: set `fsdp_offload_params: false`."
    if given("FSDP_ACTIVATION_CHECKPOINTING"):
        return (
            "Gradient checkpointing is an option of the learners: set `fsdp_activation_checkpointing: false`, and add "
            "`--gradient-checkpointing`."
        )
    return ""


def device() -> torch.device:
    """Return the device of this process."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device()) if world_size() > 1 else torch.device("cuda")


def world_size() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return the number of this process."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def is_main() -> bool:
    """Whether this is the process that writes."""
    return rank() == 0


def wait() -> None:
    """Wait until all processes are here."""
    if world_size() > 1:
        gather(None)  # a barrier of NCCL would have to be told the device


def gather(value: T) -> list[T]:
    """Return the value that each process has, by rank."""
    if world_size() == 1:
        return [value]
    found: list[Any] = [None] * world_size()
    distributed.all_gather_object(found, value)
    return found


def from_main(make: Callable[[], T]) -> T:
    """Return what rank 0 makes, in every process."""
    if world_size() == 1:
        return make()
    made: list[Any] = [make() if is_main() else None]
    distributed.broadcast_object_list(made)
    return made[0]  # type: ignore[no-any-return]  # as `make` made it


def shard(items: Sequence[T]) -> Sequence[T]:
    """Return those of the items that are this process's: every so-manieth, beginning with that of its rank."""
    return items[rank() :: world_size()]


def all_gather(own: Sequence[T]) -> list[T]:
    """Return what all processes made of their shares, in the order of the items."""
    if world_size() == 1:
        return list(own)
    parts = gather(list(own))
    return [parts[n % world_size()][n // world_size()] for n in range(sum(map(len, parts)))]


def require_divisible(total: int, what: str, remedy: str) -> int:
    """Return the part of a number that each process has.

    Raises:
        OptionError: The processes cannot have equal parts.
    """
    if total % world_size():
        raise OptionError(f"{total} {what} cannot be shared among {world_size()} processes. {remedy}")
    return total // world_size()


@torch.no_grad()
def add_gradients(parameters: Iterable[torch.nn.Parameter], *, mean: bool = False) -> None:
    """Replace each gradient by the sum of those of all processes, or by their mean; one that is missing counts as 0.

    Those of models that are divided over the processes are their mean already.
    """
    if world_size() == 1:
        return
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if isinstance(parameter.grad, DTensor):
            parameter.grad.mul_(1 if mean else world_size())
            continue
        distributed.all_reduce(parameter.grad)
        if mean:
            parameter.grad /= world_size()


@contextmanager
def written(folder: Path) -> Iterator[Path | None]:
    """Yield the draft of a folder (`whole_folder`) to rank 0, and None to others, which wait until it is written."""
    if is_main():
        with whole_folder(folder) as draft:
            yield draft
    else:
        yield None
    wait()


@contextmanager
def ending_together() -> Iterator[None]:
    """Let an error of one process be the only one that is reported, by the process in which it came up first.

    Others end without a word when they find the connection to it broken.

    Raises:
        TrainingError: Another process has ended without an error, such as one that was killed.
    """
    try:
        yield
    except Exception as error:
        if world_size() == 1:
            raise
        try:
            first = distributed.distributed_c10d._get_default_store().compare_set(_FAILED, "", str(rank()))
        except Exception:  # the store went down with another process
            sys.exit(1)
        if int(first) != rank():
            sys.exit(1)
        if isinstance(error, distributed.DistError) or "gloo" in str(error):
            raise TrainingError(
                f"The connection of process {rank()} to another of the {world_size()} processes broke: that one may "
                "have been killed, for instance for memory. Add --resume to continue from the last checkpoint."
            ) from error
        raise
