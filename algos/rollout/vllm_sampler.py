"""Sampling by a vLLM server, which is asked for each prompt by itself and batches them.

Not here: requests (`toolorchestra.algos.rollout.vllm_server`), and vLLM in the process of the training
(`toolorchestra.algos.rollout.vllm_colocate`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos.rollout.sampling import Sample, draw_key
from toolorchestra.algos.rollout.vllm_server import VLLMServer


class VLLMSampler:
    """Samples from a model that a vLLM server serves.

    Args:
        server: The server.
        renderer: Says which ids stop a turn.
        model: Name of the model or adapter on the server, or what returns it; None: that of the server's own model.
        temperature: 0 means greedy.
        seed: With the key of a prompt it gives the seed of a request.
    """

    def __init__(
        self,
        server: VLLMServer,
        renderer: Renderer,
        *,
        model: str | Callable[[], str | None] | None = None,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.server, self.stops, self.model = server, list(renderer.stop_ids), model
        self.temperature, self.seed = temperature, seed

    async def sample(self, prompt: Sequence[int], limit: int, key: int) -> Sample:
        """Continue a prompt until a stop id or its limit.

        Same seed, prompt and `key` give the same ids, whatever else the server is asked meanwhile, but for rounding.

        Raises:
            SamplerError: The server failed for good.
        """
        if limit <= 0:
            return Sample([], [])
        return await self.server.complete(
            prompt,
            limit,
            model=(self.model() if callable(self.model) else self.model) or self.server.model,
            temperature=self.temperature,
            seed=draw_key(self.seed, key) >> 1,  # vLLM takes 63 bits
            stops=self.stops,
        )
