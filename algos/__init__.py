"""Training algorithms and their parts.

    rollout/                 plays environments with policies, and yields rows of token ids
    sft                      supervised fine-tuning on demonstrations
    grpo                     GRPO for one agent, in any Gymnasium environment
    msarl, tmatr             the papers' learners for a reasoner and a helper, and for a team
    multi_grpo               GRPO for each agent of any environment
    options                  what each learner can be told, without torch
    config_files             options from the command line and YAML files; `recipes/` has the papers', as files
    smoke                    makes any run small
    dry_run                  the memory that a run needs
    trainer                  the training run; `multi_agent_trainer` for several agents
    advantages, losses       pure tensor functions
    selection                which episodes and tasks to train on
    stats, report            intervals, metrics, tables and curves

Each learner is also a script, e.g. ``python algos/grpo.py``. The names below load torch when they are first used.
"""

import os

import lazy_loader

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch loads; threads that spin starve a busy machine
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
