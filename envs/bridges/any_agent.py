"""One episode played by any agent: a coroutine of yours that asks a model and calls tools, in whatever framework.

`toolorchestra.envs.bridges.endpoint.play` plays with the policy of this library; here the agent decides when it asks
the model, and what it shows to it. It asks by a `RecordingProxy`, so that the record of each turn has the text, tokens
and log-probabilities of the completion that asked for it. Environments of several agents are not covered.
"""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from toolorchestra.agents.messages.content import tool_call
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.bridges.callables import ToolSignature, described
from toolorchestra.envs.bridges.completions import AskedCall, RecordedCompletion
from toolorchestra.envs.bridges.endpoint import task_start
from toolorchestra.envs.bridges.recording_proxy import RecordingProxy
from toolorchestra.envs.bridges.served import require_full_schemas
from toolorchestra.envs.records.episode import ORCHESTRATOR, Episode
from toolorchestra.envs.step_threads import StepThreads
from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError

ENDED = "The episode is over, and nothing was done. Finish now: there is nothing left to do."
"""What every call returns once the episode is over."""
_DONE = "The answer was given, and the episode is over. Finish now: there is nothing left to do."
COMPLETIONS = "completions"
"""Name of the entry of an episode's `details` that lists the answers of the model."""


class AgentError(ToolOrchestraError):
    """An agent raised an exception, which is the cause of this one, or returned something else than text.

    Attributes:
        episode: The record. If it was in progress it is an ``infra_error``, without a reward: an agent that does not
            work is not judged.
    """

    def __init__(self, message: str, episode: Episode) -> None:
        super().__init__(message)
        self.episode = episode


class AgentSession:
    """An episode as the agent sees it.

    Attributes:
        base_url: Root of an OpenAI-compatible server, for chat completions.
        api_key: Its key.
        model: The model's name.
        messages: The system message and the request, as OpenAI messages.
        tools: OpenAI schemas of the tools, `submit` among them where it gives the answer.
    """

    def __init__(self, env: Any, info: Mapping[str, Any], proxy: RecordingProxy) -> None:
        self.base_url, self.api_key, self.model = proxy.url, proxy.key, proxy.model
        self.messages: list[dict[str, Any]] = copy.deepcopy(list(info["messages"]))
        self.tools: list[dict[str, Any]] = copy.deepcopy(list(info["tools"])) if env.schemas_read else []
        self._env, self._completions = env, proxy.completions
        self._waiting: list[AskedCall] = []
        self._loop, self._thread, self._in_turn = asyncio.get_running_loop(), threading.get_ident(), asyncio.Lock()
        self._steps, self._step = StepThreads(1), self._loop.create_future()
        self._step.set_result(None)
        self._left = False

    @property
    def over(self) -> bool:
        """Whether the episode has ended; calls do nothing then, and say so."""
        return bool(self._left or self._env.play.over)

    async def call(self, name: str, arguments: Mapping[str, Any] | str) -> str:
        """Call a tool, and return what a model is to be shown. Never raises for what a model wrote.

        Each call is a message of the episode, in the order in which they come. Those that one completion asked for, and
        that are awaited together (`asyncio.gather`), are one message: they run at the same time on the virtual clock.

        Args:
            name: Name of the tool.
            arguments: The arguments, or the JSON that the model wrote.
        """
        if self.over:
            return ENDED
        if asyncio.get_running_loop() is not self._loop:  # of a framework that has one of its own in a thread
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.call(name, arguments), self._loop))
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        asked = self._completions.asked(name, text)
        self._waiting.append(asked)
        try:
            await asyncio.sleep(0)  # those that are awaited together with it come
            async with self._in_turn:
                if asked.result is None and not self.over:
                    await self._take(list(filter(asked.together, self._waiting)))
        finally:
            self._waiting.remove(asked)
        return ENDED if asked.result is None else asked.result

    def functions(self, *, blocking: bool = False) -> list[Callable[..., Any]]:
        """Return the tools as functions with names, type hints and docstrings, of which frameworks make tools.

        Args:
            blocking: Return ordinary functions, for frameworks without coroutines: they run in a thread
                (``await asyncio.to_thread(agent.run, …)``). By default they are coroutine functions.
        """
        return [self._function(tool["function"], blocking=blocking) for tool in self.tools]

    def _function(self, schema: Mapping[str, Any], *, blocking: bool) -> Callable[..., Any]:
        name, signature = schema["name"], ToolSignature.of(schema)
        required = set(schema["parameters"].get("required", ()))

        async def call(**given: Any) -> str:  # frameworks give None for what the model has left out
            named = signature.arguments(given).items()
            return await self.call(name, {key: value for key, value in named if value is not None or key in required})

        def call_and_wait(**given: Any) -> str:
            if threading.get_ident() == self._thread:
                raise OptionError(
                    f"{name} waits for the event loop that it was called on. Call it in a thread, "
                    "`await asyncio.to_thread(…)`, or take functions(), which are coroutine functions."
                )
            return ENDED if self.over else asyncio.run_coroutine_threadsafe(call(**given), self._loop).result()

        return described(call_and_wait if blocking else call, name, signature.about, signature.parameters)

    async def _take(self, calls: Sequence[AskedCall]) -> None:
        """Make calls in one message."""
        made = [tool_call(one.call_id, one.name, one.arguments) for one in calls]
        shown = await self._run(partial(self._act, {"tool_calls": made}, calls[0].completion))
        done = self._env.play.over and self._env.play.verdict is not None
        for one in calls:
            own = (text for call_id, text in shown if not calls[1:] or call_id in (None, one.call_id))
            one.result = _DONE if done else "\n".join(own)

    def _act(self, said: Any, completion: RecordedCompletion | None) -> list[tuple[str | None, str]]:
        """Take a message in the environment, and return what is observed, each with the id of the call it answers.

        Text, thoughts and tokens of the completion that it comes of are those of the first such message.
        """
        play, first = self._env.play, completion if completion is not None and not completion.turns else None
        message = {"role": "assistant", "content": "", **(first.message if first is not None else {}), **said}
        plain = message.keys() == {"role", "content"}
        self._env.step(message["content"] if plain else message)
        if first is not None and first.token_logprobs is not None:
            play.sampled(*first.token_logprobs)
        if completion is not None:
            completion.turns.append(len(play.episode.turns) - 1)
        return [(message.get("tool_call_id"), str(message["content"])) for message in play.new_messages(ORCHESTRATOR)]

    async def _run(self, step: Callable[[], Any]) -> Any:
        """Run a step to its end, even if whoever waits for it goes away."""
        self._step = asyncio.ensure_future(self._steps.run(self._env, step))
        return await asyncio.shield(self._step)

    async def _end(self, answer: str | None, why: str, outcome: Any = "failed") -> Episode:
        """Give a final answer, if there is one, end the episode if it is not over, and return its record."""
        async with self._in_turn:
            await asyncio.wait([self._step])  # whoever has begun it may have gone away
            if answer and not self.over:
                await self._run(partial(self._act, {"content": answer}, self._completions.saying(answer)))
            self._left = True
            self._env.play.stop(why, outcome)
        episode: Episode = self._env.episode
        if kept := self._completions.recorded:
            episode.details = {**episode.details, COMPLETIONS: kept}
        return episode


async def play_agent(
    task: Mapping[str, Any],
    agent: Callable[[AgentSession], Awaitable[str | None]],
    base_url: str,
    model: str,
    *,
    api_key: str | None = None,
    timeout: float | None = None,
    tokens: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> Episode:
    """Play one episode with an agent whose model is at an OpenAI-compatible server, and return its record.

    Any number may be played at a time (`asyncio.gather`). What the agent returns is its final answer, if it is text and
    none was given before.

    Args:
        task: What is played, as for `toolorchestra.envs.bridges.endpoint.play`.
        agent: Plays one episode. What blocks it is to run in a thread (`asyncio.to_thread`).
        base_url: Root of the server, e.g. ``http://localhost:8000/v1``.
        model: The model's name on that server; other names that the agent asks for are replaced.
        api_key: The server's key; the agent does not see it.
        timeout: Seconds that the agent may take; then the episode has failed. None: no bound.
        tokens: Ask for token ids and log-probabilities, as vLLM gives them.
        extra: Further fields of each request's body; a value of None leaves a field out.

    Raises:
        OptionError: The task names no environment of one agent, or something in it is unknown or cannot be used.
        AgentError: The agent raised an exception, or returned something else than text.
    """
    fields = {**({"logprobs": True, "return_token_ids": True} if tokens else {}), **(extra or {})}
    require_full_schemas(task.get("options") or {}, "an agent")
    made, start = task_start(task)
    env: Any = made.unwrapped
    try:
        if not isinstance(env, OrchestrationEnv):
            raise OptionError(
                f"{task['env']} has several agents, and play_agent plays one. Play it with "
                "`toolorchestra.envs.bridges.endpoint.play`, where a model is each of them in turn."
            )
        _, info = env.reset(**start.arguments)
        async with RecordingProxy(base_url, model, api_key, fields) as proxy:
            session = AgentSession(env, info, proxy)
            try:
                return await _played(session, agent, timeout)
            finally:
                await asyncio.wait([session._step])
                session._steps.close()
    finally:
        made.close()


async def _played(
    session: AgentSession, agent: Callable[[AgentSession], Awaitable[str | None]], timeout: float | None
) -> Episode:
    """Let an agent play, and return the record."""
    answer, why = None, "the agent ended without an answer"
    try:
        try:
            async with asyncio.timeout(timeout) as limit:
                answer = await agent(session)
        except TimeoutError:
            if not limit.expired():
                raise
            why = f"the agent gave no answer within {timeout:g} s"
        if answer is not None and not isinstance(answer, str):
            raise OptionError(f"Expected the agent to return text or None, got {type(answer).__name__}.")
    except Exception as error:
        about = f"{type(error).__name__}: {error}"
        raise AgentError(f"The agent failed: {about}", await session._end(None, about, "infra_error")) from error
    return await session._end(answer, why)
