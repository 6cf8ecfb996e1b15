"""Games of dialogues for verifiers: `vf-eval toolorchestra_dialogue --env.taskset.game Dialogue-Restaurant-v0`."""

from toolorchestra.envs.bridges.verifiers import VerifiersDialogue, VerifiersTaskset

__all__ = ["VerifiersDialogue", "VerifiersTaskset"]
