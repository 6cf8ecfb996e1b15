"""Training algorithms and their parts.

    sft                      supervised fine-tuning on demonstrations
    grpo                     GRPO for one agent, in any Gymnasium environment
    msarl, tmatr             the papers' learners for a reasoner and a helper, and for a team
    multi_grpo               GRPO for each agent of any environment
    trainer                  the training run; `multi_agent_trainer` for several agents
    options/                 what each learner can be told; `recipes/` has the papers' trainings as files
    rollout/                 plays environments with policies, and yields rows of token ids
    loss/                    advantages and losses, pure tensor functions
    data/                    demonstrations, their selection, and recordings in other formats
    reporting/               metrics, curves, evaluation, intervals
    hardware/                processes, memory, precision

Each learner is also a script, e.g. ``python algos/grpo.py``. The names below load torch when they are first used.
"""

import logging
import os
import warnings

import lazy_loader

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch loads; threads that spin starve a busy machine
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# TRL and this package use names that all allowed releases of transformers have; those for vLLM have no newer ones
warnings.filterwarnings("ignore", ".*(past_key_values|gradient_checkpointing).* is deprecated and will", FutureWarning)
logging.getLogger("transformers.utils.generic").addFilter(lambda record: "`past_key_values`" not in str(record.msg))

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
