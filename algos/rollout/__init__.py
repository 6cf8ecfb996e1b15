"""Rollouts: environments played with policies, as token ids.

    starts         environments by id, and the resets that begin their episodes
    sampling       samples ids from a causal language model, or by whatever else is a `Sampler`
    trajectory     what an agent has read and written, as ids; rows to train on
    engine         plays environments of one agent, many at a time
    multi_agent    plays environments of several agents, many at a time, and lets episodes branch

How rewards become advantages is up to the learners.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
