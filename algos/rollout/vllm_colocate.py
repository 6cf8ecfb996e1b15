"""Sampling by vLLM in the process of the training, on a GPU that both share.

The engine is the one that TRL's trainer makes, which also brings the weights into it
(`toolorchestra.algos.rollout.generation`). Not covered: tensor parallelism, whose ranks must ask alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos.rollout.sampling import Sample, draw_key


class ColocatedSampler:
    """Samples from the model of a `vllm.LLM`, whose log-probabilities are processed ones.

    Args:
        llm: The engine.
        renderer: Says which ids stop a turn.
        temperature: 0 means greedy.
        seed: With the key of a prompt it gives the seed of what is drawn for it.
    """

    def __init__(self, llm: Any, renderer: Renderer, *, temperature: float = 1.0, seed: int = 0) -> None:
        self.llm, self.stops, self.temperature, self.seed = llm, list(renderer.stop_ids), temperature, seed

    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        """Continue each prompt until a stop id or its limit."""
        from vllm import SamplingParams

        samples = [Sample([], []) for _ in prompts]
        wanted = [row for row, limit in enumerate(limits) if limit > 0]
        settings = [
            SamplingParams(
                max_tokens=limits[row],
                temperature=self.temperature,
                seed=draw_key(self.seed, keys[row]) >> 1,  # vLLM takes 63 bits
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
