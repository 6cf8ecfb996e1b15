"""Learners, and the parts that they are made of.

    rollout/                 plays environments with policies, and yields rows of token ids
    sft                      supervised fine-tuning on demonstrations
    grpo                     GRPO for one agent, in any Gymnasium environment
    msarl, tmatr             the papers' learners for a reasoner and a helper, and for a team
    multi_grpo               GRPO for each agent of any game
    trainer                  the skeleton of a run; `multi_agent_trainer` for several agents
    advantages, losses       pure tensor functions
    selection                which episodes and tasks to train on
    stats, report            intervals, metrics, tables and curves
    studies/                 the papers' comparisons

Each learner is also a script, e.g. ``python algos/grpo.py``. The names below load torch when they are first used.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch loads; threads that spin starve a busy machine
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

_HOMES = {
    "RolloutEngine": "rollout.engine",
    "TrainGRPO": "grpo",
    "TrainMSARL": "msarl",
    "TrainMultiGRPO": "multi_grpo",
    "TrainSFT": "sft",
    "TrainTMATR": "tmatr",
    "clipped_policy_loss": "losses",
    "dpo_loss": "losses",
    "group_advantages": "advantages",
    "nested_advantages": "advantages",
    "select_rl": "selection",
    "select_sft": "selection",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
