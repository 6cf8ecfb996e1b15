"""Study of one agent against several on each axis of MASBench, with simulated sub-agents (MAS-Orchestra §4.4–4.6, 5).

What the paper trains is scripted here, and one rule serves all axes: an agent for every sub-task (`MirrorPolicy`), so
that differences between axes come from the problems and from the error model alone, which are those of the
environments of these axes. A warning takes the place of training on notes. What else is varied is in
`examples.studies.masbench_systems`. Not here: training itself, and so separate against combined training.
See ``docs/study_masbench.md``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping

import msgspec

from examples.studies.masbench_results import MASBenchStudy, ResultCell, markdown, write
from examples.studies.masbench_systems import HALF, MODELS, SEARCHES, SYSTEMS, Played, SearchesPolicy, everything
from examples.studies.shared import Tick, done_parts, play_tasks
from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.orchestrators import Orchestrator
from toolorchestra.envs.sources.masbench.generate import InstanceSettings
from toolorchestra.envs.sources.masbench.graph import Axes
from toolorchestra.envs.sources.masbench.source import AXIS_SETTINGS, MASBenchSource
from toolorchestra.envs.task_source import TaskSource, question_source
from toolorchestra.toolscale.common.errors import ExpertError
from toolorchestra.toolscale.workers.units import Executor, InProcess

__all__ = ["MODELS", "QUESTIONS", "QUICK", "SAMPLES", "episodes", "markdown", "play", "problems", "run", "write"]

QUESTIONS = 400
"""Problems of each value of each axis, by default; with notes, and under other conditions, a quarter of them."""
SAMPLES = 1
"""Episodes of each problem and system, by default."""
QUICK = (60, 1)
"""Questions and samples of a quick run."""


def problems(axis: str, value: int, count: int, settings: InstanceSettings = AXIS_SETTINGS) -> MASBenchSource:
    """Return `count` test problems of a value of an axis, by default with the settings of the environment."""
    return MASBenchSource([Axes(**{axis: value})], train=0, test=count, settings=settings)


def play(
    played: Played,
    source: TaskSource,
    samples: int = SAMPLES,
    *,
    count: int | None = None,
    behind: ChatModel | None = None,
    tick: Tick = lambda: None,
) -> ResultCell:
    """Play the test problems of a source, all or the first `count`, so many times each, each with its own seed.

    All agents are of the model `behind`; by default it is the ``weak`` or ``strong`` one of `MODELS`, simulated. The
    axis and its value are for the record. Systems are scripts: cost and time are those of their agents only.

    Raises:
        ExpertError: The model cannot be reached; then nothing is counted as wrong.
    """
    if behind is None:
        catalog = Catalog.load()
        name = MODELS[played.model]
        spec = played.condition.changed(catalog.spec(name))
        if played.system == HALF:
            spec = msgspec.structs.replace(spec, deceived=spec.deceived / 2)
        behind = SimulatedChat(SimulatedExpert(name, spec, shared_noise=catalog.shared_noise))
    policy = _policy(played)
    agents = ("SearchAgent",) if played.axis == SEARCHES else ("CoTAgent", "ReflexionAgent")
    limit = played.condition.reply_tokens
    env = MASOrchestraEnv(source, model=behind, agents=agents, reply_tokens=limit, orchestrator=None)

    def measure() -> tuple[float, ...]:
        episode = env.episode
        if episode.outcome == "infra_error":
            raise ExpertError(f"{episode.task_id}: {episode.why}")
        design = getattr(env.play, "design", None)
        assert isinstance(design, Design), "scripted designs are valid"
        shape = design.shape
        sizes = (shape.agents, shape.length, shape.width)
        return (float(episode.outcome == "solved"), *sizes, episode.cost, episode.clock)

    found = play_tasks(env, source.tasks("test")[:count], samples, lambda: policy, measure, tick)
    env.close()
    where = played.axis, played.value, played.model, played.system
    right, sizes, length, width, usd, seconds = found
    return ResultCell(*where, right, sizes, length, width, usd, seconds, played.condition.name)


def _policy(played: Played) -> Orchestrator:
    if played.axis == SEARCHES:
        return SearchesPolicy(width=played.value)
    return SYSTEMS["mirror" if played.system == HALF else played.system]()


def run(
    questions: int = QUESTIONS,
    samples: int = SAMPLES,
    *,
    tick: Tick = lambda: None,
    models: Mapping[str, ChatModel] | None = None,
    settings: InstanceSettings = AXIS_SETTINGS,
    playing: Iterable[Played] | None = None,
    executor: Executor | None = None,
) -> MASBenchStudy:
    """Play everything; `tick` is called after each episode (`episodes` is their number).

    Of each value of each axis there are so many `questions`, with notes and beside the base a quarter of them. The
    agents' models are the ``weak`` and ``strong`` of `models`, real ones, or those of `MODELS`, simulated. `settings`
    are those of the problems, and `playing` is what is played. With an `executor` its workers play the cells; real
    `models` must then be such as can be sent to them (`toolorchestra.agents.chat.shared.SharedChat`).
    """
    parts = []
    for played in everything(simulated=models is None) if playing is None else playing:
        if models is not None and played.system == HALF:
            continue  # how often a real model is deceived cannot be set
        behind = None if models is None else models[played.model]
        where = played.axis, played.value, f"{played.model}, {played.system}", played.condition.name
        parts.append((*where, played, played.problems(questions), settings, samples, behind))
    calls = ((_played, part) for part in parts)
    cells = list(done_parts(executor or InProcess(), calls, lambda cell: len(cell.right) * samples, tick))
    return MASBenchStudy(questions, samples, cells)


def _played(
    axis: str,
    value: int,
    system: str,
    condition: str,
    played: Played,
    count: int,
    settings: InstanceSettings,
    samples: int,
    behind: ChatModel | None,
    tick: Tick,
) -> ResultCell:
    """Play a cell, in whatever process; the first four say which it is, in messages."""
    del system, condition
    source = _problems(axis, value, count, settings, played.condition.difficulty)
    return play(played, source, samples, count=count, behind=behind, tick=tick)


@functools.lru_cache(maxsize=1)
def _problems(axis: str, value: int, count: int, settings: InstanceSettings, difficulty: float) -> TaskSource:
    """Return the problems of a value of an axis, which systems play one after another."""
    if axis == SEARCHES:
        return question_source("MultiHopQA")
    return problems(axis, value, count, dataclasses.replace(settings, difficulty=settings.difficulty + difficulty))


def episodes(questions: int, samples: int) -> int:
    """Return how many episodes `run` plays."""
    return sum(played.problems(questions) for played in everything()) * samples
