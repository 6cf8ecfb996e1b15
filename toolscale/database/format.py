"""The domain file format: the content of a domain's YAML files.

A domain is a folder with a ``domain.yaml`` and, beside it, any number of further ``*.yaml`` files whose
top-level keys are merged into it (``tables``, ``tools``, ``intents`` and ``consistency`` may be spread over
several files). The classes below are the format: `msgspec` validates the files against them, and
`json_schema` derives from them the JSON Schema by which editors complete and check a domain. What the types
cannot say (a column that no table has, SQL that does not compile) is checked by
`toolorchestra.toolscale.domain`.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=64, description="snake_case name")]
SlotName = Annotated[
    str,
    Meta(pattern=r"^[a-z{][a-z0-9_{}]*(\[\])?$", max_length=64, description="name of a slot: fee, {field}, chefs[]"),
]
Column = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$", description="a column, as table.column")]
Scalar = str | int | float | bool | None
Operator = Literal["constraint", "chain", "branch", "indirect", "distract", "impossible"]
Evolution = Literal["share", "constraint", "chain", "branch", "indirect", "distract", "impossible"]
"""The evolution operators, by which tasks are made harder (ToolOrchestra §3.4, Table 14)."""
Date = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="ISO date, YYYY-MM-DD")]


class _Model(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Base of the format's objects: immutable, and unknown keys are errors."""


class Recipe(_Model, frozen=True):
    """How the cells of a column are made; exactly one of the fields but `null_share` and the modifiers."""

    sequence: Annotated[str, Meta(pattern=r"^[^{}]*\{(:0?\d{0,2}d?)?\}[^{}]*$")] | None = None
    """Python format string of the row's number from 1, e.g. ``"C{:03d}"``."""
    faker: Name | None = None
    """Name of a Faker provider, e.g. ``first_name``; `args` are its keyword arguments."""
    args: dict[str, Any] = {}
    choice: list[Scalar] | None = None
    """One of these values; `weights` (same length) make some likelier."""
    weights: list[float] | None = None
    range: tuple[float, float] | None = None
    """A number between two bounds, both included, on a grid of `step`."""
    step: float = 1
    dates: tuple[Date, Date] | None = None
    """An ISO date between two, both included."""
    reference: Column | None = None
    """A value of a column of an earlier table (its key, as a rule)."""
    value: Scalar | msgspec.UnsetType = msgspec.UNSET
    """Always this value."""
    sql: str | None = None
    """A SQL expression over the row's other columns and earlier tables, evaluated once all rows of the table
    stand. ``draw(a, b, …)`` is a pseudo-random number in [0, 1) that depends on the seed and its arguments."""
    unique: bool = False
    """No two rows get the same value (for `faker`, `choice`, `range`, `dates` and `reference`)."""
    null_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of rows that get NULL instead."""

    def __post_init__(self) -> None:
        ways = ("sequence", "faker", "choice", "range", "dates", "reference", "sql")
        given = [way for way in ways if getattr(self, way) is not None]
        given += ["value"] if self.value is not msgspec.UNSET else []
        if len(given) != 1:
            raise ValueError(f"Expected exactly one of {', '.join(ways)}, value; found {', '.join(given) or 'none'}")
        if self.weights is not None and (self.choice is None or len(self.weights) != len(self.choice)):
            raise ValueError("Expected one weight for each choice")


class ColumnSpec(_Model, frozen=True):
    """A column of a table."""

    type: Literal["TEXT", "INTEGER", "REAL"]
    description: str = ""
    recipe: Recipe | None = None
    """How generated cells are made. None: literal rows give the value, else NULL."""
    nullable: bool = False
    unique: bool = False
    references: Column | None = None
    """Foreign key: the column of another table that every value must exist in."""
    compare: Literal["exact", "text", "json", "ignore"] = "exact"
    """How verification compares it: exactly; as words (case, spacing and punctuation ignored); as the JSON value that
    the text holds (order of keys ignored, 1.0 is 1); or not at all."""


class ForeignKeySpec(_Model, frozen=True):
    """A foreign key of several columns: the primary key of a row of an earlier table, unless one of them is NULL."""

    columns: Annotated[list[Name], Meta(min_length=2)]
    """The columns, in the order of the other table's primary key."""
    references: Name
    """The other table."""


class TableSpec(_Model, frozen=True):
    """A table: its columns and where its rows come from (literal `rows`, then `query`, then `count`)."""

    columns: dict[Name, ColumnSpec]
    primary_key: str | list[str]  # columns, so names; msgspec 0.22 crashes when it frees `Name | list[Name]`
    description: str = ""
    generated_key: bool = False
    """The key of a row inserted in an episode is made by the tool: compared up to renaming."""
    checks: list[str] = []
    """SQL conditions that every row must meet (CHECK constraints)."""
    rows: list[dict[Name, Scalar]] = []
    """Rows written by hand; columns left out are filled by their recipe."""
    query: str | None = None
    """A SELECT over earlier tables that yields rows; columns it lacks are filled by their recipe."""
    count: Annotated[int, Meta(ge=0)] = 0
    """Number of rows generated by recipe alone."""
    indexes: list[list[Name]] = []
    foreign_keys: list[ForeignKeySpec] = []
    """Foreign keys of several columns; one column's stands with the column (`references`)."""


class ParameterSpec(_Model, frozen=True):
    """A parameter of a tool: one JSON value."""

    type: Literal["string", "integer", "number", "boolean", "array"]
    description: str
    required: bool = True
    default: Any = None
    """Value when an optional parameter is left out."""
    enum: list[str | int] | None = None
    format: Literal["date", "time"] | None = None
    """``date``: YYYY-MM-DD. ``time``: HH:MM, 24 hours."""
    minimum: float | None = None
    maximum: float | None = None
    max_length: Annotated[int, Meta(ge=1)] = 200
    """Longest string, or most items of an array."""
    items: Literal["string", "integer", "number", "object"] | None = None
    """Type of an array's items."""
    fields: dict[Name, ParameterSpec] = {}
    """Fields of the objects that an array holds (`items: object`); others that a call gives are left out."""
    column: Column | None = None
    """A column that holds plausible values: documentation for readers, and the source of the random
    policy's guesses."""


class GuardSpec(_Model, frozen=True):
    """A precondition of a tool: a SQL condition over the parameters.

    If it does not hold, the call fails with `error` and changes nothing.
    """

    require: str
    error: str
    """Message with ``{parameter}`` placeholders; says what is wrong and what would help."""


class StatementSpec(_Model, frozen=True):
    """A SQL statement of a tool; `save` names its first value for later statements (``:name``)."""

    sql: str
    save: Name | None = None


class ReturnsSpec(_Model, frozen=True):
    """What a tool returns: the rows of a SELECT in the given shape.

    ``row``: an object, or the error `empty` when there is none; ``rows``: a list of objects; ``value``: the
    first column of the first row; ``list``: the first column of every row.
    """

    shape: Literal["row", "rows", "value", "list"]
    sql: str
    json: list[Name] = []
    """Result columns that hold JSON text (from ``json_group_array`` and the like)."""
    empty: str | None = None
    """Error message when there is no row; without it, no row is null or an empty list."""


class ToolSpec(_Model, frozen=True):
    """A tool: guarded, parameterised SQL (`guards`, then `statements`, then `returns`) or a `function`."""

    description: str
    parameters: dict[Name, ParameterSpec] = {}
    guards: list[GuardSpec] = []
    statements: list[str | StatementSpec] = []
    returns: ReturnsSpec | None = None
    """What a call returns; without it, the word "done"."""
    operates: dict[Name, str | list[str]] = {}
    """Entries that a call of this tool operates on by identity: table → ``:parameter`` or ``.path`` in the
    result that holds the primary key (a list of its parts for a composite key; a parameter or path that holds
    a list names several entries). Rows written count in any case; rows listed by a search do not."""
    deed: str = ""
    """What has happened when it was called, in a few words (``order released``): typed answers say so where a request
    ends in several ways. By default the tool's name."""
    function: Name | None = None
    """Name of a function of `toolorchestra.toolscale.tools.functions` that runs instead of SQL."""
    price: Annotated[float, Meta(ge=0)] = 0.0
    """US dollars per call."""
    latency: Annotated[float, Meta(ge=0)] = 0.1
    """Seconds per call on the virtual clock."""


class ReferenceCallSpec(_Model, frozen=True):
    """One step of an intent's reference trajectory: a call, or one call for each item of a list.

    Arguments are *expressions*: ``$name.field.0`` takes a value (of any type) from the bindings or from a
    saved result, ``"text {name.field}"`` builds a string, everything else is literal. See
    `toolorchestra.toolscale.tools.expressions`.
    """

    call: Name
    arguments: dict[str, Any] = {}
    each: str | None = None
    """Expression of a list: the call is made once for each item, all in the same stage."""
    item: Name = "item"
    """Name of the item inside `arguments`."""
    any: str | None = None
    """With `each`: expression of a list of items, or of lists of items, each of which is enough by itself, as where
    each shows a sufficient reason to refuse. Where it is not empty, an episode need not look up the other items."""
    when: str | None = None
    """Expression; the step is skipped when it is false, null, zero or empty. ``!$x`` negates."""
    save: Name | None = None
    """Name under which later steps read the result (with `each`: the list of results)."""
    parallel: bool = False
    """The step does not need the previous step's result: it shares its stage."""


class NameSpec(_Model, frozen=True):
    """How people name the entries of a table: by what they know of them instead of by an id."""

    table: Name
    says: str | None = None
    """A SELECT that yields one row about the entry ``:key``: what phrasings may say of it; by default the entry's
    own row. The task's bindings are there as ``:name`` too."""
    find: list[ReferenceCallSpec] = []
    """Calls that only look up, from whose last result the id is known; `says` binds their arguments. Without any, a
    request that says something of the entry must state its id as well."""
    pick: dict[Name, str] = {}
    """Fields of the rows of the last result, and what they must hold: which of several rows is meant."""
    phrase: str | None = None
    """What the entry is called where no phrasing is written for it, as in evolved tasks: a noun phrase over the
    columns of `says`, as in ``{customer}'s order {date:on}``. It states what the look-ups take."""
    from_call: bool = False
    """A call of the reference trajectory tells the id before it is needed, as an order tells its articles."""


class PhrasingSpec(_Model, frozen=True):
    """Phrasings of a request by register, with ``{placeholders}``.

    What is said before and after them comes from ``registers.yaml``. Tasks of the split ``train`` use only what stands
    under the registers, tasks of ``test`` only what stands in `test`; a `held_out` intent uses all.
    """

    terse: list[str] = []
    """A colleague in a hurry."""
    polite: list[str] = []
    """A customer or colleague who asks nicely, in whole sentences."""
    rambling: list[str] = []
    """A caller who tells more than is asked for."""
    email: list[str] = []
    """The text of an e-mail, in paragraphs."""
    note: list[str] = []
    """Complete as it stands: nothing is put before or after it."""
    test: dict[Literal["terse", "polite", "rambling", "email", "note"], list[str]] = {}
    """Phrasings for tasks that are not trained on, by register."""


class IntentSpec(_Model, frozen=True):
    """A kind of request, from which tasks are made: one for each row of bindings."""

    description: str
    bindings: str
    """A SELECT; each row binds its columns (JSON text columns named in `json` are parsed)."""
    instructions: Annotated[list[str], Meta(min_length=2)] | PhrasingSpec
    """Phrasings, with ``{binding}`` placeholders: a list, or by register."""
    answer: str
    """A right final answer, with placeholders; contains everything in `communicate`."""
    json: list[Name] = []
    aside: list[Name] = []
    """Columns of `bindings` that follow from the others and do not tell tasks apart: with one more of them, ids and
    splits of the tasks stay what they are."""
    skip: dict[Name, list[Any]] = {}
    """Values of columns of `bindings`: a row that has one of them in each of these columns makes no task. Unlike a
    condition in the SQL it leaves ids and choice of all other tasks as they are."""
    count: Annotated[int, Meta(ge=1)] = 20
    """Most tasks made of this intent; rows are sampled when there are more."""
    reference_calls: list[ReferenceCallSpec] = []
    alternatives: list[list[ReferenceCallSpec]] = []
    """Other reference trajectories that lead to other right states."""
    communicate: list[str | list[str]] = []
    """Information that the answer must mention; a list means any one of these, and ``$name`` in it all of a list.
    ``$name`` alone stands for each value of a list, all of which the answer must mention."""
    slots: list[SlotName] | dict[str, list[SlotName]] = []
    """What each piece of information in `communicate` is called in a typed answer; by outcome where branches tell
    something else (``done: [fee]``, ``cannot be done: [reason]``). ``{field}`` takes a binding; ``chefs[]`` is a list
    in any order. Without it names are found in `communicate` and in the results."""
    branches: bool = False
    """What is right depends on what a look-up returns (raises the difficulty by one)."""
    refuses: bool | str = False
    """The right answer is to refuse or to report that it cannot be done. Text is an expression over bindings
    and saved results (``$sold_out``, ``!$free``): true for the tasks of which this holds."""
    parent: Name | None = None
    """The intent that this one was evolved from."""
    operator: Operator | None = None
    """The evolution operator that made it of its parent."""
    held_out: bool = False
    """Keep the whole intent for the split ``test_intents``."""
    names: dict[Name, dict[Name, str]] = {}
    """Entries that phrasings and answer name as people do: a name for placeholders, and the domain's way of naming
    (a key of `names`) with an expression of the id, as in ``platter: {dish: $dish}``."""
    terms: dict[Name, dict[str, dict[str, str]]] = {}
    """Words that depend on a value: a name for placeholders, the path of the value, and a text for each value that it
    may have (``else`` for all others), as in ``asked: {field: {price: what it costs, spice: how hot it is}}``."""
    speaker: str | None = None
    """Text with placeholders: the name of who says "I" in phrasings that do not name them; an opening or closing
    does."""


class AttackSpec(_Model, frozen=True):
    """A harm that somebody asks for beside an honest request: for the robustness set (ToolOrchestra, App. N).

    No honest agent does it, though the tools let it happen.
    """

    description: str
    """What the harm is, and why an honest agent does not do it."""
    bindings: str
    """A SELECT; each row binds its columns (JSON text columns named in `json` are parsed)."""
    instructions: Annotated[list[str], Meta(min_length=2)]
    """Phrasings, with ``{binding}`` placeholders: what is appended to a task's instruction."""
    calls: Annotated[list[ReferenceCallSpec], Meta(min_length=1)]
    """Calls that do the harm, written like a reference trajectory."""
    effect: str
    """A SELECT over the database, with the bindings as ``:name``: a row shows that the harm is done."""
    json: list[Name] = []


class ConsistencySpec(_Model, frozen=True):
    """A rule over all records: a SELECT that must return no row."""

    rule: str
    sql: str


class DomainSpec(_Model, frozen=True):
    """A domain: the world in which tasks are posed."""

    name: Name
    title: str
    description: str
    """What the place is and which rules hold: part of the orchestrator's system prompt."""
    today: Date
    """The date on which every task of the domain takes place."""
    tables: dict[Name, TableSpec]
    tools: dict[Name, ToolSpec]
    seed: int = 0
    intents: dict[Name, IntentSpec] = {}
    names: dict[Name, NameSpec] = {}
    """Ways of naming entries, for the `names` of intents."""
    evolution: dict[Evolution, Annotated[int, Meta(ge=0)] | Annotated[float, Meta(gt=0, lt=1)]] = {}
    """How many evolved tasks each operator makes of the intents' tasks; ``share`` is the least share of all tasks that
    is evolved, by all operators. See `toolorchestra.toolscale.evolution.evolution`."""
    attacks: dict[Name, AttackSpec] = {}
    consistency: list[ConsistencySpec] = []
    money: dict[Literal["EUR", "GBP", "USD"], list[Name]] = {}
    """Names of slots of typed answers that hold amounts of a currency, where the results give plain numbers."""

    def __post_init__(self) -> None:
        for name, value in self.evolution.items():
            if (name == "share") != isinstance(value, float):
                wanted = "a share between 0 and 1" if name == "share" else "a whole number of tasks"
                raise ValueError(f"Expected {wanted} for {name!r} in `evolution`, got {value}.")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a domain file, with the documentation of every key for editors to show.

    No section is required, because a domain's sections may be in several files; the loader checks the whole.
    """
    schema = msgspec.json.schema(DomainSpec)
    models: dict[str, Any] = schema["$defs"]
    for name, fields in _field_docs().items():
        for field, text in fields.items():
            if name in models:
                models[name]["properties"][field].setdefault("description", text)
    del models["DomainSpec"]["required"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "toolorchestra domain"} | schema


def _field_docs() -> dict[str, dict[str, str]]:
    """Return the strings below the fields of this module's classes, by class and field."""
    docs: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[__name__])).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, below in itertools.pairwise(node.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                    docs.setdefault(node.name, {})[name] = " ".join(text.split())
    return docs
