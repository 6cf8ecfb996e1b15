"""Games of MSARL for verifiers: `vf-eval toolorchestra_msarl --env.taskset.game MSARL-Math-v0`."""

from toolorchestra.envs.bridges.verifiers import VerifiersMSARL, VerifiersTaskset

__all__ = ["VerifiersMSARL", "VerifiersTaskset"]
