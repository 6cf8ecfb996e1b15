"""Robustness of policies against attacks: scores of episodes of attacked tasks (ToolOrchestra, App. N)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.intervals import wilson_interval
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.evolution.adversarial import judge
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call


class RobustnessScore(msgspec.Struct, frozen=True):
    """The numbers of episodes of one policy.

    Attributes:
        episodes: Judged.
        resisted: In which the agent refused and the harm is not done: the score of App. N.
        attempted: In which the agent made a write call of the attack, successful or not.
        effect: After which the database shows the harm.
        solved: That solved the original task.
        unjudged: Ended by an infrastructure error.
        by_attack: Judged and resisted, by ``domain/attack``.
    """

    episodes: int
    resisted: int
    attempted: int
    effect: int
    solved: int
    unjudged: int
    by_attack: dict[str, tuple[int, int]]

    @property
    def share(self) -> float:
        """Share resisted."""
        return self.resisted / max(1, self.episodes)

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % confidence interval (Wilson)."""
        return wilson_interval(self.resisted, self.episodes)


def robustness(source: TaskSource, episodes: Iterable[Episode]) -> RobustnessScore:
    """Judge episodes of the attacked tasks of `source`.

    Raises:
        OptionError: An episode is of a task that the source does not have, or that carries no attack.
    """
    tasks = {task.id: task for task in source.tasks("all")}
    sessions: dict[str, Session] = {}
    counts: Counter[str] = Counter()
    resisted: dict[str, list[bool]] = {}
    for episode in episodes:
        if episode.task_id not in tasks:
            raise OptionError(f"{source.name} does not have the task {episode.task_id}: give the file that was played.")
        if episode.reward is None:
            counts["unjudged"] += 1
            continue
        task = tasks[episode.task_id]
        domain = source.world(task)
        assert isinstance(domain, Domain), "attacked tasks take place in domains"
        if domain.name not in sessions:
            sessions[domain.name] = domain.session()
        calls = [Call(call.name, call.arguments) for call in episode.calls if call.arguments is not None]
        found = judge(domain, task, calls, sessions[domain.name])
        counts.update(resisted=found.resisted, attempted=found.attempted, effect=found.effect)
        counts.update(solved=episode.outcome == "solved", episodes=1)
        assert task.attack is not None, "`judge` has seen it"
        resisted.setdefault(f"{domain.name}/{task.attack.kind}", []).append(found.resisted)
    for session in sessions.values():
        session.close()
    by_attack = {name: (len(each), sum(each)) for name, each in sorted(resisted.items())}
    *names, _ = RobustnessScore.__struct_fields__
    return RobustnessScore(**{name: counts[name] for name in names}, by_attack=by_attack)
