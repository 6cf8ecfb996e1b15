"""In which numbers models compute: weights as they are loaded, and what they compute with.

Weights that are trained are of 32 bits, whatever the precision, since most updates are too small to change a weight of
16 bits. With ``bf16`` they are cast to 16 bits for each forward pass (`torch.autocast`), and frozen weights, under
adapters, are loaded in 16 bits, or in 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolorchestra.agents.builtin.adapters import BASE, AdapterPolicy, load_adapters, make_adapters
from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.hardware.sharding import whole_weights
from toolorchestra.toolscale.common.errors import OptionError, install_line

if TYPE_CHECKING:
    from toolorchestra.algos.options.options import LearnerOptions


def load_options(config: LearnerOptions) -> dict[str, Any]:
    """Return how a model is loaded, as options of `TokenPolicy.load`."""
    dtype = torch.bfloat16 if config.precision == "bf16" and config.lora_rank else torch.float32
    options = {"template_options": config.read_template_options, "dtype": dtype}
    if not config.quantize:
        return options
    from transformers import BitsAndBytesConfig

    weights = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )
    return {**options, "quantization_config": weights, "device_map": {"": distributed.device()}}


def new_adapters(config: LearnerOptions, names: Iterable[str], source: str | Path) -> dict[str, AdapterPolicy]:
    """Return policies of these names, each an untrained adapter over the model in a folder or of a hub name."""
    return make_adapters(
        names,
        source,
        rank=config.lora_rank,
        alpha=config.lora_alpha,
        targets=config.lora_targets,
        seed=config.seed,
        carried=config.small,
        **load_options(config),
    )


def start_policy(config: LearnerOptions, source: str | Path) -> TokenPolicy:
    """Return the policy of one agent that training starts from: a model, or an untrained adapter over it."""
    if config.lora_rank:
        return new_adapters(config, ["policy"], source)["policy"]
    return TokenPolicy.load(source, **load_options(config))


def load_policy(config: LearnerOptions, folder: Path) -> TokenPolicy:
    """Return the policy of one agent that was saved in a folder, to train it further."""
    if config.lora_rank:
        return load_adapters([folder.name], folder.parent, **load_options(config))[folder.name]
    return TokenPolicy.load(folder, **load_options(config))


def save_policy(policy: TokenPolicy, folder: Path | None) -> None:
    """Write the policy of one agent into a folder, which has all that is stored nowhere else.

    Processes do so together, and one of them has a folder.
    """
    weights = whole_weights(policy.model)
    if folder is None:
        return
    if isinstance(policy, AdapterPolicy):
        policy.save(folder, folder / BASE)
    else:
        policy.save(folder, weights)


def require_hardware(config: LearnerOptions) -> None:
    """Raise an `OptionError` if this machine or installation lacks what a configuration uses."""
    if "8bit" in config.optimizer and not torch.cuda.is_available():
        raise OptionError(f"`optimizer` {config.optimizer} needs a GPU with CUDA, and torch finds none. Leave it out.")
    wanted = [name for name, uses in (("quantize", config.quantize), ("optimizer", "8bit" in config.optimizer)) if uses]
    if wanted and find_spec("bitsandbytes") is None:
        raise OptionError(f"`{wanted[0]}` needs bitsandbytes, which is not installed: `pip install bitsandbytes`.")
    if config.lora_rank and find_spec("peft") is None:
        raise OptionError(f"`lora_rank` needs PEFT, which is not installed: {install_line('train')}.")
