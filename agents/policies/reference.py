"""Reference policies that need no training: null, random, oracle and noisy oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import gymnasium
import msgspec

from toolorchestra.agents.policies.base import Info, Policy, write_calls
from toolorchestra.toolscale.answers.typed_answers import AnswerSlot
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.lookups import ids_known, ids_taken, raw_ids
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Tool


class NullPolicy(Policy):
    """Gives the empty answer, which must solve no task."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._answer: Any = ""

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: see how it is ended."""
        super().reset(env, observation, info)
        if "slots" in info:
            self._answer = env.unwrapped.final("")  # type: ignore[attr-defined]  # an environment of ours

    def act(self, observation: str, info: Info) -> Any:
        """Return the empty answer."""
        return self._answer


class _GuessingPolicy(Policy):
    """A policy that looks up which values are plausible arguments of the world's own tools."""

    privileged = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._env: Any = None
        self._tools: list[Tool] = []
        self._guessers: dict[str, Guesser] = {}
        self._guesser: Any = None

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: list the tools."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        world = self._env.play.world
        self._tools = [tool for name, tool in self._env.play.tools.items() if name in world.tools]
        self._guesser = self._guessers.setdefault(world.name, Guesser(getattr(world, "database", None), self.rng))
        self._guesser.rng = self.rng


class RandomPolicy(_GuessingPolicy):
    """Makes valid calls with plausible arguments (`Guesser`), then answers with values of the last results.

    It calls the world's own tools only: an expert that is asked at random may know the answer.

    Args:
        seed: See `Policy`.
        calls: Mean number of calls before the answer.
    """

    def __init__(self, seed: int = 0, calls: float = 4.0) -> None:
        super().__init__(seed)
        self._stop = 1.0 / (1.0 + calls)

    def act(self, observation: str, info: Info) -> Any:
        """Return a random call, or an answer."""
        if not self._tools or self.rng.random() < self._stop:
            return self._env.final(self._answer(observation, info.get("slots")))
        tool = self.rng.choice(self._tools)
        return write_calls([Call(tool.name, self._guesser.arguments(tool))])

    def _answer(self, observation: str, slots: Sequence[AnswerSlot] | None = None) -> str:
        words = [word.strip('",:{}[]') for word in observation.split()[-40:]]
        seen = [word for word in words if word and "\\" not in word] or ["done"]  # no box that a prompt shows
        if slots is not None:
            filled = {slot.name: self._fill(slot, seen) for slot in slots}
            return msgspec.json.encode({"answer": filled}).decode()
        return "It is " + ", ".join(self.rng.choices(seen, k=3)) + "."

    def _fill(self, slot: AnswerSlot, seen: Sequence[str]) -> Any:
        """Return a value for a slot: an option, a value of the right type that was seen, or none."""
        kind = self.rng.choice([*slot.types, *(["null"] if slot.nullable else [])])
        if kind == "null":
            return None
        if kind == "text" and slot.options:
            return self.rng.choice(slot.options)
        if kind in ("money", "number"):
            return self.rng.choice([float(word) for word in seen if word.isdecimal() and len(word) < 9] or [0])
        return self.rng.random() < 0.5 if kind == "true or false" else self.rng.choice(seen)


class OraclePolicy(Policy):
    """Plays the look-ups and the reference trajectory, a stage per turn, and gives the right answer.

    So every id that it uses stands in the request or in an earlier result. Only where the turns do not suffice, calls
    of several stages are made in one. Calls of tools that the environment lacks are left out: in a protocol with other
    tools, only the answer counts.
    """

    privileged = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._script: list[list[Call]] = []
        self._task: Task | None = None
        self._env: Any = None

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read its look-ups and its reference trajectory."""
        super().reset(env, observation, info)
        self._env = env.unwrapped
        self._task = self._env.task
        self._script = self._scripted(self._env.task)

    def _scripted(self, task: Task) -> list[list[Call]]:
        """Return the calls of each turn; calls are put together only as far as the turns require it."""
        lookups, calls = (
            [call for call in path if call.name in self._env.play.tools]
            for path in (task.lookups, task.reference_calls)
        )
        max_calls, turns = self._env.max_calls_per_message, self._env.play.limits.turns
        plans = ([*_stages(lookups), *_stages(calls)], [*_stages(lookups), calls], [[*lookups, *calls]])
        scripts = [_cut(plan, max_calls) for plan in plans]
        return next((script for script in scripts if len(script) < turns), scripts[-1])

    def act(self, observation: str, info: Info) -> Any:
        """Return the next stage, or the answer."""
        assert self._task is not None, "reset() comes first"
        requests = getattr(self._env.play.session, "asked", None)  # where a user makes several, a stage is for one
        if self._script and (requests is None or self._script[0][0].stage < requests):
            return write_calls(self._script.pop(0), self._env.preface)
        return self._env.final(self._env.right_answer(self._task))


def _stages(calls: Sequence[Call]) -> list[list[Call]]:
    return [list(stage) for _, stage in groupby(calls, key=lambda call: call.stage)]


def _cut(stages: Sequence[Sequence[Call]], max_calls: int) -> list[list[Call]]:
    return [list(stage[first : first + max_calls]) for stage in stages for first in range(0, len(stage), max_calls)]


class NoisyOraclePolicy(OraclePolicy, _GuessingPolicy):
    """An oracle that errs: each turn with probability `error`, in one of `MISTAKES`, chosen at random.

    - ``tool``: calls another tool than the right one, with arguments that are plausible for it;
    - ``argument``: gives one argument another plausible value;
    - ``skip``: leaves a stage out (what showed an id that is needed later is made up for then);
    - ``stop``: answers before the work is done;
    - ``answer``: gives the answer of another task of the same intent.

    It goes on with the reference trajectory after a mistake, so that some episodes recover. It never makes up for what
    it did not see: a call that takes an id waits for the calls that show it.

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
        self.error, self.mistakes = error, tuple(mistakes)
        self._spoilt: list[Call] = []

    def reset(self, env: gymnasium.Env[Any, Any], observation: str, info: Info) -> None:
        """Begin an episode: read its look-ups and its reference trajectory."""
        super().reset(env, observation, info)
        self._spoilt = []

    def act(self, observation: str, info: Info) -> Any:
        """Return the reference action, or a mistake in its place."""
        assert self._task is not None, "reset() comes first"
        self._make_up()
        wanted = [kind for kind in self.mistakes if (kind == "answer") is not bool(self._script)]
        if not wanted or self.rng.random() >= self.error:
            return super().act(observation, info)
        kind = self.rng.choice(wanted)
        if kind in ("stop", "answer"):
            return self._env.final(self._wrong_answer(self._task))
        stage = self._script.pop(0)
        if kind == "skip":
            self._spoil(stage)
            self._make_up()
            return super().act(observation, info)
        position = self.rng.randrange(len(stage))
        call = stage[position]
        self._spoil([call])
        stage[position] = self._other_tool(call) if kind == "tool" else self._other_argument(call)
        return write_calls(stage, self._env.preface)

    def _spoil(self, calls: Sequence[Call]) -> None:
        """Note reads that are not made."""
        self._spoilt += [call for call in calls if self._env.play.tools[call.name].effect != "write"]

    def _make_up(self) -> None:
        """Put the reads that were not made before the next stage, if that lacks an id."""
        if self._spoilt and self._script and self._lacks_id(self._script[0]):
            self._script[:0] = _cut(_stages(self._spoilt), self._env.max_calls_per_message)
            self._spoilt = []

    def _lacks_id(self, calls: Sequence[Call]) -> bool:
        """Return whether calls take an id that neither the request nor a result of the episode has shown."""
        play = self._env.play
        if not isinstance(play.world, Domain):
            return False
        ids = raw_ids(play.world)
        made = ((call.value, call.error) for call in play.episode.calls)
        known = ids_known(play.world, play.task.instruction, made)
        return any(taken not in known for call in calls for taken in ids_taken(call, ids))

    def _wrong_answer(self, task: Task) -> str:
        others = [
            other
            for other in self._env.source.tasks(task.split)
            if other.intent == task.intent and other.answer != task.answer
        ]
        if not others:
            return "I am afraid that I cannot help with that."
        return str(self._env.right_answer(self.rng.choice(others)))

    def _other_tool(self, call: Call) -> Call:
        tool = self.rng.choice([tool for tool in self._tools if tool.name != call.name] or self._tools)
        return Call(tool.name, self._guesser.arguments(tool), call.stage)

    def _other_argument(self, call: Call) -> Call:
        if not call.arguments:
            return self._other_tool(call)
        tool = self._env.play.tools[call.name]
        name = self.rng.choice(sorted(call.arguments))
        value = self._guesser.other(tool.parameters[name], call.arguments[name])
        return Call(call.name, {**call.arguments, name: value}, call.stage)
