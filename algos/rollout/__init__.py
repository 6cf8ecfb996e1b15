"""Rollouts: environments played with policies, as token ids.

    sampling       samples ids from a causal language model, or by whatever else is a `Sampler`
    vllm_server    asks a vLLM server for completions of ids, and brings weights to it
    vllm_sampler   samples by a vLLM server, or by vLLM in the process of the training
    generation     which of these a learner uses, and how they get its weights
    trajectory     what an agent has read and written, as ids; rows to train on
    engine         plays environments of one agent, many at a time
    multi_agent    plays environments of several agents, many at a time, and lets episodes branch

How rewards become advantages is up to the learners.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
