"""Study of one agent against several on each axis of MASBench, with simulated sub-agents (MAS-Orchestra §4.4).

What the paper trains is scripted here, and one rule serves all axes: an agent for every sub-task (`MirrorPolicy`), so
that differences between axes come from the problems and from the error model alone: that of
`toolorchestra.agents.experts.specification`, with the results that an agent must keep at once as its load
(`KeepingExpert`). Each axis is varied alone: no sub-task has several operands unless breadth is the axis. A
warning takes the place of training on notes. Not here: training itself, and so separate against combined training.
See ``docs/study_masbench.md``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import product

import msgspec

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.algos.studies.masbench_results import MASBenchStudy, ResultCell, markdown, problem_count, write
from toolorchestra.algos.studies.masbench_systems import HALF, MODELS, PLAYED, SYSTEMS, KeepingExpert
from toolorchestra.algos.studies.shared import Tick, done_parts, play_tasks
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.sources.masbench.graph import Axes
from toolorchestra.envs.sources.masbench.sets import COUNTS
from toolorchestra.envs.sources.masbench.source import MASBenchSource
from toolorchestra.toolscale.errors import ExpertError
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.workers.units import Executor, InProcess

__all__ = ["MODELS", "QUESTIONS", "SAMPLES", "episodes", "markdown", "play", "problems", "run", "write"]

QUESTIONS = 400
"""Problems of each value of each axis, by default; a quarter of them with notes."""
SAMPLES = 1
"""Episodes of each problem and system, by default."""
STEP_DIFFICULTY = -2.0
"""Logits of every step, the same for all axes: our choice, since adding numbers below 23 is easier than the steps of
competitions, to which the catalogue's skills are fitted (0). The page has the results of other choices."""


def problems(
    axis: str, value: int, count: int, difficulty: float = STEP_DIFFICULTY, *, alone: bool = True
) -> MASBenchSource:
    """Return `count` test problems of a value of an axis, whose steps all have this difficulty (logits).

    If `alone`, sub-tasks have one operand each unless breadth is the axis; else that is random, up to four, as in the
    published sets.
    """
    axes = Axes(**(({"breadth": 1} if alone else {}) | {axis: value}))
    source = MASBenchSource([axes], train=0, test=count)
    source.tasks("test")[:] = [_with_difficulty(task, difficulty) for task in source.tasks("test")]
    return source


def _with_difficulty(task: Task, difficulty: float) -> Task:
    parts = [part | {"difficulty": difficulty} for part in task.bindings["parts"]]
    return msgspec.structs.replace(task, bindings=dict(task.bindings) | {"parts": parts})


def play(
    axis: str,
    value: int,
    model: str,
    system: str,
    source: MASBenchSource,
    samples: int = SAMPLES,
    *,
    behind: ChatModel | None = None,
    expert: type[SimulatedExpert] = KeepingExpert,
    tick: Tick = lambda: None,
) -> ResultCell:
    """Play all test problems of a source with one of `SYSTEMS`, or `HALF`, so many times each, each with its own seed.

    All agents are of the model `behind`; by default it is the ``weak`` or ``strong`` one of `MODELS`, simulated with
    the error model `expert`. The axis and its value are for the record. Systems are scripts: cost and time are those of
    their agents only.

    Raises:
        ExpertError: The model cannot be reached; then nothing is counted as wrong.
    """
    if behind is None:
        catalog = Catalog.load()
        spec = catalog.spec(MODELS[model])
        if system == HALF:
            spec = msgspec.structs.replace(spec, deceived=spec.deceived / 2)
        behind = SimulatedChat(expert(MODELS[model], spec, shared_noise=catalog.shared_noise))
    policy = SYSTEMS["mirror" if system == HALF else system]()
    env = MASOrchestraEnv(source, model=behind, agents=("CoTAgent", "ReflexionAgent"), orchestrator=None)

    def measure() -> tuple[float, ...]:
        episode = env.episode
        if episode.outcome == "infra_error":
            raise ExpertError(f"{episode.task_id}: {episode.why}")
        design = getattr(env.play, "design", None)
        assert isinstance(design, Design), "scripted designs are valid"
        shape = design.shape
        sizes = (shape.agents, shape.length, shape.width)
        return (float(episode.outcome == "solved"), *sizes, episode.cost, episode.clock)

    found = play_tasks(env, source.tasks("test"), samples, lambda: policy, measure, tick)
    env.close()
    return ResultCell(axis, value, model, system, *found)


def run(
    questions: int = QUESTIONS,
    samples: int = SAMPLES,
    *,
    tick: Tick = lambda: None,
    models: Mapping[str, ChatModel] | None = None,
    difficulty: float = STEP_DIFFICULTY,
    alone: bool = True,
    expert: type[SimulatedExpert] = KeepingExpert,
    played: Mapping[str, Sequence[str]] = PLAYED,
    executor: Executor | None = None,
) -> MASBenchStudy:
    """Play everything; `tick` is called after each episode (`episodes` is their number).

    Of each value of each axis there are so many `questions`, with notes a quarter of them; `difficulty` and `alone` are
    those of `problems`, and `played` are the systems by axis. The agents' models are the ``weak`` and ``strong`` of
    `models`, real ones, or those of `MODELS`, simulated with the error model `expert` (`SimulatedExpert` makes steps
    harder the more there are). With an `executor` its workers play the cells; real `models` must then be such as can be
    sent to them (`toolorchestra.agents.chat.shared.SharedChat`).
    """
    parts = []
    for axis, systems in played.items():
        for value, (model, system) in product(COUNTS[axis]["test"], [*product(MODELS, systems)]):
            if models is not None and system == HALF:
                continue  # how often a real model is deceived cannot be set
            behind = None if models is None else models[model]
            count = problem_count(axis, questions)
            parts.append((axis, value, model, system, count, difficulty, alone, samples, behind, expert))
    calls = ((_played, part) for part in parts)
    cells = list(done_parts(executor or InProcess(), calls, lambda cell: len(cell.right) * samples, tick))
    return MASBenchStudy(questions, samples, cells)


def _played(
    axis: str,
    value: int,
    model: str,
    system: str,
    count: int,
    difficulty: float,
    alone: bool,
    samples: int,
    behind: ChatModel | None,
    expert: type[SimulatedExpert],
    tick: Tick,
) -> ResultCell:
    """Play a cell, in whatever process."""
    source = _problems(axis, value, count, difficulty, alone)
    return play(axis, value, model, system, source, samples, behind=behind, expert=expert, tick=tick)


@functools.lru_cache(maxsize=1)
def _problems(axis: str, value: int, count: int, difficulty: float, alone: bool) -> MASBenchSource:
    """Return the problems of a value of an axis, which systems play one after another."""
    return problems(axis, value, count, difficulty, alone=alone)


def episodes(questions: int, samples: int) -> int:
    """Return how many episodes `run` plays."""
    cells = ((axis, len(COUNTS[axis]["test"]) * len(MODELS) * len(systems)) for axis, systems in PLAYED.items())
    return sum(problem_count(axis, questions) * count for axis, count in cells) * samples
