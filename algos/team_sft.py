"""SFT of the agents of a game, each on its own side of episodes (TMATR-HRL §4.1, App. D): recorded, or of a teacher.

An agent learns the messages that it wrote in the solved episodes, after what it had read. Each policy is a run of its
own in the folder ``OUTPUT/POLICY``; what they learnt is together in ``OUTPUT/final``, from which `train tmatr --start`
and the other learners of several agents go on. Built-in models are made of the words of the episodes and of the tasks.
Not covered: the stages in which built-in models learn in the warm start of those learners
(`toolorchestra.algos.data.warm_start`).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from toolorchestra.agents.builtin.model import TokenPolicy, prepare_torch
from toolorchestra.agents.builtin.text_model import builtin_text_policy
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.algos.activity import Watch
from toolorchestra.algos.data.demonstrations import Candidates, Demonstration, until_last_action
from toolorchestra.algos.data.drawn_rows import DemonstrationPool, DrawnRows, Rows
from toolorchestra.algos.data.warm_start import exchanged_rows, taught_sides
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.options.one_agent import TrainSFT
from toolorchestra.algos.options.precision import require_hardware, start_policy
from toolorchestra.algos.options.several_agents import SHARED
from toolorchestra.algos.trainer import Report
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.records.episode import read_episodes
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.starts import json_or_text
from toolorchestra.envs.teachers import demonstration_options
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.writing import make_folder, whole_folder

Teach = Callable[[TrainSFT, Report, Watch], TokenPolicy]
"""Makes or loads a policy and teaches it, as the options of its run say."""
Fit = Callable[[TokenPolicy, Rows, TrainSFT, Report, Watch], None]
"""Trains a policy in place on rows."""


def train(config: TrainSFT, run: Callable[[TrainSFT, Teach], None], fit: Fit) -> None:
    """Teach every policy on its side of the episodes, and gather them in ``final``.

    Args:
        config: Options of all runs; each policy has a folder of its own.
        run: Makes the run of a policy and saves what it learnt.
        fit: Trains a policy on its rows.

    Raises:
        OptionError: No episode was solved, one has other agents, or an agent has no model.
    """
    require_hardware(config)
    distributed.start()
    prepare_torch(config.torch_threads)
    env = _make_env(config)
    try:
        _teach_all(config, env, run, fit)
    finally:
        env.close()


def _make_env(config: TrainSFT) -> MultiAgentEnv:
    """Return the environment; where the teacher plays for built-in models, with its options."""
    options = {name: json_or_text(value) for name, value in config.environment_options.items()}
    if config.small and not config.episodes:
        options = demonstration_options(config.env, options)
    return make_multiagent(config.env, **options)


def _teach_all(config: TrainSFT, env: MultiAgentEnv, run: Callable[[TrainSFT, Teach], None], fit: Fit) -> None:
    """Teach every policy in a run of its own, and gather them in ``final``."""
    sides = _sides(config, env)
    words: list[Sequence[Message]] = []
    if config.small:  # all sides are made first, as the words of the model are theirs
        made = distributed.from_main(lambda: {name: candidates.all() for name, candidates in sides.items()})
        if silent := [name for name, found in made.items() if not found]:
            raise OptionError(
                f"No episode of the teacher in which {silent[0]} writes was solved: give solved `episodes`."
            )
        sides, words = {name: Candidates.of(found) for name, found in made.items()}, _words(env, made)
    models = {name: _model_of(config, name) for name in sides}
    for name, demonstrations in sides.items():
        own = replace(config, output=config.output / name, model=models[name], models={}, resume=False)
        if config.resume and (own.output / "final").is_dir():
            continue
        own.resume = config.resume and (own.output / "metrics.jsonl").exists()
        run(own, partial(_teach, demonstrations, words, fit))
    if distributed.is_main():
        for name in sides:
            target = make_folder(config.output / "final") / name
            shutil.rmtree(target, ignore_errors=True)
            with whole_folder(target) as draft:
                shutil.copytree(config.output / name / "final", draft, dirs_exist_ok=True)
    distributed.wait()


def _sides(config: TrainSFT, env: MultiAgentEnv) -> dict[str, Candidates]:
    """Return what each policy may learn from, recorded or of the protocol's teacher, by the policy's name."""
    if config.episodes:
        recorded = distributed.from_main(lambda: recorded_sides(config, env))
        return {name: Candidates.of(found) for name, found in recorded.items()}
    return taught_sides(env, config.levels, partial(_policy_of, config), seed=config.seed, replays=config.replays)


def _policy_of(config: TrainSFT, agent: str) -> str:
    return SHARED if config.share else agent


def recorded_sides(config: TrainSFT, env: MultiAgentEnv) -> dict[str, list[Demonstration]]:
    """Return what each policy learns from: the sides of its agents in the solved episodes, by the policy's name."""
    agents = env.possible_agents
    found: dict[str, list[Demonstration]] = {_policy_of(config, agent): [] for agent in agents}
    for file in config.episodes:
        for episode in read_episodes(file):
            if episode.outcome != "solved":
                continue
            if other := [agent for agent in episode.agents if agent not in agents]:
                raise OptionError(
                    f"{file}: {UnknownNameError('agent', other[0], agents)} Give the environment and the options with "
                    "which the episodes were recorded."
                )
            for agent in episode.agents:
                if messages := until_last_action(episode.history(agent)):
                    side = Demonstration(messages, (), episode.difficulty)
                    found[_policy_of(config, agent)].append(side)
    if silent := [name for name, sides in found.items() if not sides]:
        raise OptionError(
            f"No solved episode in {', '.join(map(str, config.episodes))} in which {silent[0]} wrote a message."
        )
    return found


def _model_of(config: TrainSFT, name: str) -> str | None:
    """Return the model of a policy; None for a built-in one, which none or all of them are."""
    model = config.models.get(name, config.model)
    if model is None and config.models:
        known = ", ".join(config.models)
        raise OptionError(f"`models` has none for {name!r}, only for {known}: give one for each, or a `model` for all.")
    return model


def _words(env: MultiAgentEnv, sides: Mapping[str, Sequence[Demonstration]]) -> list[Sequence[Message]]:
    """Return the conversations whose words a built-in model knows."""
    tasks: list[Sequence[Message]] = [
        ({"role": "user", "content": task.instruction},) for task in env.source.tasks("all")
    ]
    return [*tasks, *(side.messages for own in sides.values() for side in own)]


def _teach(
    sides: Candidates, words: Sequence[Sequence[Message]], fit: Fit, config: TrainSFT, report: Report, watch: Watch
) -> TokenPolicy:
    """Make or load a policy, teach it its side of the episodes, and return it."""
    count = config.steps * config.batch
    rows: Rows
    if config.model:
        policy = start_policy(config, config.model)
        rows = DrawnRows(count, config.seed, [DemonstrationPool(sides, policy)])
    else:
        policy = builtin_text_policy(words, seed=config.seed)
        rows = exchanged_rows(policy, sides.all(), count, random.Random(config.seed))
    if config.steps:
        config.set_up(policy.model)
        fit(policy, rows, config, report, watch)
    return policy
