"""One frozen model with a LoRA adapter for each agent, so that several agents need little more memory than one.

An `AdapterPolicy` is a `TokenPolicy`, so engines and learners need no changes: its model's parameters are the adapter's
alone, and its forward pass activates the adapter first. The adapter is saved in PEFT's format, the base only if it is
stored nowhere else. With gradient checkpointing a backward pass must come before another adapter is
active, since it repeats the forward pass. Not covered: several threads.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer, saved_options
from toolorchestra.agents.builtin.model import ADAPTER_BASE, TokenPolicy, adapter_base
from toolorchestra.agents.hub import ADAPTER_CONFIG, split_revision
from toolorchestra.toolscale.common.errors import OptionError, install_line

BASE = ADAPTER_BASE
_WEIGHTS = "adapter_model.safetensors"


class AdaptedModel(nn.Module):
    """A frozen model with one of its adapters active: the adapter `key` of the `peft.PeftModel` `host`."""

    def __init__(self, host: Any, key: str) -> None:
        super().__init__()
        self._hosts = [host]  # in a list, so that the base is no part of this module
        self.key = key
        self.adapter = nn.ModuleList(
            getattr(layer, kind)[key]
            for layer in host.base_model.modules()
            for kind in getattr(layer, "adapter_layer_names", ())
            if key in getattr(layer, kind)
        )
        self.adapter.requires_grad_(True)

    @property
    def host(self) -> Any:
        """The model with all adapters."""
        return self._hosts[0]

    @property
    def config(self) -> Any:
        """The configuration of the base model."""
        return self.host.config

    def activate(self) -> Any:
        """Make the adapter the active one, and return the base model, in whose layers it is."""
        if self.host.active_adapter != self.key:
            learning = [(parameter, parameter.requires_grad) for parameter in self.host.parameters()]
            self.host.set_adapter(self.key)
            for parameter, learns in learning:  # PEFT freezes the other adapters, whose gradients may be yet to come
                parameter.requires_grad_(learns)
        return self.host.get_base_model()

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Run the base model with the adapter active."""
        return self.activate()(*arguments, **options)

    def frozen_copy(self) -> AdaptedModel:
        """Return a copy of the adapter, over the same base, that does not learn; the next copy replaces it."""
        key = f"{self.key}_copy"
        if key not in self.host.peft_config:
            with torch.random.fork_rng(devices=[]):
                self.host.add_adapter(key, self.host.peft_config[self.key])
        twin = AdaptedModel(self.host, key)
        twin.adapter.load_state_dict(self.adapter.state_dict())
        twin.adapter.requires_grad_(False)
        return twin

    def reference(self) -> AdapterReference:
        """Return what the policy is now, frozen: the base alone while the adapter is untrained, else with a copy."""
        with torch.no_grad():
            untrained = not any(
                bool(part.count_nonzero())
                for name, part in self.host.named_parameters()
                if f"lora_B.{self.key}" in name
            )
        return AdapterReference(self.host, None if untrained else self.frozen_copy().key)

    def train(self, mode: bool = True) -> AdaptedModel:
        """Set the mode of training or evaluation, of the base too."""
        self.host.train(mode)
        super().train(mode)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> AdaptedModel:
        """Move the base too."""
        self.host._apply(fn, recurse)
        return self


class AdapterReference(nn.Module):
    """A policy as it was, over the base that it learns on, so that no second copy of it is needed (`active`).

    Args:
        host: The model with all adapters.
        key: The adapter that the policy had; None: none, the base alone.
    """

    def __init__(self, host: Any, key: str | None) -> None:
        super().__init__()
        self.host, self.key = host, key

    @property
    def config(self) -> Any:
        """The configuration of the base model."""
        return self.host.config

    def get_base_model(self) -> Any:
        """Return the base model."""
        return self.host.get_base_model()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let the base compute as it did when this was made, and afterwards as before."""
        if self.key is None:
            with self.host.disable_adapter():
                yield
            return
        now = self.host.active_adapter
        learning = [(parameter, parameter.requires_grad) for parameter in self.host.parameters()]
        self.host.set_adapter(self.key)
        try:
            yield
        finally:
            self.host.set_adapter(now)
            for parameter, learns in learning:
                parameter.requires_grad_(learns)


@dataclass(frozen=True)
class AdapterPolicy(TokenPolicy):
    """A policy whose model is an adapter over a base that it shares with others.

    Attributes:
        source: Folder or hub name of the base, which may have its revision (``NAME@REVISION``).
        carried: Whether the base is saved with the adapters, since it is stored nowhere else.
    """

    source: str
    carried: bool

    def save(self, folder: Path, base: Path | None = None) -> None:  # type: ignore[override]  # its weights are its own
        """Write the adapter into a folder, and a carried base to `base`, by default beside it."""
        from peft import get_peft_model_state_dict
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        base = base or folder.parent / BASE
        if self.carried and not base.is_dir():
            shutil.copytree(self.source, base)
        host, key = self.model.host, self.model.key
        config = host.peft_config[key]
        config.base_model_name_or_path, config.revision = split_revision(base if self.carried else self.source)
        config.target_modules = sorted(config.target_modules)
        config.save_pretrained(str(folder))
        if isinstance(self.renderer, ChatTemplateRenderer):
            self.renderer.save_options(folder)
        state = get_peft_model_state_dict(host, adapter_name=key)
        save_file({name: part.detach().cpu().contiguous() for name, part in state.items()}, folder / _WEIGHTS)


def make_adapters(
    names: Iterable[str],
    source: str | Path,
    *,
    rank: int,
    alpha: float | None = None,
    targets: Sequence[str] = (),
    seed: int = 0,
    carried: bool = False,
    **options: Any,
) -> dict[str, AdapterPolicy]:
    """Return policies of these names, each an untrained adapter over one base: all play as the base does.

    Args:
        names: Of the policies.
        source: See `AdapterPolicy`; `carried` likewise.
        rank: Of the adapters.
        alpha: What is learnt is scaled by `alpha` / `rank`; None: twice the rank.
        targets: Names of the linear layers with adapters; none: all but the last.
        seed: Of the adapters' weights.
        carried: See `AdapterPolicy`.
        options: How the base is loaded; see `TokenPolicy.load`. Adapters are of 32 bits in any case.
    """
    peft = _peft()
    names = list(names)
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=2 * rank if alpha is None else alpha,
        target_modules=list(targets) or "all-linear",
        task_type="CAUSAL_LM",
    )
    base = TokenPolicy.load(source, **options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            host = peft.get_peft_model(base.model, config, adapter_name=_key(0))
        except ValueError as error:
            raise OptionError(
                f"Adapters of {', '.join(targets) or 'all linear layers'} cannot be made: {error}"
            ) from error
        for number in range(1, len(names)):
            host.add_adapter(_key(number), config)
    return _team(names, base, host, str(source), carried)


def holds_adapters(folder: Path, names: Iterable[str]) -> bool:
    """Return whether a folder holds adapters of these names, and not whole models."""
    return all((folder / name / ADAPTER_CONFIG).is_file() for name in names)


def load_adapters(
    names: Iterable[str], folder: Path, *, template_options: Mapping[str, Any] | None = None, **options: Any
) -> dict[str, AdapterPolicy]:
    """Return the policies whose adapters `AdapterPolicy.save` wrote; `OptionError` if they are not of one base.

    See `TokenPolicy.load` for `template_options` and `options`.
    """
    peft = _peft()
    names = list(names)
    sources = {adapter_base(folder / name) for name in names}
    if len(sources) > 1:
        raise OptionError(
            f"The adapters in {folder} are not of one base, but of {', '.join(sorted(map(str, sources)))}."
        )
    (source,) = sources
    carried = Path(source).name == BASE
    first, *others = names
    base = TokenPolicy.load(source, template_options=template_options or saved_options(folder / first), **options)
    host = peft.PeftModel.from_pretrained(base.model, str(folder / first), adapter_name=_key(0), is_trainable=True)
    for number, name in enumerate(others, 1):
        host.load_adapter(str(folder / name), adapter_name=_key(number), is_trainable=True)
    return _team(names, base, host, source, carried)


def _team(names: Iterable[str], base: TokenPolicy, host: Any, source: str, carried: bool) -> dict[str, AdapterPolicy]:
    host.eval()
    return {
        name: AdapterPolicy(AdaptedModel(host, _key(number)), base.tokenizer, base.renderer, source, carried)
        for number, name in enumerate(names)
    }


def _key(number: int) -> str:
    """Return the name of an adapter in its host, where a policy's name might be illegal."""
    return f"adapter{number}" if number else "default"  # the first by the name that TRL's trainers look for


def _peft() -> Any:
    try:
        import peft
    except ModuleNotFoundError as error:
        if error.name != "peft":
            raise
        raise OptionError(f"Adapters need PEFT, which is not installed: {install_line('train')}.") from None
    return peft
