"""Whether there is a ground truth for simulated models to err about.

Where nothing is known of a task, there is none. Where only the answer is known, as in public data sets, simulated
models know it: they err about a guess of its steps, and how often they are right says nothing of the models they stand
for.
"""

from __future__ import annotations

import warnings

from toolorchestra.envs.ground_truth.parts import parts_of
from toolorchestra.envs.world import World
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task


class KnownAnswersWarning(UserWarning):
    """Simulated models play questions of which only the answer is known."""


def check_ground_truth(world: World, task: Task, *, remedy: str, known_answers: bool = False) -> None:
    """Check that simulated models can err about a task.

    Args:
        world: Where the task is posed; in a domain the reference trajectory is the ground truth.
        task: The task.
        remedy: The option by which real models are asked instead, such as ``experts="real"``.
        known_answers: Whether they may know the answer without a warning.

    Raises:
        OptionError: Nothing is known of the task.
    """
    if not (task.answer or task.communicate or task.reference_calls):
        raise OptionError(
            f"{task.id} has neither an answer nor reference calls, so simulated experts have nothing to err about. Ask "
            f"real ones ({remedy}), or give the task an answer."
        )
    if known_answers or isinstance(world, Domain) or parts_of(task):
        return
    warnings.warn(
        f"Of the questions of {task.domain} only the answers are known, not the steps to them: simulated experts know "
        "the answers, and err about a guess of the steps. Their success says nothing about real models. Ask real ones "
        f"({remedy}), or allow it by the option known_answers=True.",
        KnownAnswersWarning,
        stacklevel=2,
    )
