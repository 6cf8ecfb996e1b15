"""What goes on beside the steps of TRL's trainers; imported when one is made, for it takes seconds to import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

if TYPE_CHECKING:
    from toolorchestra.algos.grpo import Rollouts
    from toolorchestra.algos.sft import Report


class Reporter(TrainerCallback):
    """Reports the loss of each step."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Pass on the trainer's numbers."""
        if logs and "loss" in logs:
            self.report(state.global_step, {"loss": float(logs["loss"]), "learning_rate": float(logs["learning_rate"])})


class Bookkeeper(TrainerCallback):
    """Reports each batch of rollouts, and keeps the curriculum beside each checkpoint."""

    def __init__(self, rollouts: Rollouts, report: Report) -> None:
        self.rollouts, self.report = rollouts, report

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Join the trainer's numbers with those of the rollouts."""
        wanted = {"loss": "loss", "grad_norm": "grad_norm", "entropy": "entropy", "clip_ratio/region_mean": "clipped"}
        extra = {ours: float(logs[theirs]) for theirs, ours in wanted.items() if logs and theirs in logs}
        if "loss" in extra:
            self.report(state.global_step // self.rollouts.config.updates, {**self.rollouts.metrics, **extra})

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write the curriculum into the checkpoint."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (folder / "curriculum.json").write_text(json.dumps(self.rollouts.curriculum.state()), encoding="utf-8")
