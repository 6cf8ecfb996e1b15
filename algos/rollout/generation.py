"""Who generates for a learner: the model itself, a vLLM server, or vLLM in the process of the training (``--sampler``).

A `Generation` makes samplers, and brings the weights of a policy to where they are used. Not here: requests to a server
(`toolorchestra.algos.rollout.vllm_server`) and sampling itself (`toolorchestra.algos.rollout.sampling`).
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.hub import ADAPTER_CONFIG
from toolorchestra.algos.hardware import distributed, memory
from toolorchestra.algos.hardware.autocast import autocast
from toolorchestra.algos.hardware.launch import processes
from toolorchestra.algos.options.precision import save_policy
from toolorchestra.algos.rollout.sampling import AnySampler, ModelSampler, Sample
from toolorchestra.algos.rollout.vllm_sampler import ColocatedSampler, VLLMSampler
from toolorchestra.algos.rollout.vllm_server import PrefixCache, VLLMServer
from toolorchestra.toolscale.common.errors import OptionError, SamplerError, install_line

if TYPE_CHECKING:
    from toolorchestra.algos.options.options import TrainOptions


class Generation:
    """The model itself generates; subclasses have vLLM do it. It makes samplers, and keeps their weights up to date.

    Args:
        gib: See `ModelSampler`.
    """

    def __init__(self, gib: float | None = None) -> None:
        self.gib = gib
        self._counts: Counter[str] = Counter()  # of the caches of samplers
        self._reported = Counter(self._counts)

    def sampler(self, model: Any, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> AnySampler:
        """Return a sampler of the policy whose model this is, with its weights of the last `sync`."""
        return self._own_sampler(model, renderer, temperature=temperature, seed=seed)

    def _own_sampler(self, model: Any, renderer: Renderer, **options: Any) -> ModelSampler:
        sampler = ModelSampler(model, renderer, gib=self.gib, **options)
        if sampler.cache is not None:
            sampler.cache.counts = self._counts
        return sampler

    def live_sampler(self, renderer: Renderer, *, temperature: float = 1.0) -> AnySampler:
        """Return a sampler for another thread, which samples with the weights of the last `sync`, also of later ones.

        Raises:
            OptionError: It cannot sample while the policy is trained.
        """
        raise OptionError("What generates has the weights that are trained: leave `max_staleness` at 0.")

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

    def prefix_use(self) -> PrefixCache:
        """Return how many ids of prompts there were, and how many of them were known, since the last call."""
        now = Counter(self._counts)
        asked, read = (sum(distributed.gather(now[what] - self._reported[what])) for what in ("asked", "read"))
        self._reported = now
        return PrefixCache(asked, asked - read)

    def metrics(self) -> dict[str, float]:
        """Return the share of the ids of prompts that were known of earlier turns, since the last call."""
        use = self.prefix_use()
        return {"prefix_hits": use.hits / use.queries} if use.queries > 0 else {}

    def close(self) -> None:
        """Free what it holds."""


class CopyGeneration(Generation):
    """A copy of the model generates in another thread, while the model is trained; each `sync` brings it up to date."""

    def __init__(self, gib: float | None = None) -> None:
        super().__init__(gib)
        self._copy: Any = None
        self._samplers: list[ModelSampler] = []
        self._lock = threading.Lock()  # weights are not replaced in the middle of a turn

    def attach(self, trainer: Any, policy: TokenPolicy) -> None:
        """Copy the model, and let TRL have the copy brought up to date before it asks for rollouts."""
        self._copy = copy.deepcopy(policy.model).requires_grad_(False)
        self._copy.__dict__.pop("forward", None)  # the trainer's, which is that of the original
        _attach(self, trainer, policy)

    @torch.no_grad()
    def sync(self, policy: TokenPolicy) -> None:
        """Bring the copy up to date, if there is one, when it has written the turns that it is at."""
        if self._copy is not None:
            with self._lock:
                self._copy.load_state_dict(policy.model.state_dict())
                for sampler in self._samplers:
                    sampler.forget()

    def live_sampler(self, renderer: Renderer, *, temperature: float = 1.0) -> AnySampler:
        """Return a sampler of the copy."""
        sampler = self._own_sampler(self._copy, renderer, temperature=temperature)
        self._samplers.append(sampler)

        def sample(prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
            with self._lock:
                return sampler(prompts, limits, keys)

        return sample


class ServerGeneration(Generation):
    """A vLLM server generates; weights go through a folder that both see.

    An adapter is loaded beside the server's own model, each version under a name and a path of its own; whole weights
    replace those of the server, which one run may then use at a time. The processes of a run ask the same server, and
    rank 0 has it read the weights.

    Args:
        server: The server, whose model is that of the policy, or its base.
        folder: Where weights are written.
        staleness: Above 0, requests may be under way during a `sync`: they go on with the weights that come, and as
            many earlier versions of an adapter can still be asked for.
    """

    def __init__(self, server: VLLMServer, folder: Path, *, staleness: int = 0) -> None:
        super().__init__()
        self.server, self.folder, self.staleness = server, folder.resolve(), staleness
        # an adapter's prefix cache is kept by name and path
        self._run = distributed.from_main(lambda: uuid.uuid4().hex[:8])
        self._versions = 0
        self._adapters: list[str] = []  # on the server, the newest last
        self._cache = PrefixCache(0, 0)

    def token_budget(self, model: Any) -> None:
        """Return that there is no maximum: vLLM lets requests wait for which it has no room."""

    def check(self, max_ids: int, stop: int) -> None:
        """Ask the server whether it is set up for training."""
        self.server.check(max_ids, stop)

    def sampler(self, model: Any, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> AnySampler:
        """Return a sampler of the weights of the last `sync`."""
        del model
        return VLLMSampler(self.server, renderer, model=self._adapter, temperature=temperature, seed=seed)

    def live_sampler(self, renderer: Renderer, *, temperature: float = 1.0) -> AnySampler:
        """Return a sampler of the newest weights, whichever these are when it is asked."""
        return VLLMSampler(self.server, renderer, model=lambda: self._adapter, temperature=temperature)

    def sync(self, policy: TokenPolicy) -> None:
        """Write the weights, and have the server read them.

        Raises:
            SamplerError: It cannot.
        """
        self._versions += 1
        name = f"{self._run}-{self._versions}"
        with distributed.written(self.folder / name) as draft:
            save_policy(policy, draft)
        self._adapters = distributed.from_main(lambda: self._serve(name))

    def _serve(self, name: str) -> list[str]:
        """Have the server read a version of the weights, and return the adapters that it has then, the newest last."""
        adapters = [*self._adapters]
        if (self.folder / name / ADAPTER_CONFIG).is_file():
            self.server.load_adapter(name, self.folder / name)
            adapters.append(name)
            while len(adapters) > self.staleness + 1:
                self.server.unload_adapter(adapters.pop(0))
        else:
            self.server.reload(self.folder / name, in_use=self.staleness > 0)
        for old in self.folder.glob(f"{self._run}-*"):
            if old.name not in (name, *adapters):
                shutil.rmtree(old)
        return adapters

    @property
    def _adapter(self) -> str | None:
        return self._adapters[-1] if self._adapters else None

    def attach(self, trainer: Any, policy: TokenPolicy) -> None:
        """Let TRL have the weights synchronised before it asks for rollouts, as it has with its own integration."""
        _attach(self, trainer, policy)

    def prefix_use(self) -> PrefixCache:
        """Return how many ids of prompts the server has read, and found in its prefix cache, since the last call."""
        found = distributed.from_main(self.server.prefix_cache) or self._cache
        queries, hits = found.queries - self._cache.queries, found.hits - self._cache.hits
        self._cache = found
        return PrefixCache(queries, hits)

    def unload(self) -> None:
        """Have the server forget the adapter, if there still is a server."""
        self.server.client.retries = 0
        while self._adapters and distributed.is_main():
            with contextlib.suppress(SamplerError):
                self.server.unload_adapter(self._adapters.pop())

    def close(self) -> None:
        """Have the server forget the adapter, and remove the weights."""
        self.unload()
        self.server.close()
        if distributed.is_main():
            shutil.rmtree(self.folder, ignore_errors=True)


def _attach(generation: Generation, trainer: Any, policy: TokenPolicy) -> None:
    """Let a TRL trainer have weights synchronised before it asks for rollouts."""
    trainer.use_vllm, trainer._last_loaded_step = True, -1
    # TRL takes it for its own integration of vLLM, of which it asks with a `rollout_func` one thing only
    trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: generation.sync(policy))


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
    staleness: int = getattr(config, "max_staleness", 0)
    if config.sampler == "hf":
        return CopyGeneration(config.memory) if staleness else Generation(config.memory)
    by_disk = config.sampler == "vllm-server" and config.weight_sync == "disk"
    if processes() > 1 and not by_disk:
        raise OptionError(
            f"With `sampler` {config.sampler} and `weight_sync` {config.weight_sync} a training is one process, and "
            f"{processes()} were started together. Several use `sampler` vllm-server with `weight_sync` disk, or hf."
        )
    server = VLLMServer(config.server) if config.sampler == "vllm-server" else None
    if server is not None and by_disk:
        return ServerGeneration(server, config.output / "weights", staleness=staleness)
    what = "`sampler` vllm-colocate" if server is None else "`weight_sync` nccl"
    if not torch.cuda.is_available():
        raise OptionError(
            f"{what} needs a GPU, and there is none here. Use `sampler` vllm-server with `weight_sync` disk, which "
            "works with vLLM's CPU build too, or `sampler` hf."
        )
    if importlib.util.find_spec("vllm") is None:
        raise OptionError(f"{what} needs vLLM in the training's environment: {install_line('vllm')}.")
    return TRLGeneration(server, gib=config.memory, share=config.vllm_gpu_memory_utilization)
