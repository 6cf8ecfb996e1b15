"""Sampling by vLLM in the process of the training, on a GPU that both share.

The engine is the one that TRL's trainer makes, which also brings the weights into it
(`toolorchestra.algos.rollout.generation`). Not covered: tensor parallelism, whose ranks must ask alike.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos.rollout.sampling import Sample


class ColocatedSampler:
    """Samples from the model of a `vllm.LLM`, whose log-probabilities are processed ones.

    Args:
        llm: The engine.
        renderer: Says which ids stop a turn.
        temperature: 0 means greedy.
        seed: With the key of a turn it gives the seed of a prompt.
    """

    def __init__(self, llm: Any, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> None:
        self.llm, self.stops, self.temperature, self.seed = llm, list(renderer.stop_ids), temperature, seed
        self._keys = itertools.count()

    def __call__(
        self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int] | None = None
    ) -> list[Sample]:
        """Continue each prompt until a stop id or its limit; without `keys`, prompts are counted."""
        from vllm import SamplingParams

        keys = list(itertools.islice(self._keys, len(prompts))) if keys is None else keys
        samples = [Sample([], []) for _ in prompts]
        wanted = [row for row, limit in enumerate(limits) if limit > 0]
        settings = [
            SamplingParams(
                max_tokens=limits[row],
                temperature=self.temperature,
                seed=random.Random(f"{self.seed}/{keys[row]}").getrandbits(63),
                stop_token_ids=self.stops,
                ignore_eos=True,  # its own are those of the generation config, which may be fewer
                logprobs=0,
                detokenize=False,
            )
            for row in wanted
        ]
        given = [{"prompt_token_ids": list(prompts[row])} for row in wanted]
        for row, answer in zip(wanted, self.llm.generate(given, settings, use_tqdm=False), strict=True):
            (output,) = answer.outputs
            ids = list(output.token_ids)
            samples[row] = Sample(
                ids, [places[token].logprob for token, places in zip(ids, output.logprobs, strict=True)]
            )
        return samples
