"""The check with hostile actions: no action raises, or changes what its valid calls would not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.hostile import hostile_actions
from toolorchestra.envs.world import WorldSession
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.sql import quote
from toolorchestra.toolscale.tool import Status

_CALLS_PER_EPISODE = 10
_EPISODES_BETWEEN_DUMPS = 25


class HostileTrial:
    """Sends hostile actions, and replays the valid calls among them in other sessions to compare the changes."""

    def __init__(self, env: OrchestrationEnv, rng: random.Random) -> None:
        self.env = env
        self.rng = rng
        self.episodes = 0
        self.statuses: Counter[Status] = Counter()
        self.wrong: list[str] = []
        self._sources: dict[str, Iterator[Any]] = {}
        self._twins: dict[str, WorldSession] = {}
        self._over = True

    def step(self) -> None:
        """Send the next action and check the results of the step."""
        if self._over:
            self._begin()
        action = next(self._actions)
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            self._fault(f"step raised {type(error).__name__}: {str(error)[:120]}", action)
            self._over = True
            return
        if info.get("outcome") in ("infra_error", "judge_error"):
            self._fault(f"{info['outcome']}: {info['verdict'][:120]}", action)
        if not self.env.observation_space.contains(observation) or not 0.0 <= float(reward) <= self.env.max_reward:
            self._fault("observation or reward outside its space", action)
        for record in info["calls"]:
            self.statuses[record.status] += 1
            if record.status is not Status.OK and not (record.error or "").strip():
                self._fault(f"{record.name}: {record.status} without a message", action)
        if terminated or truncated or len(self.env.episode.turns) >= _CALLS_PER_EPISODE:
            self.end_episode(whole=self.episodes % _EPISODES_BETWEEN_DUMPS == 0)

    def end_episode(self, *, whole: bool) -> None:
        """Compare the database with one on which only the valid calls were made; `whole`: all of its rows."""
        if self._over:
            return
        self._over = True
        play = self.env.play
        if play.world.name not in self._twins:
            self._twins[play.world.name] = play.world.session()
        twin = self._twins[play.world.name]
        twin.reset()
        for record in self.env.episode.calls:
            if record.status is Status.OK and not play.tools[record.name].uses_episode:
                assert record.arguments is not None
                twin.call(play.tools[record.name], dict(record.arguments))
        if play.session.touched() != twin.touched():
            self.wrong.append(f"{self.env.task.id}: the database changed beyond what its valid calls change")
        elif whole and _rows(play.session) != _rows(twin):
            self.wrong.append(f"{self.env.task.id}: rows changed that no journal has")

    def _begin(self) -> None:
        self.env.reset(seed=self.rng.randrange(2**31), options={"split": "all"})
        self.episodes += 1
        self._over = False
        play = self.env.play
        if play.world.name not in self._sources:
            arguments = Guesser(play.world.database, self.rng).arguments if isinstance(play.world, Domain) else None
            self._sources[play.world.name] = hostile_actions(self.rng, list(play.tools.values()), arguments)
        self._actions = self._sources[play.world.name]

    def _fault(self, message: str, action: Any) -> None:
        try:
            text = repr(action)[:120]
        except RecursionError:
            text = f"a {type(action).__name__} nested too deep to show"
        self.wrong.append(f"{message}; action {text}")


def _rows(session: WorldSession) -> dict[str, list[Any]]:
    """Return all rows of all tables; there are none in a world without a database."""
    if not isinstance(session, Session):
        return {}
    execute = session.connection.execute
    return {table: execute(f"SELECT * FROM {quote(table)}").fetchall() for table in session.database.tables}
