"""The rollout engine for several agents: plays many episodes in lockstep, and lets them branch.

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
from toolorchestra.algos import ranks
from toolorchestra.algos.rollout.engine import INVALID_OUTCOMES
from toolorchestra.algos.rollout.sampling import Sampler
from toolorchestra.algos.rollout.starts import Start
from toolorchestra.algos.rollout.trajectory import TokenTrajectory
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.play import Play


@dataclass(slots=True)
class Slot:
    """An episode being played, and the token trajectories of its agents.

    It is `broken` if an agent ran out of ids, and then counts as failed. With a `name` of its own, its samples do not
    depend on the slots that are played at the same time.
    """

    play: Play
    trajectories: dict[str, TokenTrajectory]
    broken: bool = False
    name: str | None = None

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

    def fork(self, branch: int = 0) -> Slot:
        """Return an independent slot in the same state, whose name is that of a branch of this one."""
        trajectories = {agent: trajectory.fork() for agent, trajectory in self.trajectories.items()}
        name = None if self.name is None else f"{self.name}.{branch}"
        return Slot(self.play.branch(), trajectories, self.broken, name)


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
        slots: int = 128,
        max_turn_ids: int = 512,
        max_ids: int = 32_000,
    ) -> None:
        self.env, self.policies, self.renderers = env, dict(policies), dict(renderers)
        self.slots, self.max_turn_ids, self.max_ids = slots, max_turn_ids, max_ids
        self.generated: Counter[str] = Counter()

    def token_counts(self) -> dict[str, float]:
        """Return `generated` of all processes as metrics."""
        everywhere = ranks.gather(self.generated)
        return {f"{name}_tokens": float(sum(counts[name] for counts in everywhere)) for name in self.renderers}

    def start(self, start: Start, name: str | None = None) -> Slot:
        """Start an episode and return its slot, with a name if one is given."""
        self.env.reset(seed=start.seed, options=start.reset_options())
        return Slot(self.env.play.branch(), {agent: TokenTrajectory() for agent in self.env.possible_agents}, name=name)

    def play(
        self,
        samplers: Mapping[str, Sampler],
        slots: Sequence[Slot],
        until: Callable[[Slot], bool] = lambda slot: False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Continue every slot until it is over, or until `until`, called before each of its turns, is true of it.

        Before each turn `progress` is called with the number of slots that are over.
        """
        while True:
            progress(sum(slot.over for slot in slots))
            playing: dict[str, list[Slot]] = {name: [] for name in self.renderers}
            for slot in slots:
                if not slot.over and not until(slot):
                    playing[self.policies[slot.play.current_agent]].append(slot)
            if not any(playing.values()):
                return
            for policy, several in playing.items():
                for first in range(0, len(several), self.slots):
                    self._turn(samplers[policy], policy, several[first : first + self.slots])

    def _turn(self, sampler: Sampler, policy: str, slots: Sequence[Slot]) -> None:
        renderer = self.renderers[policy]
        ready = []
        for slot in slots:
            trajectory = slot.read(renderer)
            slot.broken = len(trajectory.ids) >= self.max_ids
            if not slot.broken:
                ready.append((slot, trajectory))
        if not ready:
            return
        prompts = [trajectory.ids for _, trajectory in ready]
        limits = [min(self.max_turn_ids, self.max_ids - len(prompt)) for prompt in prompts]
        if all(slot.name is not None for slot, _ in ready):
            turns = [f"{slot.name}/{len(slot.play.episode.turns)}" for slot, _ in ready]
            samples = sampler(prompts, limits, turns)
        else:
            samples = sampler(prompts, limits)
        for (slot, trajectory), sample in zip(ready, samples, strict=True):
            self.generated[policy] += len(sample.ids)
            trajectory.write(sample)
            slot.play.act(renderer.decode_action(sample.ids, ()).action)
            slot.play.sampled(sample.ids, sample.logprobs)
