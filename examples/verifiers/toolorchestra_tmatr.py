"""Games of TMATR for verifiers: `vf-eval toolorchestra_tmatr --env.taskset.game TMATR-Math-v0`."""

from toolorchestra.envs.bridges.verifiers import VerifiersTaskset, VerifiersTMATR

__all__ = ["VerifiersTMATR", "VerifiersTaskset"]
