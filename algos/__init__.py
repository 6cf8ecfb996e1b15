"""Learners: rollouts, advantages and losses, masked SFT, GRPO, statistics and reports.

Its modules import torch; nothing outside this package imports them unless training is asked for.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch loads; threads that spin starve a busy machine
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
