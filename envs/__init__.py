"""Environments: episodes, executor, rewards, and the Gymnasium and PettingZoo environments made of them."""

from toolorchestra.envs.registration import make_multiagent, multiagent_ids

__all__ = ["make_multiagent", "multiagent_ids"]
