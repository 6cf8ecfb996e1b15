"""The rollout engine: plays many environments at the same time with one policy and returns rows to train on.

The loop is `toolorchestra.envs.run_episodes`; a `TokenRun` is an episode in it. What a policy draws depends on the
request and the turn only: results do not depend on timing.

Token-in-token-out: a row's ids are the prompt, then in turns the ids that the policy sampled and the ids of the
environment's answers, each encoded once and only ever appended (`TokenTrajectory`); the mask is 1 exactly on the
policy's ids. Works for any Gymnasium environment whose observations are text, or whose ``info`` has OpenAI-style
``messages`` and ``tools``; a `Renderer` turns messages into ids. Not here: whose failure the end of an episode is
(`toolorchestra.envs.records.unjudged`), how rewards are compared within a group (`toolorchestra.algos.group_rollouts`),
and how a policy learns from rows (`toolorchestra.algos.grpo`).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from toolorchestra.agents.builtin.renderer import Renderer, check_prefix
from toolorchestra.agents.event_loop import run
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.messages.tool_lines import tools_beside
from toolorchestra.algos.activity import Watch, unwatched
from toolorchestra.algos.rollout.sampling import AnySampler, SampleOne, draw_key, sample_one
from toolorchestra.algos.rollout.trajectory import TokenTrajectory, has_room
from toolorchestra.envs.play import Play
from toolorchestra.envs.records.calls_made import MadeCall, calls_made
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.unjudged import INVALID_OUTCOMES, no_answer_after, no_answer_within
from toolorchestra.envs.run_episodes import EnvPool, EnvRun, run_each
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.step_threads import StepThreads


class RolloutRequest(NamedTuple):
    """One episode to play.

    Attributes:
        group: Number of the group that its row belongs to.
        start: Where it begins.
        seed: Of what the policy draws in it; None: the number of the request among those played with it.
    """

    group: int
    start: EpisodeStart
    seed: int | None = None


Following = Callable[[], Awaitable[tuple[int, RolloutRequest] | None]]
"""Returns the next episode to play, with a number of its own, once it may begin; None: there are no more."""


@dataclass(slots=True)
class Row:
    """One episode of one trained agent.

    Attributes:
        group: Number of the group (same task) it belongs to.
        agent: Name of the agent that wrote the ids under the mask.
        prompt_ids: Ids before the policy's first.
        completion_ids: All ids after, the environment's included.
        mask: 1 on the policy's ids, 0 on the environment's.
        logprobs: Log-probability of each of the policy's ids when drawn; 0 where the mask is 0.
        reward: Sum of the environment's rewards; NaN if `outcome` is invalid.
        outcome: ``solved``, ``failed``, or one of `INVALID_OUTCOMES`.
        why: Why the episode ended, where the environment or the engine says so.
        well_formed: Every turn kept to the renderer's format, and every call could be read.
        calls_valid: No call was a PARSE_ERR: none had wrong arguments or an unknown tool either.
        answered: The episode ended because the policy ended it, not by running out of turns or ids.
        turns: Number of the policy's turns.
        cost: US dollars.
        seconds: Virtual seconds.
        parts: Parts of the reward by name, where the environment has parts.
        M: The vector M(τ) of the environment, if it has one.
        preference: The vector P of the task, if it has one.
        task_id: Of the task, if the environment names it.
        difficulty: Likewise.
        messages: The conversation.
        episode: The environment's record with the policy's tokens in it, if the environment keeps one.
        calls: The calls that it made, if the environment keeps a record.
        design: The multi-agent system that the policy wrote, or the rule that it broke, where designs are its task.
    """

    group: int
    agent: str
    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reward: float = 0.0
    outcome: str = "failed"
    why: str = ""
    well_formed: bool = True
    calls_valid: bool = True
    answered: bool = False
    turns: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    M: NDArray[np.float64] | None = None
    preference: NDArray[np.float64] | None = None
    task_id: str = ""
    difficulty: int = 0
    messages: list[Message] = field(default_factory=list)
    episode: Episode | None = None
    calls: tuple[MadeCall, ...] = ()
    design: Any = None

    @property
    def valid(self) -> bool:
        """Whether the episode says something about the policy."""
        return self.outcome not in INVALID_OUTCOMES

    @property
    def unjudged(self) -> str | None:
        """Why it was not judged; None if it was."""
        return None if self.valid else f"{self.outcome}: {self.why}" if self.why else self.outcome


class RolloutEngine:
    """Plays episodes, many at a time.

    A `Sampler` of batches is given the prompts of all episodes that wait for it: with environments that do not block,
    all that are in flight. An `AsyncSampler` is asked for each episode by itself.

    Args:
        make_env: Makes one environment.
        renderer: Turns messages into ids and back.
        in_flight: Maximum number of episodes at a time.
        max_turns: Turns of the policy after which an episode has failed, as by a limit of the environment.
        max_turn_ids: Maximum of ids of one turn.
        max_ids: Maximum of ids of an episode; one that needs more has failed likewise.
        retries: How often an episode with one of `INVALID_OUTCOMES` is played again.
        agent: Name given to the rows.
        token_budget: Maximum of ids of all episodes played at the same time, unless it is one; None: no such maximum.

    Attributes:
        watch: Shows how far playing is.
    """

    def __init__(
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        renderer: Renderer,
        *,
        in_flight: int = 64,
        max_turns: int = 50,
        max_turn_ids: int = 512,
        max_ids: int = 32_000,
        retries: int = 2,
        agent: str = "orchestrator",
        token_budget: int | None = None,
    ) -> None:
        self.renderer, self.in_flight, self.agent = renderer, in_flight, agent
        self.max_turns, self.max_turn_ids, self.max_ids, self.retries = max_turns, max_turn_ids, max_ids, retries
        self.token_budget = token_budget
        self.watch: Watch = unwatched
        self._envs = EnvPool(make_env)
        self._tokens, self._seconds, self._counted = 0, 0.0, 0.0

    def play(
        self, sampler: AnySampler, requests: Iterable[RolloutRequest], progress: Callable[[int], None] | None = None
    ) -> list[Row]:
        """Play every request and return its row, in the order of the requests.

        After each turn of an episode `progress` is called with the number of episodes that have ended; by default
        `watch` is.
        """
        asked = list(enumerate(requests))
        waiting = iter(asked)
        rows: dict[int, Row] = {}

        async def following() -> tuple[int, RolloutRequest] | None:
            return next(waiting, None)

        with nullcontext(progress) if progress else self.watch("Episodes", len(asked)) as count:
            run(self.play_each(sampler, following, rows.__setitem__, lambda: count(len(rows))))
        return [rows[number] for number in sorted(rows)]

    async def play_each(
        self,
        sampler: AnySampler,
        following: Following,
        ended: Callable[[int, Row], None],
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """Play episodes as they come, until there are no more; `ended` is given the number and the row of each."""
        sample = sample_one(sampler)
        self._counted = time.perf_counter()

        async def next_run() -> TokenRun | None:
            asked = await following()
            return None if asked is None else TokenRun(self, self._envs, sample, *asked)

        def finished(one: TokenRun) -> None:
            now = time.perf_counter()
            self._tokens, self._seconds = self._tokens + len(one.trajectory.ids), self._seconds + now - self._counted
            self._counted = now
            ended(one.number, one.row)

        def room(runs: Sequence[TokenRun]) -> bool:
            return has_room(self.token_budget, [len(one.trajectory.ids) for one in runs], self.max_turn_ids)

        await run_each(
            next_run, finished, in_flight=self.in_flight, retries=self.retries, has_room=room, progress=progress
        )

    def speed(self) -> float:
        """Return ids read and written per second of play since the last call."""
        tokens, seconds, self._tokens, self._seconds = self._tokens, self._seconds, 0, 0.0
        return tokens / seconds if seconds else 0.0

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()


class TokenRun(EnvRun):
    """An episode whose actions are drawn as ids; its ids and its row.

    Args:
        engine: Says how, and where the limits are.
        envs: Where it is played.
        sample: Draws the ids of one turn.
        number: Of the request.
        request: What is played.
    """

    row: Row

    def __init__(
        self, engine: RolloutEngine, envs: EnvPool, sample: SampleOne, number: int, request: RolloutRequest
    ) -> None:
        super().__init__(envs, request.start)
        self.number, self.trajectory = number, TokenTrajectory()
        self._engine, self._renderer, self._draw, self._group = engine, engine.renderer, sample, request.group
        self._seed = number if request.seed is None else request.seed

    def _begun(self) -> None:
        game, info, most = self.game, self.game.info, self._engine.max_ids
        self._seen: list[int] = []  # every id so far, to check that prompts only grow
        self.trajectory = TokenTrajectory()
        row = self.row = Row(
            group=self._group,
            agent=self._engine.agent,
            prompt_ids=[],
            preference=info.get("preference"),
            task_id=str(info.get("task_id", self.start.seed)),
            difficulty=int(info.get("difficulty") or 0),
            messages=list(info.get("messages") or [{"role": "user", "content": str(game.observation)}]),
        )
        if game.outcome:
            return
        prompt = self._renderer.encode_prompt(row.messages, tools_beside(info))
        self.trajectory.read(prompt[: most - 1])
        row.prompt_ids = self.trajectory.ids.copy()
        if len(prompt) >= most:  # the row has the end of an answer, that none wrote
            game.stop(no_answer_within(most))
            self.trajectory.read([self._renderer.stop_ids[0]])

    async def _act(self, steps: StepThreads) -> Any:
        prompt, engine = self.trajectory.ids, self._engine
        check_prefix(self._seen, prompt)
        limit = min(engine.max_turn_ids, engine.max_ids - len(prompt))
        drawn = self._drawn = await self._draw(prompt, limit, draw_key(self._seed, self.attempt, self.row.turns))
        self._seen = prompt + drawn.ids
        self.trajectory.write(drawn)
        tools = self.game.opening.get("tools") or ()
        action, well_formed = self._renderer.decode_action(drawn.ids, tools, self.row.messages)
        self.row.well_formed &= well_formed
        return action

    def _acted(self, action: Any, *, taken: bool) -> None:
        row, game, drawn = self.row, self.game, self._drawn
        row.turns += 1
        if not taken:
            row.messages.append({"role": "assistant", "content": str(action)})
            return
        play = getattr(game.env.unwrapped, "play", None)
        if isinstance(play, Play):
            play.sampled(drawn.ids, drawn.logprobs)
            row.episode, row.design = play.episode, getattr(play, "design", None)
        info = game.info
        if _parse_error(info):
            row.calls_valid = False
            row.well_formed &= all(call.error is None for call in read_message(action).calls)
        row.cost, row.seconds = float(info.get("cost", 0.0)), float(info.get("clock", 0.0))
        new = _new_messages(info, len(row.messages), action, game.observation)
        row.messages += new
        if game.outcome:
            return
        results = self._renderer.encode_results([m for m in new if m["role"] != "assistant"], drawn.ids)
        if row.turns >= self._engine.max_turns:
            game.stop(no_answer_after(row.turns))
        elif len(self.trajectory.ids) + len(results) >= self._engine.max_ids:
            game.stop(no_answer_within(self._engine.max_ids))
        else:
            self.trajectory.read(results)

    def _ended(self) -> None:
        row, game, written, start = self.row, self.game, self.trajectory, len(self.row.prompt_ids)
        row.reward, row.outcome, row.why, row.answered = game.reward, game.outcome, game.why, game.answered
        row.M, row.parts = game.info.get("M"), game.info.get("reward_parts", {})
        row.calls = calls_made(row.episode) if row.episode else ()
        row.completion_ids, row.mask, row.logprobs = written.ids[start:], written.mask[start:], written.logprobs[start:]


def _parse_error(info: Mapping[str, Any]) -> bool:
    return any(str(getattr(call, "status", None) or "") == "PARSE_ERR" for call in info.get("calls") or ())


def _new_messages(info: Mapping[str, Any], known: int, action: Any, observation: Any) -> list[Message]:
    """Return the messages of one step; environments that keep none get an assistant and a user message."""
    if "messages" in info:
        return list(info["messages"][known:])
    return [{"role": "assistant", "content": str(action)}, {"role": "user", "content": str(observation)}]
