"""The rollout engine for several agents: plays many episodes at the same time, and lets them branch.

Each agent of an episode has its own token trajectory: its opening, then in turns the ids that its policy sampled and
the ids of its observations, each encoded once and only ever appended. A slot can be forked in the middle of an episode,
so that what its branches share is generated once. Which branches are made, and how they are credited, is decided by the
learners (`toolorchestra.algos.msarl`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.event_loop import run
from toolorchestra.algos.activity import Watch, unwatched
from toolorchestra.algos.hardware import distributed
from toolorchestra.algos.rollout.sampling import AnySampler, SampleOne, draw_key, sample_one
from toolorchestra.algos.rollout.trajectory import TokenTrajectory, TrainRow, has_room
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.play import Play
from toolorchestra.envs.records.unjudged import (
    INVALID_OUTCOMES,
    EvaluationError,
    no_answer_within,
    unjudged_error,
    unjudged_reason,
)
from toolorchestra.envs.run_episodes import run_each
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.step_threads import StepThreads


@dataclass(slots=True)
class Slot:
    """An episode being played.

    Attributes:
        play: The episode.
        trajectories: The token trajectories of its agents, each of the history that the agent has now.
        closed: Those of the histories that an agent had before (`Play.rewrite`), by agent.
        seed: Of what its policies draw.
        turns: Turns taken.
        forks: Branches that began here; each has a seed of its own.
    """

    play: Play
    trajectories: dict[str, TokenTrajectory]
    seed: int = 0
    turns: int = 0
    forks: int = 0
    closed: dict[str, tuple[TokenTrajectory, ...]] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.play.over

    @property
    def reward(self) -> float:
        """The team's reward once over; NaN after an infrastructure error."""
        reward = self.play.episode.reward
        return math.nan if reward is None else reward

    @property
    def success(self) -> float:
        """1 if solved, else 0, once over; NaN after an infrastructure error."""
        return self._if_valid(float(self.play.episode.outcome == "solved"))

    def agent_reward(self, agent: str) -> float:
        """Return the reward of one agent once over; NaN after an infrastructure error."""
        return self._if_valid(self.play.episode.rewards.get(agent, 0.0))

    def _if_valid(self, value: float) -> float:
        return value if self.valid else math.nan

    @property
    def valid(self) -> bool:
        """Whether the episode says something about the policies."""
        return self.play.episode.outcome not in INVALID_OUTCOMES

    @property
    def unjudged(self) -> str | None:
        """Why it was not judged, once over; None if it was."""
        return unjudged_reason(self.play.episode)

    def read(self, renderer: Renderer) -> TokenTrajectory:
        """Encode what the current agent has observed since it last wrote, and return its trajectory."""
        agent = self.play.current_agent
        trajectory, closed = self.trajectories[agent], self.closed.get(agent, ())
        if len(closed) < len(self.play.closed_histories.get(agent, ())):
            self.closed[agent] = (*closed, trajectory)
            trajectory = self.trajectories[agent] = TokenTrajectory()
        if trajectory.ids:
            trajectory.read(renderer.encode_results(self.play.new_messages(agent), trajectory.last))
        else:
            trajectory.read(renderer.encode_prompt(self.play.histories[agent], ()))
        return trajectory

    @property
    def longest(self) -> int:
        """Ids of the longest of its trajectories."""
        return max(len(trajectory.ids) for trajectory in self.trajectories.values())

    @property
    def calls(self) -> int:
        """Tool calls so far."""
        return sum(1 for _ in self.play.episode.calls)

    def written(self, agent: str) -> list[TokenTrajectory]:
        """Return all token trajectories of an agent: one, and one more for each time that its history was rewritten."""
        return [*self.closed.get(agent, ()), self.trajectories[agent]]

    def rows(self, agent: str) -> list[TrainRow]:
        """Return what an agent wrote as rows to train on."""
        rows = (trajectory.row() for trajectory in self.written(agent))
        return [row for row in rows if row is not None]

    def rows_since(self, trunk: Slot, agent: str, *, first: bool = False) -> list[TrainRow]:
        """Return what an agent wrote after this slot was forked from `trunk`; with `first`, only its first message."""
        before, rows = trunk.written(agent), list[TrainRow]()
        for number, trajectory in enumerate(self.written(agent)[len(before) - 1 :]):
            row = trajectory.row(0 if number else len(before[-1].ids), first=first)
            rows += [] if row is None else [row]
        return rows[:1] if first else rows

    def fork(self) -> Slot:
        """Return an independent slot in the same state, in which other ids will be drawn."""
        trajectories = {agent: trajectory.fork() for agent, trajectory in self.trajectories.items()}
        self.forks += 1
        seed = draw_key(self.seed, self.forks)
        return Slot(self.play.branch(), trajectories, seed, self.turns, closed=dict(self.closed))

    def again(self) -> Callable[[int], None]:
        """Return what takes the slot back to its present state; the number of the attempt says what it draws then."""
        snapshot, turns, seed = self.play.snapshot(), self.turns, self.seed
        written = {agent: trajectory.fork() for agent, trajectory in self.trajectories.items()}
        closed = dict(self.closed)

        def begin(attempt: int) -> None:
            self.play = snapshot.restored(self.play.session)
            self.trajectories = {agent: trajectory.fork() for agent, trajectory in written.items()}
            self.closed = dict(closed)
            self.turns, self.seed = turns, draw_key(seed, -attempt)  # branches have positive numbers

        return begin


def unjudged_share(slots: Sequence[Slot]) -> float:
    """Return the share of the episodes of a batch that were not judged.

    Raises:
        EvaluationError: None of them was, so that there is nothing to learn from.
    """
    reasons = [slot.unjudged for slot in slots]
    if None not in reasons:
        raise EvaluationError(f"{unjudged_error(reasons)}. Repair what failed, and go on with `--resume`.")
    return 1 - reasons.count(None) / len(reasons)


class MultiAgentEngine:
    """Plays slots in lockstep: the slots in which one policy has the turn are continued in one batch.

    Args:
        env: Where episodes begin; it is reset for each.
        policies: Name of the policy of each agent; agents may share one.
        renderers: Between texts and ids, by policy.
        slots: Maximum of slots continued in one batch.
        max_turn_ids: Maximum of ids of one message.
        max_ids: Maximum of ids of one trajectory.
        retries: How often an episode with one of `INVALID_OUTCOMES` is played again, from where `play` began.
        token_budget: Maximum of ids of all episodes played at the same time, each counted by its longest trajectory,
            unless it is one; None: no such maximum.

    Attributes:
        watch: Shows how far playing is.
        generated: Number of ids that each policy has written, since it was last cleared.
    """

    def __init__(
        self,
        env: MultiAgentEnv,
        policies: Mapping[str, str],
        renderers: Mapping[str, Renderer],
        *,
        in_flight: int = 128,
        max_turn_ids: int = 512,
        max_ids: int = 32_000,
        retries: int = 2,
        token_budget: int | None = None,
    ) -> None:
        self.env, self.policies, self.renderers = env, dict(policies), dict(renderers)
        self.in_flight, self.max_turn_ids, self.max_ids, self.retries = in_flight, max_turn_ids, max_ids, retries
        self.token_budget = token_budget
        self.generated: Counter[str] = Counter()
        self.watch: Watch = unwatched

    def token_counts(self) -> dict[str, float]:
        """Return `generated` of all processes as metrics."""
        everywhere = distributed.gather(self.generated)
        return {f"{name}_tokens": float(sum(counts[name] for counts in everywhere)) for name in self.renderers}

    def start(self, start: EpisodeStart) -> Slot:
        """Start an episode and return its slot."""
        self.env.reset(**start.arguments)
        trajectories = {agent: TokenTrajectory() for agent in self.env.possible_agents}
        return Slot(self.env.play.branch(), trajectories, seed=draw_key(start.seed, tuple(start.options.items())))

    def play(
        self,
        samplers: Mapping[str, AnySampler],
        slots: Sequence[Slot],
        until: Callable[[Slot], bool] = lambda slot: False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Continue every slot until it is over, or until `until`, called before each of its turns, is true of it.

        After each turn `progress` is called with the number of slots that are over; by default `watch` is. An episode
        that an infrastructure error ended is played again, `retries` times at most, with other ids drawn.
        """
        samples = {policy: sample_one(sampler) for policy, sampler in samplers.items()}
        over = [slot.over for slot in slots].count(True)
        waiting = (_SlotRun(self, samples, slot, until) for slot in slots if not slot.over)

        async def following() -> _SlotRun | None:
            return next(waiting, None)

        def ended(one: _SlotRun) -> None:
            nonlocal over
            over += one.slot.over

        def room(runs: Sequence[_SlotRun]) -> bool:
            return has_room(self.token_budget, [one.slot.longest for one in runs], self.max_turn_ids)

        with nullcontext(progress) if progress else self.watch("Episodes", len(slots)) as count:
            playing = run_each(
                following,
                ended,
                in_flight=min(self.in_flight, len(slots)),
                retries=self.retries,
                has_room=room,
                progress=lambda: count(over),
            )
            run(playing)
            count(over)


class _SlotRun:
    """A slot that is continued: the run of an episode of several agents, for the loop."""

    def __init__(
        self, engine: MultiAgentEngine, samples: Mapping[str, SampleOne], slot: Slot, until: Callable[[Slot], bool]
    ) -> None:
        self.slot = slot
        self._engine, self._samples, self._until = engine, samples, until

    @property
    def valid(self) -> bool:
        return self.slot.valid

    async def begin(self, attempt: int, steps: StepThreads) -> None:
        if attempt == 0:
            self._again = self.slot.again()
        else:
            self._again(attempt)

    def over(self) -> bool:
        return self.slot.over or self._until(self.slot)

    async def turn(self, steps: StepThreads) -> None:
        """Encode what the current agent has observed, draw its message, and take it."""
        engine, slot = self._engine, self.slot
        policy = engine.policies[slot.play.current_agent]
        renderer = engine.renderers[policy]
        trajectory = slot.read(renderer)
        if len(trajectory.ids) >= engine.max_ids:
            slot.play.stop(no_answer_within(engine.max_ids))
            return
        limit = min(engine.max_turn_ids, engine.max_ids - len(trajectory.ids))
        sample = await self._samples[policy](trajectory.ids, limit, draw_key(slot.seed, slot.turns))
        engine.generated[policy] += len(sample.ids)
        trajectory.write(sample)
        slot.turns += 1

        def act() -> None:
            slot.play.act(renderer.decode_action(sample.ids, ()).action)
            slot.play.sampled(sample.ids, sample.logprobs)

        await steps.run(slot.play, act)
