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
from dataclasses import dataclass

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.event_loop import run, together
from toolorchestra.algos import ranks
from toolorchestra.algos.rollout.engine import INVALID_OUTCOMES
from toolorchestra.algos.rollout.sampling import AnySampler, SampleOne, draw_key, sample_one
from toolorchestra.algos.rollout.starts import Start
from toolorchestra.algos.rollout.trajectory import TokenTrajectory
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.play import Play
from toolorchestra.envs.step_threads import StepThreads


@dataclass(slots=True)
class Slot:
    """An episode being played.

    Attributes:
        play: The episode.
        trajectories: The token trajectories of its agents.
        broken: Whether an agent ran out of ids; then it counts as failed.
        seed: Of what its policies draw.
        turns: Turns taken.
        forks: Branches that began here; each has a seed of its own.
    """

    play: Play
    trajectories: dict[str, TokenTrajectory]
    broken: bool = False
    seed: int = 0
    turns: int = 0
    forks: int = 0

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.broken or self.play.over

    @property
    def reward(self) -> float:
        """The team's reward once over; NaN after an infrastructure error."""
        reward = self.play.episode.reward
        return 0.0 if self.broken else math.nan if reward is None else reward

    @property
    def success(self) -> float:
        """1 if solved, else 0, once over; NaN after an infrastructure error."""
        return self._if_valid(float(self.play.episode.outcome == "solved"))

    def agent_reward(self, agent: str) -> float:
        """Return the reward of one agent once over; NaN after an infrastructure error."""
        return self._if_valid(self.play.episode.rewards.get(agent, 0.0))

    def _if_valid(self, value: float) -> float:
        invalid = self.play.episode.outcome in INVALID_OUTCOMES
        return 0.0 if self.broken else math.nan if invalid else value

    def read(self, renderer: Renderer) -> TokenTrajectory:
        """Encode what the current agent has observed since it last wrote, and return its trajectory."""
        agent = self.play.current_agent
        trajectory = self.trajectories[agent]
        if trajectory.ids:
            trajectory.read(renderer.encode_results(self.play.new_messages(agent), trajectory.last))
        else:
            trajectory.read(renderer.encode_prompt(self.play.histories[agent], ()))
        return trajectory

    @property
    def calls(self) -> int:
        """Tool calls so far."""
        return sum(1 for _ in self.play.episode.calls)

    def fork(self) -> Slot:
        """Return an independent slot in the same state, in which other ids will be drawn."""
        trajectories = {agent: trajectory.fork() for agent, trajectory in self.trajectories.items()}
        self.forks += 1
        return Slot(self.play.branch(), trajectories, self.broken, draw_key(self.seed, self.forks), self.turns)


class MultiAgentEngine:
    """Plays slots in lockstep: the slots in which one policy has the turn are continued in one batch.

    Args:
        env: Where episodes begin; it is reset for each.
        policies: Name of the policy of each agent; agents may share one.
        renderers: Between texts and ids, by policy.
        slots: Maximum of slots continued in one batch.
        max_turn_ids: Maximum of ids of one message.
        max_ids: Maximum of ids of one trajectory.

    Attributes:
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
    ) -> None:
        self.env, self.policies, self.renderers = env, dict(policies), dict(renderers)
        self.in_flight, self.max_turn_ids, self.max_ids = in_flight, max_turn_ids, max_ids
        self.generated: Counter[str] = Counter()

    def token_counts(self) -> dict[str, float]:
        """Return `generated` of all processes as metrics."""
        everywhere = ranks.gather(self.generated)
        return {f"{name}_tokens": float(sum(counts[name] for counts in everywhere)) for name in self.renderers}

    def start(self, start: Start) -> Slot:
        """Start an episode and return its slot."""
        self.env.reset(seed=start.seed, options=start.reset_options())
        trajectories = {agent: TokenTrajectory() for agent in self.env.possible_agents}
        return Slot(self.env.play.branch(), trajectories, seed=draw_key(start.seed, start.options))

    def play(
        self,
        samplers: Mapping[str, AnySampler],
        slots: Sequence[Slot],
        until: Callable[[Slot], bool] = lambda slot: False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Continue every slot until it is over, or until `until`, called before each of its turns, is true of it.

        After each turn `progress` is called with the number of slots that are over.
        """
        samples = {policy: sample_one(sampler) for policy, sampler in samplers.items()}
        waiting, over = iter(slots), [slot.over for slot in slots].count(True)
        steps = StepThreads(self.in_flight)

        async def player() -> None:
            nonlocal over
            for slot in waiting:
                while not slot.over and not until(slot):
                    await self._turn(samples, slot, steps)
                    over += slot.over
                    progress(over)

        try:
            run(together(*(player() for _ in range(min(self.in_flight, len(slots))))))
        finally:
            steps.close()
        progress(over)

    async def _turn(self, samples: Mapping[str, SampleOne], slot: Slot, steps: StepThreads) -> None:
        policy = self.policies[slot.play.current_agent]
        renderer = self.renderers[policy]
        trajectory = slot.read(renderer)
        slot.broken = len(trajectory.ids) >= self.max_ids
        if slot.broken:
            return
        limit = min(self.max_turn_ids, self.max_ids - len(trajectory.ids))
        sample = await samples[policy](trajectory.ids, limit, draw_key(slot.seed, slot.turns))
        self.generated[policy] += len(sample.ids)
        trajectory.write(sample)
        slot.turns += 1

        def act() -> None:
            slot.play.act(renderer.decode_action(sample.ids, ()).action)
            slot.play.sampled(sample.ids, sample.logprobs)

        await steps.run(slot.play, act)
