"""Rollouts: environments played with policies, as token ids.

    starts         environments by id, and the resets that begin their episodes
    sampling       samples ids from a causal language model
    trajectory     what an agent has read and written, as ids; rows to train on
    engine         plays environments of one agent in lockstep
    multi_agent    plays games of several agents in lockstep, and lets episodes branch

How rewards become advantages is up to the learners.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "ModelSampler": "sampling",
    "MultiAgentEngine": "multi_agent",
    "RolloutEngine": "engine",
    "RolloutRequest": "engine",
    "Row": "engine",
    "Sample": "sampling",
    "Sampler": "sampling",
    "Slot": "multi_agent",
    "Start": "starts",
    "TokenTrajectory": "trajectory",
    "TrainRow": "trajectory",
    "make_env": "starts",
    "row_logps": "trajectory",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
