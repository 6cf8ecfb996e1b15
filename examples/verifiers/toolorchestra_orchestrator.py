"""Games of one agent: `vf-eval toolorchestra_orchestrator --env.taskset.game MASOrchestra-Low-Math-v0`."""

from toolorchestra.envs.bridges.verifiers import VerifiersOrchestrator, VerifiersTaskset

__all__ = ["VerifiersOrchestrator", "VerifiersTaskset"]
