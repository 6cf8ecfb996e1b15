"""Who generates for a learner: the model itself, a vLLM server, or vLLM in the process of the training (``--sampler``).

A `Generation` makes samplers, and brings the weights of a policy to where they are used. Not here: requests to a server
(`toolorchestra.algos.rollout.vllm_server`) and sampling itself (`toolorchestra.algos.rollout.sampling`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from toolorchestra.agents.builtin.model import ADAPTER_CONFIG, TokenPolicy
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos import memory
from toolorchestra.algos.autocast import autocast
from toolorchestra.algos.options import processes
from toolorchestra.algos.rollout.sampling import AnySampler, ModelSampler
from toolorchestra.algos.rollout.vllm_colocate import ColocatedSampler
from toolorchestra.algos.rollout.vllm_sampler import VLLMSampler
from toolorchestra.algos.rollout.vllm_server import VLLMServer
from toolorchestra.toolscale.errors import OptionError, SamplerError, install_line
from toolorchestra.toolscale.writing import whole_folder

if TYPE_CHECKING:
    from toolorchestra.algos.options import TrainOptions


class Generation:
    """The model itself generates; subclasses have vLLM do it. It makes samplers, and keeps their weights up to date.

    Args:
        gib: See `ModelSampler`.
    """

    def __init__(self, gib: float | None = None) -> None:
        self.gib = gib

    def sampler(self, model: Any, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> AnySampler:
        """Return a sampler of the policy whose model this is, with its weights of the last `sync`."""
        return ModelSampler(model, renderer, temperature=temperature, seed=seed, gib=self.gib)

    def token_budget(self, model: Any) -> int | None:
        """Return the maximum of ids of all episodes played at the same time; None: no such maximum."""
        with autocast(model):
            return memory.token_budget(model, self.gib)

    def check(self, max_ids: int, stop: int) -> None:
        """Raise an error if it cannot generate episodes of so many ids; `stop` is any id of the vocabulary."""

    def sync(self, policy: TokenPolicy) -> None:
        """Let samplers sample with the present weights of a policy."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that TRL's configuration needs for it."""
        return {}

    def attach(self, trainer: Any, policy: TokenPolicy) -> None:
        """Prepare a TRL trainer of a policy before it trains."""

    def metrics(self) -> dict[str, float]:
        """Return measurements since the last call."""
        return {}

    def close(self) -> None:
        """Free what it holds."""


class ServerGeneration(Generation):
    """A vLLM server generates; weights go through a folder that both see.

    An adapter is loaded beside the server's own model, each version under a name and a path of its own; whole weights
    replace those of the server, which one run may then use at a time.

    Args:
        server: The server, whose model is that of the policy, or its base.
        folder: Where weights are written.
    """

    def __init__(self, server: VLLMServer, folder: Path) -> None:
        super().__init__()
        self.server, self.folder = server, folder.resolve()
        self._run = uuid.uuid4().hex[:8]  # the prefix cache of an adapter is kept by its name and path
        self._versions = 0
        self._adapter: str | None = None
        self._cache = (0, 0)

    def token_budget(self, model: Any) -> None:
        """Return that there is no maximum: vLLM lets requests wait for which it has no room."""

    def check(self, max_ids: int, stop: int) -> None:
        """Ask the server whether it is set up for training."""
        self.server.check(max_ids, stop)

    def sampler(self, model: Any, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> AnySampler:
        """Return a sampler of the weights of the last `sync`."""
        del model
        return VLLMSampler(self.server, renderer, model=self._adapter, temperature=temperature, seed=seed)

    def sync(self, policy: TokenPolicy) -> None:
        """Write the weights, and have the server read them.

        Raises:
            SamplerError: It cannot.
        """
        self._versions += 1
        name = f"{self._run}-{self._versions}"
        with whole_folder(self.folder / name) as draft:
            policy.save(draft)
        if (self.folder / name / ADAPTER_CONFIG).is_file():
            self.server.load_adapter(name, self.folder / name)
            if self._adapter:
                self.server.unload_adapter(self._adapter)
            self._adapter = name
        else:
            self.server.reload(self.folder / name)
        for old in self.folder.glob(f"{self._run}-*"):
            if old.name != name:
                shutil.rmtree(old)

    def attach(self, trainer: Any, policy: TokenPolicy) -> None:
        """Let TRL have the weights synchronised before it asks for rollouts, as it has with its own integration."""
        trainer.use_vllm, trainer._last_loaded_step = True, -1
        trainer.vllm_generation = _Hook(self, policy)

    def metrics(self) -> dict[str, float]:
        """Return the share of the ids of prompts that were in the prefix cache."""
        found = self.server.prefix_cache()
        if found is None:
            return {}
        queries, hits = found.queries - self._cache[0], found.hits - self._cache[1]
        self._cache = found
        return {"prefix_hits": hits / queries} if queries > 0 else {}

    def close(self) -> None:
        """Have the server forget the adapter, if there still is a server, and remove the weights."""
        self.server.retries = 0
        if self._adapter:
            with contextlib.suppress(SamplerError):
                self.server.unload_adapter(self._adapter)
            self._adapter = None
        self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Hook:
    """What TRL takes for its own integration of vLLM, of which it asks with a `rollout_func` one thing only."""

    def __init__(self, generation: Generation, policy: TokenPolicy) -> None:
        self._generation, self._policy = generation, policy

    def sync_weights(self) -> None:
        """Let samplers sample with the present weights."""
        self._generation.sync(self._policy)


class TRLGeneration(Generation):
    """vLLM as TRL integrates it, on GPUs: in the training's own process, or a server that weights reach over NCCL.

    The engine, or the connection, is made with TRL's trainer. Before that, policies are evaluated by the model itself.

    Args:
        server: The server; None: vLLM in this process.
        gib: See `ModelSampler`.
        max_ids: Maximum of ids of an episode.
        share: Share of the GPU's memory for vLLM in this process.
    """

    def __init__(
        self, server: VLLMServer | None, *, gib: float | None = None, max_ids: int | None = None, share: float = 0.3
    ) -> None:
        super().__init__(gib)
        self.server, self.max_ids, self.share = server, max_ids, share
        self._integration: Any = None

    def token_budget(self, model: Any) -> None:
        """Return that there is no maximum: vLLM lets requests wait for which it has no room."""

    def check(self, max_ids: int, stop: int) -> None:
        """Ask the server, if there is one, whether it is set up for training."""
        self.max_ids = max_ids
        if self.server is not None:
            self.server.check(max_ids, stop)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of TRL's integration."""
        if self.server is None:
            mode: dict[str, Any] = {"vllm_mode": "colocate", "vllm_gpu_memory_utilization": self.share}
            mode["vllm_max_model_length"] = self.max_ids
        else:
            mode = {"vllm_mode": "server", "vllm_server_base_url": self.server.root}
        return {"use_vllm": True, **mode}

    def attach(self, trainer: Any, policy: TokenPolicy) -> None:
        """Use the trainer's integration from now on."""
        del policy
        self._integration = trainer.vllm_generation

    def sampler(self, model: Any, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> AnySampler:
        """Return a sampler of the weights of the last `sync`."""
        if self._integration is None:
            return super().sampler(model, renderer, temperature=temperature, seed=seed)
        if self.server is None:
            return ColocatedSampler(self._integration.llm, renderer, temperature=temperature, seed=seed)
        return VLLMSampler(self.server, renderer, temperature=temperature, seed=seed)

    def sync(self, policy: TokenPolicy) -> None:
        """Send the weights to vLLM."""
        del policy
        if self._integration is not None:
            self._integration.sync_weights()

    def close(self) -> None:
        """Close the connections."""
        if self.server is not None:
            self.server.close()


def make_generation(config: TrainOptions) -> Generation:
    """Return who generates for a learner, by its options.

    Raises:
        OptionError: This machine cannot.
    """
    if config.sampler == "hf":
        return Generation(config.memory)
    if processes() > 1:
        raise OptionError(
            f"With `sampler` {config.sampler} a training is one process, and {processes()} were started together. "
            "Start one, or use `sampler` hf."
        )
    server = VLLMServer(config.server) if config.sampler == "vllm-server" else None
    if server is not None and config.weight_sync == "disk":
        return ServerGeneration(server, config.output / "weights")
    what = "`sampler` vllm-colocate" if server is None else "`weight_sync` nccl"
    if not torch.cuda.is_available():
        raise OptionError(
            f"{what} needs a GPU, and there is none here. Use `sampler` vllm-server with `weight_sync` disk, which "
            "works with vLLM's CPU build too, or `sampler` hf."
        )
    if importlib.util.find_spec("vllm") is None:
        raise OptionError(f"{what} needs vLLM in the training's environment: {install_line('vllm')}.")
    return TRLGeneration(server, gib=config.memory, share=config.vllm_memory_share)
