"""The common start of the systems that the study of MSARL compares: one built-in model that has learnt all their roles.

So no system begins with better weights than another. The demonstrations of each are as many, and with as many mistakes
as its own `sft_error` says, which are injected in the last stage (`toolorchestra.algos.warm_start`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolorchestra.agents.builtin.model import prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.algos import sft
from toolorchestra.algos.multi_agent_trainer import SFT_BATCH, SFT_RATE, known_tasks
from toolorchestra.algos.options_several_agents import TrainTeam
from toolorchestra.algos.warm_start import staged_rows, teacher_demonstrations, teacher_of
from toolorchestra.toolscale.writing import whole_folder

_WORDS = 100  # tasks whose demonstrations have all words


def make_start(configs: Sequence[TrainTeam], folder: Path, *, steps: int, seed: int) -> None:
    """Make a model, teach it the roles of all systems, and write it into a folder as each policy that they name.

    Args:
        configs: The options of each system's learner.
        folder: Where the policies go; learners begin with it by `start`.
        steps: Steps of the teaching.
        seed: Of everything random.
    """
    prepare_torch(1)
    rng = random.Random(seed)
    envs = [config.make_env() for config in configs]
    systems = list(zip(configs, envs, strict=True))
    shown = [
        one
        for config, env in systems
        for one in teacher_demonstrations(env, teacher_of(env), known_tasks(config, env, "train")[:_WORDS], 0.0, rng)
    ]
    policy = builtin_text_policy([one.messages for one in shown], seed=seed)
    count = steps * SFT_BATCH // len(configs)
    taught = [
        staged_rows(
            config.make_env, known_tasks(config, env, "train"), policy, rows=count, error=config.sft_error, rng=rng
        )
        for config, env in systems
    ]
    rows = [row for several in zip(*taught, strict=True) for row in several]
    own = replace(configs[0], lr_scheduler_type=None, warmup_steps=None, seed=seed)
    with whole_folder(folder) as draft:
        sft.fit(policy, rows, own, output=draft / "sft", batch=SFT_BATCH, learning_rate=SFT_RATE)
        for name in {name for config, env in systems for name in config.policies(env)}:
            policy.save(draft / name)
    for env in envs:
        env.close()
