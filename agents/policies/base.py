"""Policies: whoever plays an environment.

`Policy` is the contract; below it stand the reference policies that need no training. Scripted policies read
the environment's hidden truth and say so (`privileged`); honest ones see only observation and info. Batched
policies of models under training are the business of `toolorchestra.algos.rollout.engine`.
"""

from __future__ import annotations

import importlib
import random
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

import gymnasium
import msgspec

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.format import ParameterSpec
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import Tool

Info = Mapping[str, Any]


def write_calls(calls: Iterable[Call], text: str = "") -> str:
    """Return a message that makes `calls`, in the Hermes syntax.

    >>> write_calls([Call("get_dish", {"dish_id": "D07"})])
    '<tool_call>{"name":"get_dish","arguments":{"dish_id":"D07"}}</tool_call>'
    """
    blocks = (msgspec.json.encode({"name": call.name, "arguments": call.arguments}).decode() for call in calls)
    return text + "\n".join(f"<tool_call>{block}</tool_call>" for block in blocks)


class Policy(ABC):
    """Plays episodes, one at a time: `reset` begins one, `act` answers each observation with an action.

    Args:
        seed: Everything random about the policy follows from it, the task played and the episode's seed (where
            the episode has none, from the episodes played before).

    Attributes:
        privileged: Whether it reads what an orchestrator cannot see.
    """

    privileged: ClassVar[bool] = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.rng = random.Random(seed)

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode that `env` has just been reset to."""
        episode = getattr(env.unwrapped, "episode", None)
        number = self.rng.random() if episode is None or episode.seed is None else episode.seed
        self.rng = random.Random(f"{self.seed}:{info['task_id']}:{number}")

    @abstractmethod
    def act(self, observation: str, info: Info) -> Any:
        """Return the action that follows `observation`: text, or structured calls."""


class NullPolicy(Policy):
    """Does nothing and says nothing: the floor that no task may be solved by."""

    def act(self, observation: str, info: Info) -> str:
        """Return the empty answer."""
        return ""


class RandomPolicy(Policy):
    """Makes valid calls with plausible arguments, and in the end reports something that it read.

    Arguments are `Guesser`'s; the answer quotes values of the last results. It calls the world's own tools only: an
    expert who is asked at random may well know the answer.

    Args:
        seed: See `Policy`.
        calls: Mean number of calls before the answer.
    """

    privileged = True  # it looks up which values are plausible

    def __init__(self, seed: int = 0, calls: float = 4.0) -> None:
        super().__init__(seed)
        self._stop = 1.0 / (1.0 + calls)
        self._env: Any = None
        self._tools: list[Tool] = []
        self._guessers: dict[str, Guesser] = {}
        self._guesser: Guesser | None = None

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        play = self._env.play
        world = play.world
        self._tools = [tool for name, tool in play.tools.items() if name in world.tools]
        self._guesser = self._guessers.setdefault(world.name, Guesser(getattr(world, "database", None), self.rng))
        self._guesser.rng = self.rng

    def act(self, observation: str, info: Info) -> Any:
        """Return a random call, or an answer."""
        if self._guesser is None or not self._tools or self.rng.random() < self._stop:
            return self._env.final(self._answer(observation))
        tool = self.rng.choice(self._tools)
        return write_calls([Call(tool.name, self._guesser.arguments(tool))])

    def _answer(self, observation: str) -> str:
        words = [word.strip('",:{}[]') for word in observation.split()[-40:]]
        seen = [word for word in words if word] or ["done"]
        return "It is " + ", ".join(self.rng.choices(seen, k=3)) + "."


class OraclePolicy(Policy):
    """Plays the reference trajectory, a stage per turn where the environment allows, and gives the right answer.

    Calls of tools that are not on offer are left out: in a protocol that has others in their place, the answer counts.
    """

    privileged = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._script: list[list[Call]] = []
        self._task: Task | None = None
        self._env: Any = None

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read its reference trajectory."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        self._task = task = self._env.task
        reference_calls = [call for call in task.reference_calls if call.name in self._env.play.tools]
        stages = [list(stage) for _, stage in groupby(reference_calls, key=lambda call: call.stage)]
        most, turns = self._env.max_calls_per_message, self._env.play.limits.turns
        self._script = _cut(stages, most)
        if len(self._script) >= turns:  # one who knows all values need not wait for them
            self._script = _cut([reference_calls], most)

    def act(self, observation: str, info: Info) -> Any:
        """Return the next stage, or the answer."""
        assert self._task is not None, "reset() comes first"
        if self._script:
            return write_calls(self._script.pop(0), self._env.preface)
        return self._env.final(self._task.answer)


def _cut(stages: Sequence[Sequence[Call]], most: int) -> list[list[Call]]:
    return [list(stage[first : first + most]) for stage in stages for first in range(0, len(stage), most)]


class NoisyOraclePolicy(OraclePolicy):
    """An oracle that errs: each turn with probability `error`, in one of `MISTAKES`, chosen at random.

    - ``tool``: calls another tool than the right one, with arguments that are plausible for it;
    - ``argument``: gives one argument another plausible value;
    - ``skip``: leaves a stage out;
    - ``stop``: answers before the work is done;
    - ``answer``: gives the answer of another task of the same intent.

    It goes on with the reference trajectory after a mistake, so that some episodes recover.

    Args:
        seed: See `Policy`.
        error: Probability of a mistake per turn.
        mistakes: Kinds of mistake that it makes.
    """

    MISTAKES = ("tool", "argument", "skip", "stop", "answer")

    def __init__(self, seed: int = 0, error: float = 0.2, mistakes: Sequence[str] = MISTAKES) -> None:
        super().__init__(seed)
        if not 0.0 <= error <= 1.0:
            raise OptionError(f"The probability `error` must lie in [0, 1], got {error!r}.")
        if wrong := [kind for kind in mistakes if kind not in self.MISTAKES]:
            raise UnknownNameError("mistake", wrong[0], self.MISTAKES)
        self.error = error
        self.mistakes = tuple(mistakes)
        self._guessers: dict[str, Guesser] = {}
        self._guesser: Any = None

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode."""
        super().reset(env, observation, info)
        world = self._env.play.world
        self._guesser = self._guessers.setdefault(world.name, Guesser(getattr(world, "database", None), self.rng))
        self._guesser.rng = self.rng

    def act(self, observation: str, info: Info) -> Any:
        """Return the reference action, or a mistake in its place."""
        assert self._task is not None, "reset() comes first"
        wanted = [kind for kind in self.mistakes if (kind == "answer") is not bool(self._script)]
        if not wanted or self.rng.random() >= self.error:
            return super().act(observation, info)
        kind = self.rng.choice(wanted)
        if kind in ("stop", "answer"):
            return self._env.final(self._wrong_answer(self._task))
        stage = self._script.pop(0)
        if kind == "skip":
            return super().act(observation, info)
        position = self.rng.randrange(len(stage))
        call = stage[position]
        stage[position] = self._other_tool(call) if kind == "tool" else self._other_argument(call)
        return write_calls(stage, self._env.preface)

    def _wrong_answer(self, task: Task) -> str:
        others = [
            other.answer
            for other in self._env.source.tasks(task.split)
            if other.intent == task.intent and other.answer != task.answer
        ]
        return self.rng.choice(others) if others else "I am afraid that I cannot help with that."

    def _other_tool(self, call: Call) -> Call:
        play = self._env.play
        tools = [tool for name, tool in play.tools.items() if name in play.world.tools]
        tool = self.rng.choice([tool for tool in tools if tool.name != call.name] or tools)
        return Call(tool.name, self._guesser.arguments(tool), call.stage)

    def _other_argument(self, call: Call) -> Call:
        if not call.arguments:
            return self._other_tool(call)
        tool = self._env.play.tools[call.name]
        name = self.rng.choice(sorted(call.arguments))
        value = self._guesser.other(tool.parameters[name], call.arguments[name])
        return Call(call.name, {**call.arguments, name: value}, call.stage)


class ChatPolicy(Policy):
    """Any chat model as an orchestrator: it is given the conversation and the tools, and its reply is played.

    Args:
        model: Model asked.
        seed: Sampling seed, for models that take one.
        temperature: Sampling temperature; 0 is greedy (ToolOrchestra evaluates so).
        max_tokens: Most tokens of one reply (ToolOrchestra §4.4: 8,000).
    """

    def __init__(self, model: ChatModel, seed: int = 0, temperature: float = 0.0, max_tokens: int = 8_000) -> None:
        super().__init__(seed)
        self.model = model
        self.temperature = temperature
        self.max_tokens = max_tokens
        self._tools: Sequence[dict[str, Any]] = ()

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: take its tools."""
        super().reset(env, observation, info)
        self._tools = info["tools"]

    def request(self, info: Info) -> ChatRequest:
        """Return what the model is to be asked next: whoever plays many episodes at once asks them together."""
        return ChatRequest(
            messages=tuple(info["messages"]),
            tools=tuple(self._tools),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
        )

    def act(self, observation: str, info: Info) -> Any:
        """Return the model's reply as an action."""
        return self.model.complete([self.request(info)])[0].action


_HELP = """\
  TOOL name=value …    call a tool; several calls with ';' between them run together
  answer TEXT          give the final answer
  ?  or  ? TOOL        show the tools, or what one takes
  quit                 leave"""
_PARTS = re.compile(r"""(?:[^;"']|"[^"]*"|'[^']*'|["'])+""")  # what stands between ';' that are not quoted


class HumanPolicy(Policy):
    """A person at the terminal.

    Args:
        read: Returns a line, given a prompt.
        show: Shows a text.
    """

    def __init__(self, seed: int = 0, read: Callable[[str], str] = input, show: Callable[[str], None] = print) -> None:
        super().__init__(seed)
        self._read, self._show = read, show
        self._env: Any = None
        self._tools: dict[str, Tool] = {}
        self._greeted = False

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode; before the first, show how to play."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        self._tools = self._env.play.tools
        if not self._greeted:
            self._show(_HELP)
        self._greeted = True

    def act(self, observation: str, info: Info) -> Any:
        """Ask until the person enters an action."""
        while True:
            line = self._read("> ").strip()
            command, _, rest = line.partition(" ")
            if command in ("?", "help"):
                self._show(self._describe(rest.strip()))
            elif command == "quit":
                raise KeyboardInterrupt
            elif command == "answer":
                return self._env.final(rest)
            elif line:
                try:
                    return [self._call(part) for part in _PARTS.findall(line) if part.strip()]
                except (ValueError, UnknownNameError) as error:
                    self._show(str(error))

    def _describe(self, name: str) -> str:
        if not name:
            return "\n".join([*(f"  {tool.name:26} {tool.description}" for tool in self._tools.values()), "", _HELP])
        if name not in self._tools:
            return str(UnknownNameError("tool", name, self._tools))
        tool = self._tools[name]
        lines = [f"{name}: {tool.description}"]
        for key, spec in tool.parameters.items():
            kind = f"one of {', '.join(map(str, spec.enum))}" if spec.enum else spec.type
            lines.append(f"  {key} ({kind}{'' if spec.required else ', optional'}): {spec.description}")
        return "\n".join(lines)

    def _call(self, text: str) -> dict[str, Any]:
        """Return the call that ``tool name=value …`` names; values become the parameter's type.

        A value without a name is that of the parameter in its place, as in ``get_dish D07``.
        """
        name, *values = shlex.split(text)
        if name not in self._tools:
            raise UnknownNameError("tool", name, self._tools)
        parameters = self._tools[name].parameters
        arguments: dict[str, Any] = {}
        for place, written in enumerate(values):
            key, equals, value = written.partition("=")
            if not equals or not key.isidentifier():
                if place >= len(parameters):
                    raise OptionError(f"{name} takes {', '.join(parameters) or 'nothing'}; found {written!r} as well.")
                key, value = list(parameters)[place], written
            arguments[key] = _typed(value, parameters.get(key))
        return {"name": name, "arguments": arguments}


def _typed(value: str, spec: ParameterSpec | None) -> Any:
    """Return what a person typed as the parameter's type, or unchanged when it is none."""
    if spec is None or spec.type == "string":
        return value
    if spec.type == "array" and not value.startswith("["):
        item = ParameterSpec(type=spec.items or "string", description="")
        return [_typed(part.strip(), item) for part in value.split(",")]
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


POLICIES: dict[str, type[Policy]] = {
    "human": HumanPolicy,
    "llm": ChatPolicy,
    "noisy-oracle": NoisyOraclePolicy,
    "null": NullPolicy,
    "oracle": OraclePolicy,
    "random": RandomPolicy,
}
"""Policies by name."""
BASELINES: dict[str, str] = {
    "cheapest": "baselines.Cheapest",
    "direct": "baselines.Direct",
    "direct+tools": "baselines.DirectWithTools",
    "fixed-workflow": "baselines.FixedWorkflow",
    "knn-router": "routing.KNNRouter",
    "majority-vote": "baselines.MajorityVote",
    "self-refine": "baselines.SelfRefine",
    "strongest": "baselines.Strongest",
}
"""Further policies by name, imported when they are asked for: see `toolorchestra.agents.policies.baselines`."""


def make_policy(name: str, **options: Any) -> Policy:
    """Return a policy by name (one of `POLICIES` or `BASELINES`), made with `options`.

    Raises:
        UnknownNameError: There is no such policy.
        OptionError: The policy does not take these options.
    """
    if name in BASELINES:
        module, _, kind = BASELINES[name].partition(".")
        make: type[Policy] = getattr(importlib.import_module(f"toolorchestra.agents.policies.{module}"), kind)
    elif name in POLICIES:
        make = POLICIES[name]
    else:
        raise UnknownNameError("policy", name, {**POLICIES, **BASELINES})
    try:
        return make(**options)
    except TypeError as error:
        raise OptionError(f"The policy {name!r} cannot be made so: {error}.") from None


def play_episode(env: gymnasium.Env[Any, Any], policy: Policy, **reset: Any) -> dict[str, Any]:
    """Play one episode to its end and return the last info; the record is ``env.unwrapped.episode``.

    Args:
        env: An environment of this library.
        policy: Who plays.
        reset: Arguments of `env.reset`: ``seed``, ``options``.
    """
    observation, info = env.reset(**reset)
    policy.reset(env, observation, info)
    while True:
        observation, _, terminated, truncated, info = env.step(policy.act(observation, info))
        if terminated or truncated:
            return info
