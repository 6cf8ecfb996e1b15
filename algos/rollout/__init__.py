"""Rollouts: environments played with policies, as token ids.

    starts         environments by id, and the resets that begin their episodes
    sampling       samples ids from a causal language model
    trajectory     what an agent has read and written, as ids; rows to train on
    engine         plays environments of one agent in lockstep
    multi_agent    plays games of several agents in lockstep, and lets episodes branch

How rewards become advantages is up to the learners.
"""

from toolorchestra.toolscale.faces import lazy_face

_MODULES = {
    "engine": (
        "RolloutEngine",
        "RolloutRequest",
        "Row",
    ),
    "multi_agent": (
        "MultiAgentEngine",
        "Slot",
    ),
    "sampling": (
        "ModelSampler",
        "Sample",
        "Sampler",
    ),
    "starts": (
        "Start",
        "make_env",
    ),
    "trajectory": (
        "TokenTrajectory",
        "TrainRow",
        "row_logps",
    ),
}

__all__ = [
    "ModelSampler",
    "MultiAgentEngine",
    "RolloutEngine",
    "RolloutRequest",
    "Row",
    "Sample",
    "Sampler",
    "Slot",
    "Start",
    "TokenTrajectory",
    "TrainRow",
    "make_env",
    "row_logps",
]

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
