"""The loop that plays episodes: for evaluation, recorded rollouts, demonstrations and training.

`run_each` is the loop. It decides how many episodes are in progress, what runs in threads, and what is played again.
Who writes the next action, and what is kept of an episode, is said by an `EpisodeRun`: here a policy writes it
(`PolicyRun`, `run_episodes`); in training a model under training does (`toolorchestra.algos.rollout.engine`), or those
of several agents (`toolorchestra.algos.rollout.multi_agent`). An episode is a coroutine, so that a slow tool, expert or
reply holds up no other one. Not covered: keeping the episodes (`toolorchestra.envs.records.recording`), and one episode
in ordinary code (`toolorchestra.agents.policies.base.play_episode`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import gymnasium

from toolorchestra.agents.batch_calls import BatchCalls
from toolorchestra.agents.chat.base import BatchError, ChatModel, ChatRequest, Completion
from toolorchestra.agents.event_loop import iterate, together
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.envs.played import PlayedEpisode, stop
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.unjudged import no_answer_after
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.envs.step_threads import StepThreads
from toolorchestra.toolscale.common.errors import ExpertError

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]
MakePolicy = Callable[[], Policy]
Ask = Callable[[ChatRequest], Awaitable[Completion]]
T = TypeVar("T")


class EpisodeRun(Protocol):
    """An episode as the loop sees it: `begin` (attempt 0, or again if it is not `valid`), then turns until `over`."""

    @property
    def valid(self) -> bool: ...  # noqa: D102 - see the class

    async def begin(self, attempt: int, steps: StepThreads) -> None: ...  # noqa: D102

    def over(self) -> bool: ...  # noqa: D102

    async def turn(self, steps: StepThreads) -> None: ...  # noqa: D102


R = TypeVar("R", bound=EpisodeRun)


async def run_each(
    following: Callable[[], Awaitable[R | None]],
    ended: Callable[[R], None],
    *,
    in_flight: int,
    retries: int,
    has_room: Callable[[Sequence[R]], bool] = lambda runs: True,
    progress: Callable[[], None] = lambda: None,
) -> None:
    """Play episodes as they come, until there are no more.

    Args:
        following: Returns the next episode once it may begin; None: there are no more.
        ended: Called with each episode when it is over for good.
        in_flight: Maximum number of episodes in progress at a time.
        retries: How often one that is not valid is played again.
        has_room: Whether the last of several episodes may be in progress beside the others; alone it always may.
        progress: Called after each turn, and after each episode.
    """
    steps, playing, changed = StepThreads(in_flight), list[R](), asyncio.Condition()

    def may_begin(run: R) -> bool:
        return not playing or has_room([*playing, run])

    async def player() -> None:
        while (run := await following()) is not None:
            async with changed:
                await changed.wait_for(partial(may_begin, run))
                playing.append(run)
            for attempt in range(retries + 1):
                await run.begin(attempt, steps)
                while not run.over():
                    await run.turn(steps)
                    progress()
                if run.valid:
                    break
            ended(run)
            async with changed:
                playing.remove(run)
                changed.notify_all()
            progress()

    try:
        await together(*(player() for _ in range(in_flight)))
    finally:
        steps.close()


class _Pool(Generic[T]):
    """Things of which each episode needs one: made when they are needed, and used again once they are `idle`."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self.idle = make, list[T]()

    def take(self) -> T:
        """Return one for an episode."""
        return self.idle.pop() if self.idle else self._make()


class EnvPool(_Pool[gymnasium.Env[Any, Any]]):
    """Environments that episodes are played in."""

    def close(self) -> None:
        """Close those that are idle; in the others a thread may be in the middle of a step."""
        while self.idle:
            self.idle.pop().close()


class EnvRun(ABC):
    """An episode in a Gymnasium environment. A subclass says who acts, by the methods with an underscore.

    Attributes:
        game: The episode.
        attempt: How often it was begun before.
    """

    game: PlayedEpisode
    attempt: int

    def __init__(self, envs: EnvPool, start: EpisodeStart) -> None:
        self.envs, self.start = envs, start

    @abstractmethod
    def _begun(self) -> None:
        """Look at the first observation; `game` may be over already."""

    @abstractmethod
    async def _act(self, steps: StepThreads) -> Any:
        """Return the next action, or end `game`."""

    @abstractmethod
    def _acted(self, action: Any, *, taken: bool) -> None:
        """Look at what follows an action, and whether the environment has taken it; `game` may be ended."""

    @abstractmethod
    def _ended(self) -> None:
        """Keep what is to be kept of `game`."""

    @property
    def valid(self) -> bool:
        """Whether it says something about who acts, or another attempt would be no better."""
        return self.game.valid or self.game.given_up

    def over(self) -> bool:
        """Return whether it has ended."""
        return bool(self.game.outcome)

    async def begin(self, attempt: int, steps: StepThreads) -> None:
        """Reset an environment."""
        self.attempt, self.game = attempt, PlayedEpisode(self.envs.take())
        await steps.run(self.game.env, partial(self.game.reset, **self.start.arguments))
        self._begun()
        self._release()

    async def turn(self, steps: StepThreads) -> None:
        """Have an action written, and take it."""
        action = await self._act(steps)
        if not self.game.outcome:
            taken = await steps.run(self.game.env, partial(self.game.step, action))
            self._acted(action, taken=taken)
        self._release()

    def _release(self) -> None:
        """Once it is over, give its environment back; one that has raised, of unknown state, is closed."""
        if self.game.outcome:
            self._ended()
            if self.game.error is None:
                self.envs.idle.append(self.game.env)
            else:
                with suppress(Exception):
                    self.game.env.close()


class Policies(_Pool[Policy]):
    """The policies of the episodes in progress, `in_flight` at most, and their models."""

    def __init__(self, make_policy: MakePolicy, in_flight: int) -> None:
        super().__init__(make_policy)
        self._in_flight = in_flight
        self._asks: dict[int, Ask] = {}  # by the model's id
        self._failed: list[ExpertError] = []  # since the last reply

    async def action(self, policy: Policy, game: PlayedEpisode, steps: StepThreads) -> Any:
        """Return a policy's next action, or give the episode up; one that may block acts in a thread.

        Raises:
            BatchError: As many requests in a row have failed as there are episodes in progress.
        """
        try:
            if not isinstance(policy, ChatPolicy):
                return await steps.run(policy, partial(policy.act, game.observation, game.info))
            ask = self._asks.get(id(policy.model))
            if ask is None:
                ask = self._asks[id(policy.model)] = _ask(policy.model)
            reply = await ask(policy.request(game.info))
        except ExpertError as error:
            self._failed.append(error)
            if len(self._failed) >= self._in_flight:
                raise BatchError(self._failed) from error
            game.give_up(error)
            return None
        self._failed.clear()
        return reply.action


class PolicyRun(EnvRun):
    """An episode that a policy plays; `number` is its place among the starts."""

    def __init__(self, number: int, start: EpisodeStart, envs: EnvPool, policies: Policies) -> None:
        super().__init__(envs, start)
        self.number, self._policies = number, policies
        self._record: Episode | None = None

    @property
    def episode(self) -> Episode:
        """The record, once over; only environments of this library have one."""
        assert self._record is not None, "environments of this library have a record"
        return self._record

    def _begun(self) -> None:
        self._raise()
        self._policy = self._policies.take()
        self._policy.reset(self.game.env, self.game.observation, self.game.info)

    async def _act(self, steps: StepThreads) -> Any:
        return await self._policies.action(self._policy, self.game, steps)

    def _acted(self, action: Any, *, taken: bool) -> None:
        self._raise()

    def _ended(self) -> None:
        self._record = stop(self.game.env, no_answer_after(self.game.turns))  # where a wrapper has ended it
        self._policies.idle.append(self._policy)

    def _raise(self) -> None:
        """Raise what the environment has raised: no evaluation goes on with one that does."""
        if self.game.error is not None:
            raise self.game.error


def run_episodes(
    make_env: MakeEnv, make_policy: MakePolicy, starts: Sequence[EpisodeStart], *, in_flight: int = 1, retries: int = 2
) -> Iterator[Episode]:
    """Yield the episodes that begin with `starts`, each when it is over.

    An episode is given up, as an ``infra_error``, when the policy's model does not answer.

    Args:
        make_env: Makes an environment of this library.
        make_policy: Makes the policy. A chat model at a server is asked for each episode by itself, any other for all
            episodes together that wait for it.
        starts: How the episodes begin.
        in_flight: Maximum number of episodes in progress at a time.
        retries: How often an episode that was not judged is played again.

    Raises:
        ExpertError: The policy's model cannot be reached at all: as many requests in a row have failed as there are
            episodes in progress.
    """
    with (
        closing(EnvPool(make_env)) as envs,
        closing(run_policies(envs, make_policy, starts, in_flight, retries)) as runs,
    ):
        yield from (run.episode for run in runs)


def run_all(
    make_env: MakeEnv, make_policy: MakePolicy, starts: Sequence[EpisodeStart], *, in_flight: int = 1, retries: int = 2
) -> list[Episode]:
    """Return the episodes that begin with `starts`, in that order; see `run_episodes`."""
    with closing(EnvPool(make_env)) as envs:
        found = {run.number: run.episode for run in run_policies(envs, make_policy, starts, in_flight, retries)}
    return [found[number] for number in range(len(starts))]


def run_policies(
    envs: EnvPool, make_policy: MakePolicy, starts: Sequence[EpisodeStart], in_flight: int = 1, retries: int = 2
) -> Generator[PolicyRun, None, None]:
    """Yield the episodes that begin with `starts`, each when it is over; see `run_episodes`.

    They may be played in any environments of Gymnasium, which stay open.
    """
    count = min(max(1, in_flight), len(starts))
    policies = Policies(make_policy, count)
    runs = (PolicyRun(number, start, envs, policies) for number, start in enumerate(starts))
    yield from iterate(_handed_out(runs, count, retries))


async def _handed_out(runs: Iterator[PolicyRun], in_flight: int, retries: int) -> AsyncGenerator[PolicyRun, None]:
    """Yield episodes, each when it is over; what has ended is handed out before another begins."""
    over: asyncio.Queue[PolicyRun | None] = asyncio.Queue()
    taken = asyncio.Event()
    taken.set()

    async def following() -> PolicyRun | None:
        while not taken.is_set():
            await taken.wait()
        return next(runs, None)

    def ended(run: PolicyRun) -> None:
        over.put_nowait(run)
        taken.clear()

    playing = asyncio.ensure_future(run_each(following, ended, in_flight=in_flight, retries=retries))
    playing.add_done_callback(lambda _: over.put_nowait(None))
    try:
        while (run := await over.get()) is not None:
            yield run
            if over.empty():
                taken.set()
        await playing
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)


def _ask(model: ChatModel) -> Ask:
    """Return what asks a model for one episode: the model's own coroutine, or a call for all that wait."""
    own: Ask | None = getattr(model, "ask", None)
    return own or BatchCalls(partial(_complete, model)).ask


def _complete(model: ChatModel, requests: Sequence[ChatRequest]) -> Sequence[Completion | ExpertError]:
    try:
        return model.complete(requests)
    except BatchError as error:
        return error.results
