"""Learners: rollouts, advantages and losses, masked SFT, GRPO, statistics and reports.

Its modules import torch; nothing outside this package imports them unless training is asked for.
"""
