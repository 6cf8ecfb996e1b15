"""Sampling by vLLM: by a server that batches prompts by itself, or in the process of the training.

Not here: requests (`toolorchestra.algos.rollout.vllm_server`), and how weights get there
(`toolorchestra.algos.rollout.generation`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos.rollout.sampling import Sample, draw_key
from toolorchestra.algos.rollout.vllm_server import VLLMServer


class _VLLM:
    """What both have in common: the settings of a request.

    Args:
        renderer: Says which ids stop a turn.
        temperature: 0 means greedy.
        seed: With the key of a prompt it gives the seed of a request.
    """

    def __init__(self, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> None:
        self.stops, self.temperature, self.seed = list(renderer.stop_ids), temperature, seed

    def settings(self, limit: int, key: int) -> dict[str, Any]:
        """Return what a prompt is continued with, by the names of `vllm.SamplingParams`."""
        return {
            "max_tokens": limit,
            "temperature": self.temperature,
            "seed": draw_key(self.seed, key) >> 1,  # vLLM takes 63 bits
            "stop_token_ids": self.stops,
            "ignore_eos": True,  # its own are those of the generation config, which may be fewer
            "logprobs": 0,
        }


class VLLMSampler(_VLLM):
    """Samples from a model that a vLLM server serves; for the other arguments see `_VLLM`.

    Args:
        server: The server.
        model: Name of the model or adapter on the server, or what returns it; None: that of the server's own model.
    """

    def __init__(
        self,
        server: VLLMServer,
        renderer: Renderer,
        *,
        model: str | Callable[[], str | None] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(renderer, **settings)
        self.server, self.model = server, model

    async def sample(self, prompt: Sequence[int], limit: int, key: int) -> Sample:
        """Continue a prompt until a stop id or its limit.

        Same seed, prompt and `key` give the same ids, whatever else the server is asked meanwhile, but for rounding.

        Raises:
            SamplerError: The server failed for good.
        """
        if limit <= 0:
            return Sample([], [])
        model = (self.model() if callable(self.model) else self.model) or self.server.model
        return await self.server.complete(prompt, model, self.settings(limit, key))


class ColocatedSampler(_VLLM):
    """Samples from the model of a `vllm.LLM`, whose log-probabilities are processed ones.

    The engine is the one that TRL's trainer makes, which also brings the weights into it. Not covered: tensor
    parallelism, whose ranks must ask alike. For the other arguments see `_VLLM`.

    Args:
        llm: The engine.
    """

    def __init__(self, llm: Any, renderer: Renderer, **settings: Any) -> None:
        super().__init__(renderer, **settings)
        self.llm = llm

    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        """Continue each prompt until a stop id or its limit."""
        from vllm import SamplingParams

        samples = [Sample([], []) for _ in prompts]
        wanted = [row for row, limit in enumerate(limits) if limit > 0]
        settings = [SamplingParams(**self.settings(limits[row], keys[row]), detokenize=False) for row in wanted]
        given = [{"prompt_token_ids": list(prompts[row])} for row in wanted]
        for row, answer in zip(wanted, self.llm.generate(given, settings, use_tqdm=False), strict=True):
            (output,) = answer.outputs
            ids = list(output.token_ids)
            samples[row] = Sample(
                ids, [places[token].logprob for token, places in zip(ids, output.logprobs, strict=True)]
            )
        return samples
