"""Hostile actions: broken JSON, depth and size, wrong types, SQL in every string, and valid calls among them.

`check_environment` sends them. The contract: `step` never raises, every call gets a status and a message that says how
to fix it, and only calls with status OK change the database. Not covered: attacks on the process (signals, memory,
files), since a policy only sends actions.
"""

from __future__ import annotations

import json
import random
import string
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from toolorchestra.agents.messages.content import tool_call
from toolorchestra.envs.answer_modes import SubmitSlotsTool
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.executor import ToolFaultWarning
from toolorchestra.envs.world import WorldSession
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Status, Tool

_CALLS_PER_EPISODE = 10
_EPISODES_BETWEEN_DUMPS = 25

DEPTH = 10_000
"""Levels of the nested arguments."""
HUGE = 10_000_000
"""Characters of the huge arguments."""

Arguments = Callable[[Tool], dict[str, Any]]

SQL = (
    "'; DROP TABLE orders; --",
    "' OR '1'='1",
    "x' UNION SELECT sql FROM sqlite_master --",
    "1; ATTACH DATABASE 'x.db' AS x",
    '"); DELETE FROM customers; --',
    "(SELECT randomblob(1000000000))",
    ":today",
    "%s%n{0}{today}{name!r}",
    "\x00' --",
)
_WRONG: tuple[Any, ...] = (
    None, True, -1, 2**63, 10**400, 1.5, 1e308, "", "now", [], [None], {}, {"a": {"b": []}}, "2025-02-30", "24:61",
)  # fmt: skip
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "0x10", "1_000", "01", "1.", "+1")
_SURROGATES = ("\ud800", "\udfff", "a\udc00b", "\ud83d", "\udc80\udcff")


def _plain(spec: ParameterSpec, rng: random.Random) -> Any:
    """Return a value of a parameter's type, with no knowledge of the domain."""
    if spec.enum:
        return rng.choice(spec.enum)
    match spec.type:
        case "integer" | "number":
            return (int if spec.type == "integer" else float)(spec.minimum or 1)
        case "boolean":
            return True
        case "array":
            return [] if spec.items in ("integer", "number", "object") else ["x"]
        case _:
            return {"date": "2025-07-23", "time": "19:00", None: "x"}[spec.format]


def _text(name: Any, arguments: Any) -> str:
    """Return a call as text; `arguments` may be JSON already."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f'<tool_call>{{"name": {json.dumps(name)}, "arguments": {raw}}}</tool_call>'


class _Attacker:
    """Makes actions of each kind against one set of tools."""

    def __init__(self, rng: random.Random, tools: Sequence[Tool], arguments: Arguments | None) -> None:
        self._rng = rng
        self._tools = list(tools)
        self._arguments = arguments or self._plain_arguments
        self._huge = "A" * HUGE
        self._deep_list: list[Any] = []
        self._deep_object: dict[str, Any] = {}
        for _ in range(DEPTH):
            self._deep_list, self._deep_object = [self._deep_list], {"a": self._deep_object}

    def _plain_arguments(self, tool: Tool) -> dict[str, Any]:
        return {name: _plain(spec, self._rng) for name, spec in tool.parameters.items()}

    def _call(self) -> tuple[Tool, dict[str, Any]]:
        tool = self._rng.choice(self._tools)
        return tool, {"answer": {"x": "x"}} if isinstance(tool, SubmitSlotsTool) else self._arguments(tool)

    def _sent(self, name: Any, arguments: Any) -> Any:
        """Return a call in one of the forms in which calls come."""
        form = self._rng.randrange(4)
        if form == 0:
            return _text(name, arguments)
        if form == 1:
            return [{"name": name, "arguments": arguments}]
        calls = [tool_call("c1", name, arguments if form == 2 else json.dumps(arguments))]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def valid_call(self) -> Any:
        tool, arguments = self._call()
        return self._sent(tool.name, arguments)

    def random_bytes(self) -> Any:
        data = self._rng.randbytes(self._rng.randrange(200))
        match self._rng.randrange(4):
            case 0:
                return data
            case 1:
                return f"<tool_call>{data.decode('latin-1')}</tool_call>"
            case 2:
                return "<tool_call>" + data.decode("utf-8", "replace")
            case _:
                tool, _ = self._call()
                return _text(tool.name, data.decode("latin-1"))

    def truncated_json(self) -> Any:
        tool, arguments = self._call()
        text = _text(tool.name, arguments)
        start, end = len("<tool_call>"), len(text) - len("</tool_call>")
        cut = text[: self._rng.randrange(start, end)]
        return cut if self._rng.random() < 0.5 else cut + "</tool_call>"

    def deep_nesting(self) -> Any:
        tool, arguments = self._call()
        name = next(iter(arguments), "x")
        forms: tuple[Any, ...] = (
            _text(tool.name, f'{{"{name}": {"[" * DEPTH}{"]" * DEPTH}}}'),
            _text(tool.name, '{"a":' * DEPTH + "1" + "}" * DEPTH),
            [{"name": tool.name, "arguments": {**arguments, name: self._deep_list}}],
            {"role": "assistant", "tool_calls": [{"name": tool.name, "arguments": self._deep_object}]},
        )
        return self._rng.choice(forms)

    def huge_arguments(self) -> Any:
        tool, arguments = self._call()
        name = next(iter(arguments), "x")
        if self._rng.random() < 0.5:
            return _text(tool.name, f'{{"{name}": "{self._huge}"}}')
        return [{"name": tool.name, "arguments": {**arguments, name: self._huge}}]

    def wrong_types(self) -> Any:
        tool, arguments = self._call()
        for name in arguments:
            if self._rng.random() < 0.7:
                arguments[name] = self._rng.choice(_WRONG)
        return self._sent(tool.name, arguments if self._rng.random() < 0.8 else self._rng.choice(_WRONG))

    def not_a_number(self) -> Any:
        tool, arguments = self._call()
        if self._rng.random() < 0.5:
            fields = ", ".join(f'"{name}": {self._rng.choice(_NOT_NUMBERS)}' for name in arguments)
            return _text(tool.name, "{" + fields + "}")
        numbers = (float("nan"), float("inf"), float("-inf"), -0.0)
        return [{"name": tool.name, "arguments": {name: self._rng.choice(numbers) for name in arguments}}]

    def unknown_tools(self) -> Any:
        tool, arguments = self._call()
        letters = list(tool.name)
        self._rng.shuffle(letters)
        similar = ("".join(letters), tool.name + "s", tool.name.upper())
        names = (*similar, "", "__class__", "drop table", 7, None, [tool.name])
        return self._sent(self._rng.choice(names), arguments)

    def sql(self) -> Any:
        tool, arguments = self._call()
        for name, spec in tool.parameters.items():
            if spec.type == "string":
                arguments[name] = self._rng.choice(SQL)
            elif spec.type == "array" and spec.items in (None, "string"):
                arguments[name] = [self._rng.choice(SQL)] * 2
        return self._sent(tool.name, arguments)

    def duplicate_ids(self) -> Any:
        call_id = self._rng.choice(("call_1", "call_2", "x", "", "x" * 1000))
        calls = []
        for _ in range(self._rng.randrange(2, 80)):
            tool, arguments = self._call()
            calls.append(tool_call(call_id, tool.name, json.dumps(arguments)))
        return {"role": "assistant", "content": "", "tool_calls": calls}

    def surrogates(self) -> Any:
        tool, arguments = self._call()
        bad = self._rng.choice(_SURROGATES)
        arguments = dict.fromkeys(arguments, bad)
        forms: tuple[Any, ...] = (
            [{"name": tool.name, "arguments": arguments}],
            f"{bad} {_text(tool.name, arguments)} {bad}",  # as JSON escapes, and bare around it
            f'<tool_call>{{"name": "{tool.name}", "arguments": {{"x": "{bad}"}}}}</tool_call>',
            [{"id": bad, "name": bad, "arguments": {bad: bad}}],
            {"content": bad, "tool_calls": [{"id": bad, "name": tool.name, "arguments": "{}"}]},
        )
        return self._rng.choice(forms)

    def missing_and_extra_arguments(self) -> Any:
        tool, arguments = self._call()
        arguments = {name: value for name, value in arguments.items() if self._rng.random() >= 0.5}
        if self._rng.random() < 0.7:
            extra = "".join(self._rng.choices(string.printable, k=self._rng.randrange(12)))
            arguments[extra] = self._rng.choice(_WRONG)
        return self._sent(tool.name, arguments)

    def not_an_action(self) -> Any:
        tool, arguments = self._call()
        cycle: list[Any] = []
        cycle.append(cycle)
        options: tuple[Any, ...] = (
            "", [], {}, None, 3, 2.5, b"bytes", object(), {1, 2}, ToolImpostor(),
            {"tool_calls": 3}, {"tool_calls": {"name": tool.name}}, {"tool_calls": [None]},
            {"tool_calls": [{"function": {}}]}, {"tool_calls": [{"id": 3, "name": tool.name}]},
            {"content": 3, "tool_calls": [[]]}, [None], [[[]]], [tool.name], [{}], [cycle], cycle,
            [{"name": tool.name, "arguments": cycle}], [{"name": {}, "arguments": []}], [{None: 1}],
            "<tool_call></tool_call>", "<tool_call>", "</tool_call><tool_call>", "<tool_call>" * 500,
            "<tool_call>{}</tool_call>", "<tool_call>null</tool_call>", "<tool_call>[]</tool_call>",
            _text(tool.name, arguments) * 100, "<think><tool_call></think></tool_call>",
        )  # fmt: skip
        return self._rng.choice(options)


class ToolImpostor:
    """An object that fails whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} here")


KINDS = tuple(name for name in vars(_Attacker) if not name.startswith("_"))
"""The kinds of hostile actions, each as likely."""


def hostile_actions(
    rng: random.Random, tools: Sequence[Tool], arguments: Arguments | None = None, kinds: Sequence[str] = KINDS
) -> Iterator[Any]:
    """Yield hostile actions without end, against an environment with `tools`.

    Args:
        rng: Draws the actions.
        tools: Tools of the environment.
        arguments: Makes valid arguments for a tool, e.g. `toolorchestra.toolscale.tools.guess.Guesser.arguments`.
        Without
            it, arguments only have the right types, and few calls succeed.
        kinds: Kinds to draw from.
    """
    attacker = _Attacker(rng, tools, arguments)
    makers = [getattr(attacker, kind) for kind in kinds]
    while True:
        yield rng.choice(makers)()


class HostileCheck:
    """Sends hostile actions, and replays the valid calls among them in other sessions to compare the changes."""

    def __init__(self, env: OrchestrationEnv, rng: random.Random) -> None:
        self.env, self.rng = env, rng
        self.episodes = 0
        self.statuses: Counter[Status] = Counter()
        self.wrong: list[str] = []
        self._sources: dict[str, Iterator[Any]] = {}
        self._twins: dict[str, WorldSession] = {}
        self._twin: WorldSession | None = None
        self._over = True

    def step(self) -> None:
        """Send the next action and check the results of the step."""
        if self._over:
            self._begin()
        action = next(self._actions)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ToolFaultWarning)  # its call would pass for one that is refused
                observation, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:
            self._fault(f"step raised {type(error).__name__}: {str(error)[:120]}", action)
            self._over = True
            return
        if info.get("outcome") in ("infra_error", "judge_error"):
            self._fault(f"{info['outcome']}: {info['verdict'][:120]}", action)
        if not self.env.observation_space.contains(observation) or not 0.0 <= float(reward) <= self.env.max_reward:
            self._fault("observation or reward outside its space", action)
        for record in info["calls"]:
            self.statuses[record.status] += 1
            if record.status is not Status.OK and not (record.error or "").strip():
                self._fault(f"{record.name}: {record.status} without a message", action)
        if terminated or truncated or len(self.env.episode.turns) >= _CALLS_PER_EPISODE:
            self.end_episode(whole=self.episodes % _EPISODES_BETWEEN_DUMPS == 0)

    def end_episode(self, *, whole: bool) -> None:
        """Compare the database with one on which only the valid calls were made.

        With `whole`, all of its rows are compared, of an episode that has ended before as well.
        """
        if not self._over:
            self._over = True
            self._twin = self._replayed()
        if whole and self._twin is not None:
            if _rows(self.env.play.session) != _rows(self._twin):
                self.wrong.append(f"{self.env.task.id}: rows changed that no journal has")
            self._twin = None

    def _replayed(self) -> WorldSession | None:
        """Return a session in which only the valid calls of the episode were made, or None if the journals differ."""
        play = self.env.play
        if play.world.name not in self._twins:
            self._twins[play.world.name] = play.world.session()
        twin = self._twins[play.world.name]
        twin.reset()
        for record in self.env.episode.calls:
            if record.status is Status.OK and not play.tools[record.name].uses_episode:
                assert record.arguments is not None
                twin.call(play.tools[record.name], dict(record.arguments))
        if play.session.touched() == twin.touched():
            return twin
        self.wrong.append(f"{self.env.task.id}: the database changed beyond what its valid calls change")
        return None

    def _begin(self) -> None:
        self.env.reset(seed=self.rng.randrange(2**31), options={"split": "all"})
        self.episodes += 1
        self._over, self._twin = False, None
        play = self.env.play
        if play.world.name not in self._sources:
            arguments = Guesser(play.world.database, self.rng).arguments if isinstance(play.world, Domain) else None
            self._sources[play.world.name] = hostile_actions(self.rng, list(play.tools.values()), arguments)
        self._actions = self._sources[play.world.name]

    def _fault(self, message: str, action: Any) -> None:
        try:
            text = repr(action)[:120]
        except RecursionError:
            text = f"a {type(action).__name__} nested too deep to show"
        self.wrong.append(f"{message}; action {text}")


def _rows(session: WorldSession) -> dict[str, list[Any]]:
    """Return all rows of all tables; there are none in a world without a database."""
    if not isinstance(session, Session):
        return {}
    execute = session.connection.execute
    return {table: execute(f"SELECT * FROM {quote(table)}").fetchall() for table in session.database.tables}
