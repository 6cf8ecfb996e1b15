"""Models whose weights, gradients and optimiser's state are divided over the processes of a run (``--shard``, FSDP2).

Each process keeps a part of every weight. A layer's weights are gathered for its forward and its backward pass, which
all processes make together, equally many each. While episodes are sampled, processes make different numbers of passes:
then the weights are `gathered`. Of a model that is not divided, the functions here return what it has.

Not here: which processes there are (`toolorchestra.algos.hardware.distributed`).
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from toolorchestra.algos.hardware import distributed
from toolorchestra.toolscale.common.errors import OptionError

T = TypeVar("T")


def shard(model: nn.Module, *, bf16: bool = False) -> None:
    """Divide a causal language model of transformers over the processes, in place: each decoder layer, and the rest.

    Its parts are moved to the devices one after the other. One process has it all.

    With `bf16`, weights are gathered, and computed with, in 16 bits; gradients are summed in 32.

    Raises:
        OptionError: The model does not name its layers.
    """
    if distributed.world_size() == 1:
        model.to(distributed.device())
        return
    layers = [one for one in model.modules() if type(one).__name__ in (getattr(model, "_no_split_modules", None) or ())]
    if not layers:
        raise OptionError(
            f"{type(model).__name__} does not name its layers (`_no_split_modules`), so that its weights would be "
            "gathered all at once. Train it without `shard`."
        )
    precision = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if bf16 else MixedPrecisionPolicy()
    mesh = init_device_mesh(distributed.device().type, (distributed.world_size(),))
    for part in (*layers, model):
        fully_shard(part, mesh=mesh, mp_policy=precision)
    model._together = types.MethodType(_together, model)  # type: ignore[assignment]  # torch wants a method
    register_fsdp_forward_method(model, "_together")


def _together(model: nn.Module, function: Callable[[], T]) -> T:
    del model
    return function()


def sharded(model: Any) -> bool:
    """Whether a model is divided."""
    return isinstance(model, FSDPModule)


def forward(model: Any, function: Callable[[], T]) -> T:
    """Return what a function computes with the parts of a model, as one forward pass of it."""
    found: T = model._together(function) if sharded(model) else function()
    return found


@contextmanager
def gathered(*models: Any) -> Iterator[None]:
    """Let every process have the whole weights of models, so that each can make passes for itself, but not train."""
    parts = [(part, part is model) for model in models if sharded(model) for part in model.modules()]
    for part, _ in parts:
        if isinstance(part, FSDPModule):
            part.unshard()
            part.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for part, root in parts:
            if isinstance(part, FSDPModule):
                part.reshard()
                part.set_reshard_after_forward(not root, recurse=False)


def whole(tree: T) -> T:
    """Return something with tensors in which those that are divided are whole; all processes have to call this."""
    if isinstance(tree, dict):
        return {name: whole(value) for name, value in tree.items()}  # type: ignore[return-value]  # as T is
    if isinstance(tree, list):
        return [whole(value) for value in tree]  # type: ignore[return-value]  # as T is
    found: T = _whole(tree)
    return found


def _whole(value: Any) -> Any:
    return value.full_tensor().cpu() if isinstance(value, DTensor) else value


def whole_weights(model: Any) -> dict[str, Tensor] | None:
    """Return the weights of a divided model by name, for `save_pretrained`; all processes have to call this.

    Those of a model that is not divided are None: it knows them.
    """
    if not sharded(model):
        return None
    values = model.state_dict(keep_vars=True)
    found = {id(value): _whole(value.detach()) for value in values.values()}  # tied ones stay tied
    return {name: found[id(value)] for name, value in values.items()}


@torch.no_grad()
def load_weights(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Replace the weights of a model; of one that is divided, each process takes its parts."""
    if not sharded(model):
        model.load_state_dict(weights)
        return
    for part in model.modules():
        if isinstance(part, FSDPModule):
            part.reshard()
    own = model.state_dict(keep_vars=True)
    for name, value in weights.items():
        own[name].copy_(_part(value, own[name]))


def divide_state(optimizer: torch.optim.Optimizer) -> None:
    """Divide the state that was loaded into the optimiser of a divided model like the weights that it is of."""
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                state[name] = _part(value, parameter)


def _part(value: Tensor, like: Tensor) -> Tensor:
    """Return the part of a whole tensor that this process has of another."""
    if not isinstance(like, DTensor) or isinstance(value, DTensor):
        return value
    value = value.to(like.device, like.dtype)
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def frozen_copy(model: nn.Module) -> nn.Module:
    """Return a copy of a model that does not learn, divided if the model is."""
    if not sharded(model):
        return copy.deepcopy(model).requires_grad_(False)
    config: Any = model.config
    kind = next(
        base for base in type(model).__mro__ if not issubclass(base, FSDPModule) and issubclass(base, nn.Module)
    )
    with torch.random.fork_rng(devices=[]), next(model.parameters()).device:
        twin = kind(config)
    shard(twin)
    mine, its = twin.state_dict(keep_vars=True), model.state_dict(keep_vars=True)
    for name, value in its.items():
        mine[name].copy_(value)
    return twin.requires_grad_(False)
