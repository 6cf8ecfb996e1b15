"""Tools: what an orchestrator can call, and what a call returns.

A tool has a name, a description, typed parameters, an effect, a price and a latency. This module holds the
base class, the validation of arguments and the OpenAI function schema; tools made of SQL are in
`toolorchestra.toolscale.tools.sqltool`, trusted Python ones in `toolorchestra.toolscale.tools.functions`.
"""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Self, TypedDict

import msgspec

from toolorchestra.toolscale.common.errors import ToolOrchestraError, unknown_name
from toolorchestra.toolscale.database.format import ParameterSpec

Effect = Literal["pure", "read", "write"]

Entry = tuple[str, Any]
"""A database entry: table and primary key (a tuple for composite keys)."""

SAFE_INTEGER = 2**53
"""Integers beyond this have no exact JSON reading everywhere, and are refused."""


class Status(StrEnum):
    """How a call ended (ParaManager §3.1: T(p) = (v, σ))."""

    OK = "OK"
    PARSE_ERR = "PARSE_ERR"
    """The call is not one: malformed, unknown tool, wrong arguments. Nothing ran."""
    EXEC_ERR = "EXEC_ERR"
    """The tool ran and refused or failed. Nothing changed."""
    TIMEOUT = "TIMEOUT"
    """The tool ran beyond its bound and was stopped. Nothing changed."""


class ToolOrigin(msgspec.Struct, frozen=True, gc=False):
    """What a tool is, who made it and who runs it: what a user may like or dislike about it.

    Attributes:
        kind: ``function`` (of the world), ``model``, ``search`` or ``interpreter``.
        model: The model's name in the catalogue; "" if it is none.
        vendor: Who made the model.
        provider: Who runs it; ``local``: the user's own machines.
        self_hosted: Whether it runs, or can be run, on the user's own machines: a model with open weights can.
    """

    kind: Literal["function", "model", "search", "interpreter"] = "function"
    model: str = ""
    vendor: str = ""
    provider: str = "local"
    self_hosted: bool = True


class InnerCall(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A call of a model or tool that was made during the call of a tool.

    Attributes:
        value: What came back; None unless `status` is OK.
        cost: US dollars.
        tokens: Tokens that a model read and wrote.
        start: Seconds from the beginning of the outer call to that of this one; `end`: to its end.
        children: Calls made during this one.
    """

    name: str
    status: Status = Status.OK
    value: Any = None
    error: str | None = None
    cost: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    start: float = 0.0
    end: float = 0.0
    children: tuple[InnerCall, ...] = ()


class ToolResult(msgspec.Struct, frozen=True):
    """What a call returned; use the constructors `ok`, `failed` and `timed_out`.

    Attributes:
        status: How the call ended.
        value: The result, JSON-like; None unless `status` is OK.
        error: What went wrong and what would fix it; None when `status` is OK.
        operated: Entries that the call looked up by identity (rows written are in the journal); of a call that a guard
            refuses those that its arguments name.
        cost: US dollars beyond the tool's price (an expert's tokens).
        seconds: Virtual seconds beyond the tool's latency.
        tokens: Tokens read and written by a model behind the tool.
        children: Calls made during this one; `cost`, `tokens` and `seconds` include theirs.
    """

    status: Status
    value: Any = None
    error: str | None = None
    operated: tuple[Entry, ...] = ()
    cost: float = 0.0
    seconds: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    children: tuple[InnerCall, ...] = ()

    @classmethod
    def ok(cls, value: Any, operated: tuple[Entry, ...] = ()) -> ToolResult:
        """A call that did what was asked."""
        return cls(Status.OK, value, None, operated)

    @classmethod
    def failed(cls, error: str) -> ToolResult:
        """A call that the tool refused or could not carry out."""
        return cls(Status.EXEC_ERR, None, error)

    @classmethod
    def timed_out(cls, error: str) -> ToolResult:
        """A call that was stopped at its bound."""
        return cls(Status.TIMEOUT, None, error)


class ArgumentError(ToolOrchestraError, ValueError):
    """Arguments do not fit a tool's parameters; the message would let a model fix its call."""


class ToolContext(msgspec.Struct, frozen=True, gc=False):
    """What a tool may see when it is called. Every field has a default, so that a tool can be run by itself.

    Attributes:
        session: The state of the world; None where there is none.
        task: The task. Its reference trajectory and answer are the ground truth of simulated experts; real ones must
            not be shown them.
        world: Where the episode takes place.
        episode: The record so far, without the turn in progress.
        messages: The conversation so far, the message in progress not included.
        tools: The available tools, by name.
        message: What the agent says beside its calls in the message in progress.
        earlier: Calls of the same message that had ended before this one began (what came before a barrier).
        number: Number of the call in the episode, from 1.
        deadline: When `time.monotonic` reaches it, a blocking call is given up; None: never.
        typed: The slots of the final answer and what is right in them, if it is typed: ground truth, as `task` is.
    """

    session: Any = None
    task: Any = None
    world: Any = None
    episode: Any = None
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Mapping[str, Tool] = {}
    message: str = ""
    earlier: tuple[Any, ...] = ()
    number: int = 1
    deadline: float | None = None
    typed: Any = None

    @property
    def seed(self) -> int:
        """The seed of this call: it follows from the episode's noise seed and the call's number; 0 by itself."""
        return 0 if self.episode is None else zlib.crc32(f"{self.episode.noise_seed}/{self.number}".encode())

    @property
    def calls(self) -> list[Any]:
        """Records of all calls that have ended before this one began."""
        return [*(() if self.episode is None else self.episode.calls), *self.earlier]


NO_CONTEXT = ToolContext()
"""The context of a call outside any episode."""


class Tool(ABC):
    """Something that can be called with named JSON arguments.

    Override `run`; set `effect`. Everything else is machinery.

    Attributes:
        name: Unique within an environment.
        description: What it does, for the orchestrator.
        parameters: Parameter specifications by name.
        origin: What it is, who made it and who runs it.
        effect: ``pure`` (touches no state), ``read`` or ``write``. Writes are barriers: calls of one turn run
            concurrently unless one of them writes.
        blocking: Whether a call waits for something outside this process (a model, a server). Blocking calls of one
            turn that only read run at the same time, each in a thread of its own: `run` must not touch the session.
        uses_episode: Whether `run` reads more of its context than the session. Such a tool does not change the session.
        reads_rows: Whether a call does nothing but read rows of the session's database, so that its result follows from
            them and the arguments: on the same rows it need not be run again.
        timeout: Seconds of real time after which a blocking call is given up, which counts as an outage of what it
            waits for; None: it has none, and only the time for all calls of a message bounds it.
        price: US dollars per call.
        latency: Seconds per call on the virtual clock.
    """

    effect: Effect = "pure"
    origin: ToolOrigin = ToolOrigin()
    blocking: bool = False
    uses_episode: ClassVar[bool] = False
    reads_rows: bool = False
    timeout: float | None = None

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Mapping[str, ParameterSpec],
        *,
        price: float = 0.0,
        latency: float = 0.1,
    ) -> None:
        self.name = name
        self.description = description
        self.parameters = dict(parameters)
        self.price = price
        self.latency = latency
        self._decoder = msgspec.json.Decoder(_arguments_type(name, self.parameters))

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))  # with the same decoder, which takes long to make and never changes
        twin.__dict__.update(self.__dict__)
        return twin

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_decoder"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._decoder = msgspec.json.Decoder(_arguments_type(self.name, self.parameters))

    @property
    def mean_price(self) -> float:
        """US dollars of a typical call; override it where results cost more than the price."""
        return self.price

    @property
    def mean_latency(self) -> float:
        """Seconds of a typical call; override it where results take longer than the latency."""
        return self.latency

    @abstractmethod
    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Carry out a call with valid `arguments` (as `decode` returns them); never raise on bad values.

        If the tool does not set `uses_episode`, its context has the session only.

        Raises:
            ExpertError: A model or server behind the tool failed; by default that is an infrastructure error, and
                where it refused what it was asked (``outage=False``) the call's EXEC_ERR.
            SandboxError, OSError: An infrastructure error.
            Exception: A fault of the tool: the call's EXEC_ERR with a warning, since its arguments may have caused it;
                of a tool without parameters an infrastructure error.
        """

    def decode(self, raw: bytes | msgspec.Raw) -> dict[str, Any]:
        """Return the arguments that the JSON object `raw` holds, with defaults filled in.

        Raises:
            ArgumentError: It is not JSON or does not fit the parameters.
        """
        try:
            return msgspec.structs.asdict(self._decoder.decode(raw))
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise ArgumentError(self._explain(str(error))) from None

    def _explain(self, message: str) -> str:
        """Turn a message of msgspec into one that names the parameter and what it should be."""
        signature = f" Expected arguments: {self.signature()}."
        if found := re.search(r"unknown field `(.*?)`", message, re.DOTALL):
            return unknown_name(f"argument of {self.name}", found[1], self.parameters)
        if found := re.search(r"missing required field `([^`]*)`$", message):
            return f"{self.name} needs the argument {found[1]!r}.{signature}"
        plain = _plain(message if len(message) < 400 else f"{message[:200]} … {message[-200:]}")  # it may quote values
        if found := re.search(r" - at `\$\.?([a-z0-9_]+)?.*`$", plain):
            reason = plain[: found.start()]
            if found[1] in self.parameters:
                parameter = self.parameters[found[1]]
                return f"Argument {found[1]!r} of {self.name}: {reason}. It is {_describe(parameter)}."
            return f"Arguments of {self.name}: {reason}.{signature}"
        return f"Arguments of {self.name} are not a valid JSON object: {plain}.{signature}"

    def signature(self) -> str:
        """Return the parameters in one line, e.g. ``{"dish_id": string, "note"?: string}``."""
        shown = (f'"{n}"{"" if p.required else "?"}: {p.type}' for n, p in self.parameters.items())
        return "{" + ", ".join(shown) + "}"

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an OpenAI function schema (a fresh dictionary)."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": {name: _property(spec) for name, spec in self.parameters.items()},
                    "required": [name for name, spec in self.parameters.items() if spec.required],
                    "additionalProperties": False,
                },
            },
        }


_FORMATS = {"date": r"^\d{4}-\d{2}-\d{2}$", "time": r"^\d{2}:\d{2}$"}
_JSON_NAMES = {"int": "integer", "str": "string", "float": "number", "bool": "boolean"}


def _property(spec: ParameterSpec) -> dict[str, Any]:
    """Return the JSON Schema of a parameter."""
    schema: dict[str, Any] = {"type": spec.type, "description": spec.description}
    if spec.enum:
        schema["enum"] = list(spec.enum)
    if spec.format:
        schema["format"] = spec.format
    for key, value in (("minimum", spec.minimum), ("maximum", spec.maximum)):
        if value is not None:
            schema[key] = value
    if spec.type == "array":
        schema |= {"items": _item_schema(spec), "maxItems": spec.max_length}
    if not spec.required and spec.default is not None:
        schema["default"] = spec.default
    return schema


def _item_schema(spec: ParameterSpec) -> dict[str, Any]:
    """Return the JSON Schema of the items of an array."""
    schema: dict[str, Any] = {"type": spec.items or "string"}
    if spec.items == "object":
        schema["properties"] = {name: _property(field) for name, field in spec.fields.items()}
        schema["required"] = [name for name, field in spec.fields.items() if field.required]
    return schema


def _describe(spec: ParameterSpec) -> str:
    """Return what a parameter takes, in words."""
    kind = f"array of {spec.items or 'string'}s" if spec.type == "array" else spec.type
    if spec.items == "object":
        kind += f" with {', '.join(spec.fields)}"
    parts = [f"a{'n' if kind[0] in 'aeiou' else ''} {kind}"]
    if spec.enum:
        parts.append("one of " + ", ".join(map(repr, spec.enum)))
    if spec.format:
        parts.append({"date": "a date as YYYY-MM-DD", "time": "a time as HH:MM"}[spec.format])
    if spec.minimum is not None:
        parts.append(f"at least {spec.minimum:g}")
    if spec.maximum is not None:
        parts.append(f"at most {spec.maximum:g}")
    return ", ".join(parts) + f" ({spec.description.rstrip('.')})"


def _plain(message: str) -> str:
    """Put JSON's type names for Python's."""
    kinds = "int|str|float|bool|object|array|null"
    names = re.compile(rf"`((?:{kinds})(?: \| (?:{kinds}))*)`")

    def shown(found: re.Match[str]) -> str:
        wanted = [kind for kind in found[1].split(" | ") if kind != "null"] or ["null"]
        return " or ".join(_JSON_NAMES.get(kind, kind) for kind in wanted)

    return names.sub(shown, message)


def _arguments_type(tool: str, parameters: Mapping[str, ParameterSpec]) -> type[msgspec.Struct]:
    """Return a struct type that msgspec decodes and validates the arguments of a tool with."""
    fields: list[Any] = []
    for name, spec in parameters.items():
        kind = _value_type(spec)
        if spec.required:
            fields.append((name, kind))
        elif isinstance(spec.default, list):
            fields.append((name, kind | None, msgspec.field(default_factory=spec.default.copy)))
        else:
            fields.append((name, kind | None, spec.default))
    fields.sort(key=len)
    return msgspec.defstruct(f"{tool}_arguments", fields, forbid_unknown_fields=True, kw_only=True, gc=False)


def _value_type(spec: ParameterSpec) -> Any:
    return _array_type(spec) if spec.type == "array" else _scalar_type(spec.type, spec)


def fits(value: Any, spec: ParameterSpec) -> bool:
    """Return whether `value` is one that an optional parameter takes (None is)."""
    try:
        msgspec.convert({"value": value}, _arguments_type("check", {"value": spec}))
    except (msgspec.ValidationError, TypeError):
        return False
    return True


def _scalar_type(kind: str, spec: ParameterSpec) -> Any:
    if spec.enum:
        return Literal[tuple(spec.enum)]
    match kind:
        case "string":
            pattern = _FORMATS.get(spec.format) if spec.format else None
            return Annotated[str, msgspec.Meta(max_length=spec.max_length, pattern=pattern)]
        case "integer":
            low = -SAFE_INTEGER if spec.minimum is None else int(spec.minimum)
            high = SAFE_INTEGER if spec.maximum is None else int(spec.maximum)
            return Annotated[int, msgspec.Meta(ge=low, le=high)]
        case "number":
            return Annotated[float, msgspec.Meta(ge=spec.minimum, le=spec.maximum)]
        case _:
            return bool


def _array_type(spec: ParameterSpec) -> Any:
    item: Any
    if spec.items == "object":  # dictionaries, without what is no field
        dictionary: Any = TypedDict  # whose fields are known at run time only
        item = dictionary(
            "item",
            {
                name: _value_type(one) if one.required else NotRequired[_value_type(one)]
                for name, one in spec.fields.items()
            },
        )
    else:
        item = _scalar_type(spec.items or "string", ParameterSpec(type="string", description=""))
    return Annotated[list[item], msgspec.Meta(max_length=spec.max_length)]
