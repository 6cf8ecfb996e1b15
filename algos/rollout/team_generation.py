"""Who generates for the policies of a team: their models, or vLLM servers (``--sampler``).

A server with adapters (``--lora-rank``) serves any number of policies. Whole weights replace those of the server, so
that each policy has one of its own (``--servers``), or all agents share one policy (``--share``). Not here: how weights
reach a server (`toolorchestra.algos.rollout.generation`).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.rollout.generation import Generation, ServerGeneration
from toolorchestra.algos.rollout.sampling import AnySampler
from toolorchestra.algos.rollout.vllm_server import VLLMServer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from toolorchestra.algos.options.several_agents import TrainTeam


class TeamGeneration:
    """The models themselves generate; see `ServedTeam` for servers.

    Args:
        gib: See `ModelSampler`.
    """

    def __init__(self, gib: float | None = None) -> None:
        self._models = Generation(gib)

    def of(self, name: str) -> Generation:
        """Return who generates for the policy of a name."""
        del name
        return self._models

    def check(self, policies: Mapping[str, TokenPolicy], max_ids: int) -> None:
        """Raise an error if episodes of so many ids cannot be generated for one of the policies."""
        for name, policy in policies.items():
            self.of(name).check(max_ids, policy.renderer.stop_ids[0])

    def samplers(
        self, policies: Mapping[str, TokenPolicy], temperature: float, rng: random.Random
    ) -> dict[str, AnySampler]:
        """Return a sampler of each policy, with its weights of the last `sync`."""
        return {
            name: self.of(name).sampler(
                policy.model, policy.renderer, temperature=temperature, seed=rng.getrandbits(48)
            )
            for name, policy in policies.items()
        }

    def metrics(self) -> dict[str, float]:
        """Return the share of the ids of prompts that were known, since the last call."""
        return self._models.metrics()

    def close(self) -> None:
        """Free what it holds."""


class ServedTeam(TeamGeneration):
    """vLLM servers generate: one of each policy, or one of the adapters of several.

    Args:
        servers: Of each policy, by its name; policies may have the same.
        folder: Where weights are written.
    """

    def __init__(self, servers: Mapping[str, VLLMServer], folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._served = {name: ServerGeneration(server, folder / name) for name, server in servers.items()}

    def of(self, name: str) -> Generation:
        """Return who generates for the policy of a name."""
        return self._served[name]

    def metrics(self) -> dict[str, float]:
        """Return the share of the ids of prompts that were in the prefix caches of all servers, since the last call."""
        uses = [served.prefix_use() for served in {id(one.server): one for one in self._served.values()}.values()]
        queries, hits = sum(use.queries for use in uses), sum(use.hits for use in uses)
        return {"prefix_hits": hits / queries} if queries > 0 else {}

    def close(self) -> None:
        """Have the servers forget the adapters, if there still are servers, and remove the weights."""
        for served in self._served.values():
            served.unload()
        for served in self._served.values():  # one that others have too is closed once all adapters are unloaded
            served.close()
        if distributed.is_main():
            shutil.rmtree(self._folder, ignore_errors=True)


def make_team_generation(config: TrainTeam, names: Sequence[str]) -> TeamGeneration:
    """Return who generates for the policies of these names, by a learner's options.

    Raises:
        OptionError: Whole weights of several policies would replace one another on a server.
        UnknownNameError: `servers` names a policy that there is not.
    """
    if config.sampler == "hf":
        return TeamGeneration(config.memory)
    if unknown := [name for name in config.servers if name not in names]:
        raise UnknownNameError("policy", unknown[0], names)
    found: dict[str, VLLMServer] = {}
    by_address: dict[str, VLLMServer] = {}
    for name in names:
        server = VLLMServer(config.servers.get(name, config.server))
        found[name] = by_address.setdefault(server.root, server)
    if not config.lora_rank and len(by_address) < len(names):
        first, second = next((a, b) for a in names for b in names if a < b and found[a] is found[b])
        raise OptionError(
            f"Whole weights of the policies {first!r} and {second!r} would replace one another on the server at "
            f"{found[first].client.url}. Give each a server of its own (`--servers {first} URL {second} URL`), or "
            "train adapters (`--lora-rank`), of which one server holds many, or one policy for all agents (`--share`)."
        )
    return ServedTeam(found, config.output / "weights")
