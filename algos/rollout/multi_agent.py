"""The rollout engine for games of several agents: plays many in lockstep, and lets them branch.

Each agent of an episode has a stream of ids of its own: its opening, then by turns the ids that its policy sampled and
the ids of what it was told, each encoded once and only ever appended. A slot can be forked in the middle of an episode:
what came before is shared, so its ids are generated once. Which branches are made, and what they are worth, is the
learners' affair (`toolorchestra.algos.msarl`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.algos.length_batching import bundles
from toolorchestra.algos.losses import token_logps
from toolorchestra.algos.rollout.engine import INVALID_OUTCOMES, Sample, Sampler, Start
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.play import Play


@dataclass(frozen=True)
class TrainRow:
    """Ids to train on, and what they are worth.

    Attributes:
        prompt_ids: Ids that are only read.
        completion_ids: Ids after them.
        mask: 1 on those of the completion that the policy wrote and is trained on.
        logprobs: Log-probability of each when drawn; 0 where the mask is 0.
        advantage: Of the row.
    """

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    advantage: float = 0.0


@dataclass(slots=True)
class TokenTrajectory:
    """What one agent has read and written in an episode, as ids.

    Attributes:
        ids: All of them, in order.
        mask: 1 on those that its policy wrote.
        logprobs: Log-probability of each of those when drawn; 0 elsewhere.
        last: What its policy wrote last.
    """

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    last: list[int] = field(default_factory=list)

    def read(self, ids: Sequence[int]) -> None:
        """Append what the agent was told."""
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def write(self, sample: Sample) -> None:
        """Append what its policy wrote."""
        self.ids += sample.ids
        self.mask += [1] * len(sample.ids)
        self.logprobs += sample.logprobs
        self.last = sample.ids

    def fork(self) -> TokenTrajectory:
        """Return a copy that goes on apart."""
        return TokenTrajectory(self.ids.copy(), self.mask.copy(), self.logprobs.copy(), self.last)

    def row(self, since: int = 0, *, first: bool = False) -> TrainRow | None:
        """Return what the policy wrote from position `since` on as a row to train on, or None if that is nothing.

        Args:
            since: Position; all before the first written id from there on is the prompt.
            first: Only up to where the policy first stopped.
        """
        start = next((n for n in range(since, len(self.ids)) if self.mask[n]), None)
        if start is None:
            return None
        end = len(self.ids) - self.mask[::-1].index(1)
        if first:
            end = next((n for n in range(start, end) if not self.mask[n]), end)
        return TrainRow(self.ids[:start], self.ids[start:end], self.mask[start:end], self.logprobs[start:end])


@dataclass(slots=True)
class Slot:
    """An episode being played, and the streams of its agents.

    Attributes:
        play: The episode.
        streams: By agent.
        broken: An agent ran out of ids: the episode counts as failed.
    """

    play: Play
    streams: dict[str, TokenTrajectory]
    broken: bool = False

    @property
    def over(self) -> bool:
        """Whether nobody will move any more."""
        return self.broken or self.play.over

    @property
    def reward(self) -> float:
        """The team's reward once over; NaN after an error of ours."""
        reward = self.play.episode.reward
        if self.broken:
            return 0.0
        return float("nan") if reward is None else reward

    @property
    def success(self) -> float:
        """1 if solved, else 0, once over; NaN after an error of ours."""
        if not self.broken and self.play.episode.outcome in INVALID_OUTCOMES:
            return float("nan")
        return float(not self.broken and self.play.episode.outcome == "solved")

    @property
    def calls(self) -> int:
        """Tool calls so far."""
        return sum(1 for _ in self.play.episode.calls)

    def fork(self) -> Slot:
        """Return a slot in the same state, which goes on apart from this one."""
        streams = {agent: stream.fork() for agent, stream in self.streams.items()}
        return Slot(self.play.branch(), streams, self.broken)


class MultiAgentEngine:
    """Plays slots in lockstep: all whose turn it is of one policy are continued in one batch.

    Args:
        env: Where episodes begin; it is reset for each.
        policies: Name of the policy of each agent; agents may share one.
        codecs: Between texts and ids, by policy.
        slots: Most slots continued in one batch.
        max_turn_ids: Most ids of one message.
        max_ids: Most ids of one stream.

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

    def sit(self, start: Start) -> Slot:
        """Begin an episode and return its slot."""
        self.env.reset(seed=start.seed, options=start.reset_options())
        return Slot(self.env.play.branch(), {agent: TokenTrajectory() for agent in self.env.possible_agents})

    def play(
        self, samplers: Mapping[str, Sampler], slots: Sequence[Slot], until: Callable[[Slot], bool] = lambda slot: False
    ) -> None:
        """Let every slot go on until it is over, or `until` is true of it.

        Args:
            samplers: By policy.
            slots: In any state; what is over stays as it is.
            until: Asked of a slot before each of its moves.
        """
        while True:
            moving: dict[str, list[Slot]] = {name: [] for name in self.renderers}
            for slot in slots:
                if not slot.over and not until(slot):
                    moving[self.policies[slot.play.current_agent]].append(slot)
            if not any(moving.values()):
                return
            for policy, several in moving.items():
                for first in range(0, len(several), self.slots):
                    self._move(samplers[policy], policy, several[first : first + self.slots])

    def _move(self, sampler: Sampler, policy: str, slots: Sequence[Slot]) -> None:
        renderer = self.renderers[policy]
        ready = []
        for slot in slots:
            self._read(renderer, slot)
            if len(slot.streams[slot.play.current_agent].ids) < self.max_ids:
                ready.append(slot)
            else:
                slot.broken = True
        if not ready:
            return
        prompts = [slot.streams[slot.play.current_agent].ids for slot in ready]
        limits = [min(self.max_turn_ids, self.max_ids - len(prompt)) for prompt in prompts]
        for slot, sample in zip(ready, sampler(prompts, limits), strict=True):
            self.generated[policy] += len(sample.ids)
            slot.streams[slot.play.current_agent].write(sample)
            slot.play.act(renderer.decode_action(sample.ids, ()).action)
            slot.play.sampled(sample.ids, sample.logprobs)

    @staticmethod
    def _read(renderer: Renderer, slot: Slot) -> None:
        """Encode what the agent to move was told since it last wrote."""
        agent = slot.play.current_agent
        stream = slot.streams[agent]
        if stream.ids:
            stream.read(renderer.encode_results(slot.play.new_messages(agent), stream.last))
        else:
            stream.read(renderer.encode_prompt(slot.play.histories[agent], ()))


def row_logps(
    model: nn.Module, rows: Sequence[TrainRow], pad_id: int, temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities of the rows' completions under a model, and under the one that sampled them.

    Args:
        model: A causal language model.
        rows: B rows, the longest completion of T ids.
        pad_id: What fills up shorter ones.
        temperature: At which they were sampled.

    Returns:
        Log-probabilities with gradient, those when drawn, and the mask, each of shape ``(B, T)``.
    """
    device = next(model.parameters()).device
    longest = max(len(row.completion_ids) for row in rows)
    mask = torch.zeros((len(rows), longest), device=device)
    old = torch.zeros((len(rows), longest), device=device)
    for n, row in enumerate(rows):
        length = len(row.completion_ids)
        mask[n, :length] = torch.tensor(row.mask, dtype=torch.float, device=device)
        old[n, :length] = torch.tensor(row.logprobs, device=device)
    found = [torch.empty(0)] * len(rows)
    for bundle in map(sorted, bundles([len(row.prompt_ids) + len(row.completion_ids) for row in rows])):
        for n, logps in zip(bundle, _bundle_logps(model, [rows[n] for n in bundle], pad_id, temperature), strict=True):
            found[n] = logps
    return nn.utils.rnn.pad_sequence(found, batch_first=True), old, mask


def _bundle_logps(model: nn.Module, rows: Sequence[TrainRow], pad_id: int, temperature: float) -> Tensor:
    """Return log-probabilities of the completions of rows of like length, of shape ``(B, T)``."""
    device = next(model.parameters()).device
    width = max(len(row.prompt_ids) + len(row.completion_ids) for row in rows)
    longest = max(len(row.completion_ids) for row in rows)
    ids = torch.full((len(rows), width), pad_id, device=device)
    attention = torch.zeros_like(ids)
    places = torch.zeros((len(rows), longest), dtype=torch.long, device=device)  # of what predicts each id
    for n, row in enumerate(rows):
        sequence, length = row.prompt_ids + row.completion_ids, len(row.completion_ids)
        ids[n, : len(sequence)], attention[n, : len(sequence)] = torch.tensor(sequence, device=device), 1
        places[n, :length] = torch.arange(len(row.prompt_ids) - 1, len(sequence) - 1, device=device)
    logits: Any = model(input_ids=ids, attention_mask=attention, use_cache=False).logits  # (B, W, V)
    chosen = logits.gather(1, places.unsqueeze(-1).expand(-1, -1, logits.size(-1)))  # (B, T, V)
    exact = chosen.to(torch.promote_types(chosen.dtype, torch.float32))
    return token_logps(exact / temperature, ids.gather(1, places + 1))
