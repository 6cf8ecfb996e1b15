"""Playing many episodes with one policy, a number of them at a time.

An episode is a coroutine, so that a slow tool, expert or reply holds up no other one. Not covered: keeping the episodes
(`toolorchestra.envs.records.recording`), and rollouts for training, with token ids and log-probabilities
(`toolorchestra.algos.rollout.engine`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium

from toolorchestra.agents.batch_calls import BatchCalls
from toolorchestra.agents.chat.base import BatchError, ChatModel, ChatRequest, Completion
from toolorchestra.agents.event_loop import iterate, together
from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.envs.played import stop
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.unjudged import error_text, no_answer_after, unjudged_reason
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.step_threads import StepThreads
from toolorchestra.toolscale.common.errors import ExpertError

Ask = Callable[[ChatRequest], Awaitable[Completion]]
_Ended = tuple[int, Episode]


def play_many(
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    make_policy: Callable[[], Policy],
    resets: Sequence[EpisodeStart],
    *,
    in_flight: int = 1,
    retries: int = 2,
) -> Iterator[Episode]:
    """Yield the episodes that begin with `resets`, each when it is over.

    An episode is given up, as an ``infra_error``, when the policy's model does not answer.

    Args:
        make_env: Makes an environment of this library.
        make_policy: Makes the policy. A chat model at a server is asked for each episode by itself, any other for all
            episodes together that wait for it.
        resets: How the episodes begin.
        in_flight: Maximum number of episodes in progress at a time.
        retries: How often an episode that was not judged is played again.

    Raises:
        ExpertError: The policy's model cannot be reached at all: as many requests in a row have failed as there are
            episodes in progress.
    """
    players = _Players(make_env, make_policy, min(max(1, in_flight), len(resets)), retries)
    for _, one in iterate(players.play(resets)):
        yield one


def play_all(
    make_env: Callable[[], gymnasium.Env[Any, Any]],
    make_policy: Callable[[], Policy],
    resets: Sequence[EpisodeStart],
    *,
    in_flight: int = 1,
    retries: int = 2,
) -> list[Episode]:
    """Return the episodes that begin with `resets`, in that order; see `play_many`."""
    players = _Players(make_env, make_policy, min(max(1, in_flight), len(resets)), retries)
    played = dict(iterate(players.play(resets)))
    return [played[number] for number in range(len(resets))]


class _Players:
    """Play episodes, each one after the other, in an environment and with a policy of its own."""

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env[Any, Any]],
        make_policy: Callable[[], Policy],
        count: int,
        retries: int,
    ) -> None:
        self._make_env, self._make_policy, self._count, self._retries = make_env, make_policy, count, retries
        self._steps = StepThreads(max(1, count))
        self._asks: dict[int, Ask] = {}  # by the model's id
        self._failed: list[ExpertError] = []  # since the last reply
        self._recorded = asyncio.Event()
        self._recorded.set()

    async def play(self, resets: Sequence[EpisodeStart]) -> AsyncGenerator[_Ended, None]:
        """Yield the episodes with the numbers of their resets, each when it is over."""
        waiting = iter(enumerate(resets))
        ended: asyncio.Queue[_Ended | None] = asyncio.Queue()
        players = (self._player(waiting, ended) for _ in range(self._count))
        playing = asyncio.gather(together(*players))
        playing.add_done_callback(lambda _: ended.put_nowait(None))
        try:
            while (one := await ended.get()) is not None:
                yield one
                if ended.empty():
                    self._recorded.set()
            await playing
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            self._steps.close()

    async def _player(self, waiting: Iterator[tuple[int, EpisodeStart]], ended: asyncio.Queue[_Ended | None]) -> None:
        env = policy = None
        while True:
            while not self._recorded.is_set():  # what has ended is recorded before another begins
                await self._recorded.wait()
            if (following := next(waiting, None)) is None:
                break
            number, reset = following
            if env is None or policy is None:
                env, policy = self._make_env(), self._make_policy()
            ended.put_nowait((number, await self._play(env, policy, reset)))
            self._recorded.clear()
        if env is not None:  # not after an interrupt, when a thread may be in the middle of a step
            env.close()

    async def _play(self, env: gymnasium.Env[Any, Any], policy: Policy, reset: EpisodeStart) -> Episode:
        for _ in range(self._retries + 1):
            observation, info = await self._steps.run(env, partial(env.reset, **reset.arguments))
            policy.reset(env, observation, info)
            over, turns = False, 0
            while not over:
                try:
                    action = await self._action(policy, observation, info)
                except ExpertError as error:
                    return self._given_up(env, error)
                step = partial(env.step, action)
                observation, _, terminated, truncated, info = await self._steps.run(env, step)
                over, turns = terminated or truncated, turns + 1
            record = stop(env, no_answer_after(turns))  # where a wrapper has ended it
            assert record is not None, "environments of this library have a record"
            episode = record
            if not unjudged_reason(episode):
                break
        return episode

    async def _action(self, policy: Policy, observation: str, info: Info) -> Any:
        if not isinstance(policy, ChatPolicy):
            return policy.act(observation, info)
        ask = self._asks.get(id(policy.model))
        if ask is None:
            ask = self._asks[id(policy.model)] = _ask(policy.model)
        reply = await ask(policy.request(info))
        self._failed.clear()
        return reply.action

    def _given_up(self, env: gymnasium.Env[Any, Any], error: ExpertError) -> Episode:
        self._failed.append(error)
        if len(self._failed) >= self._count:
            raise BatchError(self._failed)
        episode = stop(env, error_text(error), "infra_error")
        assert episode is not None, "environments of this library have a record"
        return episode


def _ask(model: ChatModel) -> Ask:
    """Return what asks a model for one episode: the model's own coroutine, or a call for all that wait."""
    own: Ask | None = getattr(model, "ask", None)
    return own or BatchCalls(partial(_complete, model)).ask


def _complete(model: ChatModel, requests: Sequence[ChatRequest]) -> Sequence[Completion | ExpertError]:
    try:
        return model.complete(requests)
    except BatchError as error:
        return error.results
