"""Worlds of BFCL's multi-turn tasks: a user's requests one after another, and objects of BFCL's own classes as state.

A session's state follows from the calls that were made: a snapshot has these, and restoring one makes them again.
Reading BFCL's package is `toolorchestra.envs.sources.bfcl`'s part. Nothing of it is run but methods of its classes.
"""

from __future__ import annotations

import copy
import decimal
import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from toolorchestra.envs.task_source import TaskSource
from toolorchestra.toolscale.database.database import Changes
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import Failure, Verdict
from toolorchestra.toolscale.tools.tool import ArgumentError, Tool, ToolContext, ToolResult

_TYPES: dict[str, Any] = {"dict": "object", "float": "number"}
_UNCHECKED = ("ticket_id", "updates")  # ids of some tickets are text; the other is an object
_BOUNDS = {"precision": 1_000.0, "decimal_places": 1_000.0, "exponent": 1_000.0}  # beyond, a sum may take for ever
_MOVES = ("cp", "mv")  # they can put a folder in several places
_MAX_FILES = 2_000
_SET = re.compile(r"(?<=\{)'\w+'(?:, '\w+')+(?=\})")
_MAX_LENGTH = 16_384

Made = tuple[str, bytes]
"""A call that was made: the tool, and its arguments as JSON."""


class BfclTool(Tool):
    """A method of one of BFCL's classes.

    Args:
        owner: Name of the class.
        documentation: The method, as BFCL documents it.
    """

    effect = "write"

    def __init__(self, owner: str, documentation: Mapping[str, Any]) -> None:
        self.owner, parameters = owner, documentation["parameters"]
        every, self._required = parameters["properties"], parameters["required"]
        self._unchecked = {name: every[name] for name in _UNCHECKED if name in every}
        specs = {
            name: _spec(name, found, name in self._required)
            for name, found in every.items()
            if name not in self._unchecked
        }
        super().__init__(documentation["name"], documentation["description"], specs)

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Return the arguments that are given, as they are written: results show whether 1 or 1.0 was.

        Raises:
            ArgumentError: They are not JSON or do not fit the parameters.
        """
        try:
            given = msgspec.json.decode(raw, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return super().decode(raw)  # says what is wrong
        super().decode(msgspec.json.encode({name: given[name] for name in given if name not in self._unchecked}))
        for name, found in self._unchecked.items():
            fields, value = found.get("properties"), given.get(name)
            if fields is not None and not (isinstance(value, dict) and value.keys() <= fields.keys()):
                raise ArgumentError(f"Argument {name!r} of {self.name}: expected an object with {', '.join(fields)}.")
        return given

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call the method of the episode's object."""
        session: BfclSession = context.session
        return session.run(self.name, msgspec.json.encode(arguments))

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema."""
        schema = super().schema
        parameters = schema["function"]["parameters"]
        for name, found in self._unchecked.items():
            parameters["properties"][name] = {**found, "type": _TYPES.get(found["type"], found["type"])}
        parameters["required"] = [*self._required]
        return schema


@dataclass(frozen=True, eq=False)
class BfclWorld:
    """The world of one task.

    Attributes:
        source: Where it is from.
        task: The task. A reference call of stage n belongs to the request n, from 0.
        requests: What the user asks, one after another.
        tools: Tools by name.
        objects: Returns new objects in the initial state, by class.
    """

    source: TaskSource
    task: Task
    requests: Sequence[str]
    tools: Mapping[str, BfclTool]
    objects: Callable[[], dict[str, Any]]
    rules = (
        "The user may have several requests, one after another. The text that you write without any call answers the "
        "present one, and the next may follow."
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self.source).world, (self.source, self.task)

    @property
    def name(self) -> str:
        """The task's id."""
        return self.task.id

    def session(self) -> BfclSession:
        """Return a new session."""
        return BfclSession(self)

    def verify(self, task: Task, session: BfclSession, answer: str) -> Verdict:
        """Judge an episode by BFCL's rule, whatever its answer: see `BfclSession.wrong`."""
        return Verdict(tuple(Failure("execution", text) for text in session.wrong()))

    @functools.cached_property
    def expected(self) -> list[tuple[dict[str, Any], list[str]]]:
        """The state after the reference calls of each request, and their results; no calls, no results."""
        session, found = self.session(), []
        for number in range(len(self.requests)):
            known = len(session.results)
            for call in self.task.reference_calls:
                if call.stage == number:
                    session.run(call.name, msgspec.json.encode(call.arguments))
            found.append((copy.deepcopy(session.state()), session.results[known:]))
        return found


class BfclSession:
    """The objects of an episode, and the calls that were made for each of the user's requests so far.

    Attributes:
        objects: The objects by class.
        results: The results of the calls, as JSON.
    """

    def __init__(self, world: BfclWorld) -> None:
        self._world = world
        self.reset()

    def reset(self) -> None:
        """Return to the initial state."""
        self.objects = self._world.objects()
        self.results: list[str] = []
        self._made: list[list[Made]] = [[]]
        self._wrong: list[str] = []

    @property
    def asked(self) -> int:
        """How many requests the user has made so far."""
        return len(self._made)

    def follow_up(self) -> str | None:
        """Return the user's next request, once the present one is answered; None if there is no other."""
        if self.asked == len(self._world.requests):
            return None
        self._wrong += self._wrong_now()
        self._made.append([])
        return self._world.requests[self.asked - 1]

    def call(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run `tool` with valid `arguments`."""
        return tool.run(arguments, ToolContext(self))

    def run(self, name: str, arguments: bytes) -> ToolResult:
        """Call a method of the objects; where it raises an error, nothing is changed."""
        owner = self.objects[self._world.tools[name].owner]
        try:
            with decimal.localcontext():  # a method sets the precision
                result = _json(getattr(owner, name)(**msgspec.json.decode(arguments)))
            if name in _MOVES:
                _check_size(owner.root, owner._current_dir)
        except Exception as error:
            self.restore(self.snapshot())
            return ToolResult.failed(f"Error during execution: {error}")
        self._made[-1].append((name, arguments))
        self.results.append(result)
        return ToolResult.ok(json.loads(result))

    def state(self) -> dict[str, Any]:
        """Return what BFCL compares: attributes of the objects, by class and name."""
        found = ((owner, name, value) for owner, one in self.objects.items() for name, value in vars(one).items())
        return {f"{owner}.{name}": value for owner, name, value in found if not name.startswith("_")}

    def wrong(self) -> list[str]:
        """Return what is wrong by BFCL's rule, if the episode ends now.

        After each request that has reference calls: a call was made, the state is as after the reference calls, and
        all results of these are among the results so far.
        """
        left = len(self._world.requests) - self.asked
        return [*self._wrong, *self._wrong_now(), *([f"requests that were not reached: {left}"] if left else [])]

    def _wrong_now(self) -> list[str]:
        state, results = self._world.expected[self.asked - 1]
        found = []
        if results and not self._made[-1]:
            found.append("no call was made")
        elif results:
            own = self.state()
            found += [f"{name} is not as it should be" for name in state if own[name] != state[name]]
            missing = (Counter(results) - Counter(self.results)).total()
            found += [f"results that should have been seen are missing: {missing}"] if missing else []
        return [f"request {self.asked}: {text}" for text in found]

    def touched(self) -> Changes:
        """Return no rows: there is no database."""
        return {}

    def snapshot(self) -> tuple[tuple[Made, ...], ...]:
        """Return the calls that were made for each request, from which the state follows."""
        return tuple(map(tuple, self._made))

    def restore(self, snapshot: tuple[tuple[Made, ...], ...]) -> None:
        """Make the calls of a snapshot anew."""
        self.reset()
        for number, made in enumerate(snapshot):
            if number:
                self.follow_up()
            for name, arguments in made:
                self.run(name, arguments)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _check_size(*folders: Any) -> None:
    """Raise a `ValueError` if folders hold more files than can be walked at once, or themselves."""
    left, count = [*folders], 0
    while left:
        left += getattr(left.pop(), "contents", {}).values()
        count += 1
        if count > _MAX_FILES:
            raise ValueError(f"there would be more than {_MAX_FILES:,} files")


def _json(result: Any) -> str:
    """Return a result as JSON; what is none is told as text, as BFCL does.

    An error may name what would be right as a set, which is put in order.
    """
    if isinstance(result, dict) and isinstance(result.get("error"), str):
        result = {**result, "error": _SET.sub(lambda found: ", ".join(sorted(found[0].split(", "))), result["error"])}
    try:
        return json.dumps(result)
    except (TypeError, ValueError):
        return json.dumps(str(result))


def _spec(name: str, found: Mapping[str, Any], required: bool) -> ParameterSpec:
    kind, bound, item = _TYPES.get(found["type"], found["type"]), _BOUNDS.get(name), found.get("items", {}).get("type")
    return ParameterSpec(
        type=kind,
        description=found["description"],
        required=required,
        minimum=None if bound is None else -bound,
        maximum=bound,
        max_length=_MAX_LENGTH,
        items=_TYPES.get(item, item),
    )
