"""The optimiser and the learning rate of learners that do not use TRL's trainers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from toolorchestra.algos.options.options import LearnerOptions, Schedule


def make_optimizer(parameters: Iterable[nn.Parameter], config: LearnerOptions) -> torch.optim.Optimizer:
    """Return the optimiser of a policy's parameters that learn."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(learning, lr=config.rate, betas=(0.9, 0.95), weight_decay=0.0)
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(config.output),
        optim=config.optimizer,
        learning_rate=config.rate,
        adam_beta2=0.95,
        use_cpu=not torch.cuda.is_available(),
        report_to=[],
    )
    kind, options = Trainer.get_optimizer_cls_and_kwargs(arguments)
    made: torch.optim.Optimizer = kind(learning, **options)
    return made


def rate_factor(config: LearnerOptions, batches: int) -> Callable[[int], float]:
    """Return what gives the share of the learning rate in each of so many batches, counted from 0."""
    from transformers import get_scheduler

    schedule, warmup = config.lr_scheduler_type or "constant", config.warmup_steps or 0
    unused = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    made: Any = get_scheduler(scheduler_name(schedule, warmup), unused, warmup, batches)
    factor: Callable[[int], float] = made.lr_lambdas[0]
    return factor


def scheduler_name(schedule: Schedule, warmup: int) -> str:
    """Return the name that transformers has for a schedule; a constant one leaves out the warm-up."""
    return "constant_with_warmup" if schedule == "constant" and warmup else schedule
