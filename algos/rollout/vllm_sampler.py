"""Sampling by a vLLM server: a coroutine for each prompt, and batches of them.

Not here: requests (`toolorchestra.algos.rollout.vllm_server`), and vLLM in the process of the training
(`toolorchestra.algos.rollout.vllm_colocate`).
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.chat import bounded_requests
from toolorchestra.algos.rollout.sampling import Sample
from toolorchestra.algos.rollout.vllm_server import VLLMServer


class VLLMSampler:
    """Samples from a model that a vLLM server serves.

    Args:
        server: The server.
        renderer: Says which ids stop a turn.
        model: Name of the model or adapter on the server; None: that of the server's own model.
        temperature: 0 means greedy.
        seed: With the key of a turn it gives the seed of a request.
    """

    def __init__(
        self,
        server: VLLMServer,
        renderer: Renderer,
        *,
        model: str | None = None,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.server, self.stops, self.model = server, list(renderer.stop_ids), model
        self.temperature, self.seed = temperature, seed
        self._keys = itertools.count()

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
            model=self.model or self.server.model,
            temperature=self.temperature,
            seed=random.Random(f"{self.seed}/{key}").getrandbits(63),
            stops=self.stops,
        )

    def __call__(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int] | None = None
    ) -> list[Sample]:
        """Continue each prompt until a stop id or its limit, all at the same time.

        Without `keys`, those of all prompts so far are counted.

        Raises:
            SamplerError: The server failed for good; the other requests are given up.
        """
        keys = list(itertools.islice(self._keys, len(prompts))) if keys is None else keys
        return bounded_requests.run(self._batch(prompts, limits, keys))

    async def _batch(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]
    ) -> list[Sample]:
        work = [asyncio.ensure_future(self.sample(*one)) for one in zip(prompts, limits, keys, strict=True)]
        try:
            return list(await asyncio.gather(*work))
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
