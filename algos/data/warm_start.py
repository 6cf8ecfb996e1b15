"""The warm start of several agents: they learn their roles from a teacher's demonstrations.

The teacher of a protocol (`toolorchestra.envs.teachers`) plays all agents; each side of an episode is a demonstration.
A given model learns the sides of its agents in solved episodes (`taught_sides`). One built-in model learns every role,
in stages (`staged_rows`): in the last one the teacher makes injected errors, so that the model learns to write
messages, and is left to improve its decisions in training (`toolorchestra.algos.trainer`).
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.algos.data.augmentation import LabelledRow, exchange_numbers, labelled
from toolorchestra.algos.data.demonstrations import Candidates, Demonstration, encode, until_last_action
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.teachers import Teacher, teacher_of
from toolorchestra.toolscale.common.errors import OptionError

STAGES = 5
"""Stages of the demonstrations: ever harder; the last is of the environment itself, with injected errors."""
REPLAYS = 4
"""Episodes of the teacher of each task that a given model learns from."""
_DIGITS = 4  # of a number that is exchanged for others: longer ones are rarely values
_FORM = 0.9  # a number in more than this share of episodes is part of their form ("turn 2 of 3"), and no value
_MESSAGES = 3  # of an episode at least: so many episodes as a third of the rows give enough to draw from


ErrorRate = float | Callable[[Any], float]
"""Probability of an injected error in a message; a function gives it for a play whose current agent is to write."""


def teacher_demonstrations(
    env: MultiAgentEnv, teacher: Teacher, starts: Sequence[EpisodeStart], error: ErrorRate, rng: random.Random
) -> list[Demonstration]:
    """Return the teacher's demonstrations, one of each agent's side, in the episodes of these starts.

    The teacher plays all agents; `error` is the probability of an injected error in a message.
    """
    found = []
    for start in starts:
        env.reset(seed=rng.getrandbits(31), options=start.options)
        play = env.play
        while not play.over:
            rate = error(play) if callable(error) else error
            play.act(teacher.inject_error(play, rng) if rng.random() < rate else teacher.teach(play))
        solved = play.episode.outcome == "solved"
        for agent, history in play.histories.items():
            earlier: list[Message] = []
            for one in (*play.closed_histories.get(agent, ()), history):
                context = _common_actions(earlier, one)
                if len(messages := until_last_action(one)) > context:
                    found.append(Demonstration(messages, (), play.task.difficulty, solved, context, agent))
                earlier = one
    return found


def taught_sides(
    env: MultiAgentEnv, levels: Sequence[int], policy_of: Callable[[str], str], *, seed: int, replays: int = REPLAYS
) -> dict[str, Candidates]:
    """Return what each policy may learn from the teacher's episodes, by the policy's name: the sides of its agents.

    Args:
        env: The environment.
        levels: Levels of the tasks; none: all.
        policy_of: Returns the name of an agent's policy.
        seed: Source of randomness.
        replays: Episodes of each task.

    Raises:
        OptionError: The protocol has no teacher, or it knows no task of these levels.
    """
    teacher = teacher_of(env)
    tasks = [task for task in env.source.tasks("train") if not levels or task.difficulty in levels]
    known = [EpisodeStart(0, {"task_id": task.id}) for task in tasks if teacher.knows(task)]
    if not known:
        raise OptionError(
            f"The teacher of {env.protocol} knows none of {len(tasks)} tasks of {env.source.name}. Give other tasks "
            "(`difficulty`, `env`), recorded episodes, or models that can play them already."
        )

    @functools.cache
    def played(number: int) -> list[Demonstration]:
        start, rng = known[number % len(known)], random.Random(f"{seed}/{number}")
        return [one for one in teacher_demonstrations(env, teacher, [start], 0.0, rng) if one.solved]

    def sides(name: str) -> Candidates:
        return Candidates(
            replays * len(known), lambda number: [one for one in played(number) if policy_of(one.agent) == name]
        )

    return {name: sides(name) for name in dict.fromkeys(map(policy_of, env.possible_agents))}


def _common_actions(earlier: Sequence[Message], history: Sequence[Message]) -> int:
    """Return how many messages of a history end with the last action that was written in an earlier one."""
    known = set(map(id, earlier))
    own = (n for n, message in enumerate(history) if message["role"] == "assistant" and id(message) in known)
    return max((n + 1 for n in own), default=0)


def staged_rows(
    make_env: Callable[[float], MultiAgentEnv],
    starts: Sequence[EpisodeStart],
    policy: TokenPolicy,
    *,
    rows: int,
    error: ErrorRate,
    rng: random.Random,
    erring: int = 1,
) -> list[LabelledRow]:
    """Return rows of (ids, labels) in the order in which they are trained on: harder ones later, injected errors last.

    Args:
        make_env: Makes the environment as hard as a number between 0 and 1 says.
        starts: Where episodes begin.
        policy: The policy that learns.
        rows: How many.
        error: Probability of an injected error in a message of the last stages.
        rng: Source of randomness.
        erring: How many of the last stages have injected errors.
    """
    made: list[LabelledRow] = []
    for stage in range(STAGES):
        env = make_env(min(1.0, stage / (STAGES - 2)))
        count = rows * (stage + 1) // STAGES - len(made)
        plays = [rng.choice(starts) for _ in range(count // _MESSAGES + 1)]
        rate = error if stage >= STAGES - erring else 0.0
        demonstrations = teacher_demonstrations(env, teacher_of(env), plays, rate, rng)
        made += exchanged_rows(policy, demonstrations, count, rng)
    return made


def exchanged_rows(
    policy: TokenPolicy, demonstrations: Sequence[Demonstration], count: int, rng: random.Random
) -> list[LabelledRow]:
    """Return rows drawn from demonstrations, in each of which the numbers that are copied are exchanged for others."""
    sides = [encode(policy.renderer, demonstration) for demonstration in demonstrations]
    vocabulary = policy.tokenizer.get_vocab().items()
    numbers = sorted(i for token, i in vocabulary if token.isdigit() and len(token) <= _DIGITS)
    occurrences = Counter(i for ids, _ in sides for i in set(ids))
    values = [number for number in numbers if occurrences[number] < _FORM * len(sides)]
    made = []
    for _ in range(count):
        ids, mask = rng.choice(sides)
        made.append(labelled(exchange_numbers(ids, mask, values, rng), mask))
    return made
