"""A domain from an external SQLite file: its tables become the world, its schema the tools and tasks.

The file is analysed (`toolorchestra.toolscale.synth.tables.schema_analysis`), tools and requests are derived from what
was found (`derive`), and all of it is tried with the machinery that builds and validates domains: an intent stays only
if it makes tasks that its reference trajectory solves and that the verifier judges right. What is written is the YAML
that a person would write, to be read, changed and built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.common.yaml_reader import dump_yaml
from toolorchestra.toolscale.database.format import (
    ColumnSpec,
    DomainSpec,
    ForeignKeySpec,
    IntentSpec,
    TableSpec,
    ToolSpec,
)
from toolorchestra.toolscale.database.sql import quote
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.filters import EXAMPLES, FilterResult, Stage
from toolorchestra.toolscale.requests.intents import make_tasks
from toolorchestra.toolscale.requests.naming import in_words, snake_case
from toolorchestra.toolscale.requests.sense_checks import MIN_TASKS, Check, misjudged, reading_checks
from toolorchestra.toolscale.synth.derived.derive import derive_requests, derive_tools
from toolorchestra.toolscale.synth.derived.request_parts import Request
from toolorchestra.toolscale.synth.draft import is_untouched, marked
from toolorchestra.toolscale.synth.model_queries import ModelQueries
from toolorchestra.toolscale.synth.name_question import ask_names
from toolorchestra.toolscale.synth.recipes import recipe_tables
from toolorchestra.toolscale.synth.tables.names_file import read_names
from toolorchestra.toolscale.synth.tables.notes import NOTE_TITLES
from toolorchestra.toolscale.synth.tables.sampling import MAX_ROWS_IN_ALL
from toolorchestra.toolscale.synth.tables.schema_analysis import SchemaAnalysis, analyse_schema
from toolorchestra.toolscale.synth.tables.tables import Column, Table

MAX_TASKS = 900
"""About how many tasks the derived intents make together."""
_HELD_OUT_EVERY = 6
_MAX_SKIPPED = 8  # answers, before it is left to the filters to drop tasks
_FILES = ("domain.yaml", "tools.yaml", "intents.yaml")
_NAMES = (
    "# What tables, columns and texts are called. To change names, edit them and make the domain anew with --names.\n"
)
_PLANNED = re.compile(r"due|requir|expir|until|end|held|schedul|valid|deadline|plan|event|birth|born|dob")


def domain_from_sqlite(
    file: Path,
    folder: Path,
    *,
    name: str | None = None,
    title: str | None = None,
    today: str | None = None,
    records: Literal["keep", "sample"] = "keep",
    names: Path | None = None,
    references: Path | None = None,
    rows: int = MAX_ROWS_IN_ALL,
    seed: int = 0,
    queries: ModelQueries | None = None,
) -> SchemaAnalysis:
    """Write the YAML of a domain made from a SQLite file, and return what was found in that.

    The files are ``domain.yaml``, ``tools.yaml``, ``intents.yaml``, and ``names.yaml``, which says what tables and
    columns are called. What is there is replaced if it was written here and no person has changed it.

    Args:
        file: The database; it is only read.
        folder: Where to write; made if it is not there.
        name: Name of the domain; by default from the file's name.
        title: Its title; by default from its name.
        today: Its date; by default the latest day on which something happened in the records.
        records: ``keep`` the records (a bounded part of them), or ``sample`` new ones like them.
        names: A YAML file of names in other words for tables, columns and texts (`names_file`).
        references: A YAML file that says which columns refer to which (`references_file`).
        rows: About how many rows of all tables together are kept.
        seed: Seed of the domain.
        queries: Queries of a model, which gives English names to what `names` does not name (`name_question`).

    Raises:
        SynthesisError: The model's endpoint failed, or the budget is spent.
        DomainError: The file cannot be read, holds too little, or the folder has a domain already.
    """
    _check_free(folder)
    found = analyse_schema(file, names, rows, references)
    if queries is not None:
        asked, faults = ask_names(queries, found.names, read_names(names))
        found = analyse_schema(file, asked, rows, references)
        found.notes += faults
    name = name or snake_case(file.stem, fallback="domain")
    title = title or in_words(name).capitalize()
    today = today or _today(found.tables.values())
    specs = {name: _table_spec(table) for name, table in found.tables.items()}
    if records == "sample":
        specs = _sampled(found, specs, today, seed)
    box = derive_tools(found.tables, today)
    spec = DomainSpec(name=name, title=title, description="", today=today, seed=seed, tables=specs, tools=box.tools)
    spec, tried = _with_intents(spec, derive_requests(found.tables, box), file)
    spec = replace(spec, description=_description(found, (rule for tool in spec.tools for rule in box.rules[tool])))
    _write(spec, found, folder, file)
    found.stages.append(tried)
    return found


def _check_free(folder: Path) -> None:
    """Refuse a folder with a domain that a person wrote or changed."""
    for file in _FILES if (folder / "domain.yaml").exists() else ():
        if (folder / file).exists() and not is_untouched(folder / file):
            message = f"Expected a folder without a domain; there is a {file} in it, written or changed by hand."
            raise DomainError(message, file=folder, remedy="Give another folder, or remove it.")


def _description(found: SchemaAnalysis, rules: Iterable[str]) -> str:
    lines = [
        f"You keep the records of this place: {', '.join(in_words(table.many) for table in found.tables.values())}.",
        "Look rows up before you change them; ids come from look-ups or from the request, never from guesses.",
        *(f"- {rule}" for rule in dict.fromkeys(rules)),
        "- If a request cannot be met, change nothing and say why.",
    ]
    return "\n".join(lines) + "\n"


def _today(tables: Iterable[Table]) -> str:
    """Return the latest day on which something happened, or else the latest day in the records."""
    days: list[str] = []
    later: list[str] = []
    for table in tables:
        for column in table.columns.values():
            if column.is_date:
                cells = [value[:10] for value in table.present(column.name)]
                (later if _PLANNED.search(column.name) else days).extend(day for day in cells if "1900" < day < "2100")
    return max(days or later or ["2025-01-01"])


def _table_spec(table: Table) -> TableSpec:
    columns = {
        name: ColumnSpec(
            type=column.type,
            description=_described(column),
            nullable=column.nullable,
            unique=column.unique,
            references=".".join(column.references) if column.references else None,
            compare="text" if column.kind == "note" else "exact",
        )
        for name, column in table.columns.items()
    }
    return TableSpec(
        columns=columns,
        primary_key=table.key[0] if len(table.key) == 1 else list(table.key),
        description="" if table.source == table.name else f"From the table {table.source!r}.",
        generated_key=table.generated,
        checks=[" ".join(tokens) for tokens in table.checks],
        rows=table.rows,
        foreign_keys=[ForeignKeySpec(columns=list(one.columns), references=one.target) for one in table.composites],
        indexes=[[column.name] for column in table.references if table.key[0] != column.name and not column.unique],
    )


def _described(column: Column) -> str:
    """Return what a column is called in the database, if otherwise, and whether its reference is only inferred."""
    facts = [] if column.source in ("", column.name) else [f"{column.source!r} in the database"]
    return "; ".join([*facts, "its reference is inferred"] if column.inferred else facts)


def _sampled(found: SchemaAnalysis, specs: dict[str, TableSpec], today: str, seed: int) -> dict[str, TableSpec]:
    """Return the tables with recipes, and put the rows that these make into the analysis.

    A table whose recipes break a CHECK or a key keeps its rows, and so do those that it refers to.
    """
    made = recipe_tables(found.tables, specs)
    while True:
        trial = DomainSpec(name="trial", title="", description="", today=today, seed=seed, tables=made, tools={})
        try:
            domain = Domain(trial)
        except DomainError as error:
            kept = _with_parents(error.path.split(".")[1], found.tables)
            if all(made[name] == specs[name] for name in kept):
                raise
            made |= {name: specs[name] for name in kept}
            found.notes.append(f"The rows of {', '.join(sorted(kept))} were kept: no recipes fit.")
        else:
            break
    for name, table in found.tables.items():
        rows = domain.database.base.execute(f"SELECT * FROM {quote(name)}").fetchall()
        table.data = {c: [row[i] for row in rows] for i, c in enumerate(table.columns)}
        table.describe()
    return made


def _with_parents(name: str, tables: Mapping[str, Table]) -> set[str]:
    """Return a table's name and those of all tables that it leads to."""
    found, waiting = set(), [name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [column.target[0] for column in tables[name].references]
            waiting += [composite.target for composite in tables[name].composites]
    return found


# ------------------------------------------------------------------------------------------------- trying intents


def _with_intents(spec: DomainSpec, requests: Iterable[Request], file: Path) -> tuple[DomainSpec, Stage]:
    """Return the domain with the intents that hold and the tools that one of them uses, and why others do not hold.

    Raises:
        DomainError: No intent holds.
    """
    domain = Domain(spec)
    candidates: dict[str, IntentSpec] = {}
    for name, intent in requests:
        candidates[snake_case(name[:60], candidates)] = intent
    share = min(2.0, MAX_TASKS / (8 * max(1, len(candidates))))
    kept: dict[str, IntentSpec] = {}
    dropped: dict[str, list[str]] = {}
    for name, intent in candidates.items():
        steps = len(intent.reference_calls) + intent.branches + any(step.each for step in intent.reference_calls)
        count = max(MIN_TASKS, round(share * {1: 4, 2: 8}.get(steps, 14)))  # the hard ones are rarer
        counted = replace(intent, count=count)
        tried = _tried(domain, name, counted)
        if isinstance(tried, str):
            dropped.setdefault(tried, []).append(name)
        else:
            held_out = len(kept) % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1
            kept[name] = replace(tried, held_out=held_out)
    if not kept:
        raise DomainError(
            "The records give rise to no task: expected tables with keys and at least three rows that differ.",
            file=file,
            remedy="Fill the tables, or write the domain by hand.",
        )
    used = {step.call for intent in kept.values() for step in intent.reference_calls}
    tools = {name: tool for name, tool in spec.tools.items() if name in used}
    results = [FilterResult(reason, len(kept), len(names), names[:EXAMPLES]) for reason, names in dropped.items()]
    return replace(spec, tools=tools, intents=kept), Stage("intents", results)


def _tried(domain: Domain, name: str, intent: IntentSpec) -> IntentSpec | str:
    """Return an intent whose tasks make sense and are judged rightly, or why it has too few.

    Where it asks for a fact of its bindings, it skips the answers of the tasks that make no sense.
    """
    whole = domain.spec
    domain.spec = replace(whole, intents={name: intent})
    try:
        tasks, _ = make_tasks(domain)
        checks: dict[str, Check] = {**reading_checks(domain), "judged wrongly": lambda left: misjudged(domain, left)}
        for reason, check in checks.items():
            if len(tasks) < MIN_TASKS:
                return "fewer than three tasks"
            judged = list(zip(tasks, check(tasks), strict=True))
            tasks = [task for task, fault in judged if not fault]
            skip = intent.skip.get("fact", [])
            if len(tasks) < len(judged) and intent.communicate == ["{fact}"] and len(skip) < _MAX_SKIPPED:
                more = dict.fromkeys(task.bindings["fact"] for task, fault in judged if fault)
                again = replace(intent, skip={"fact": [*skip, *more]})
                return found if isinstance(found := _tried(domain, name, again), IntentSpec) else reason
            if len(tasks) < MIN_TASKS:
                return reason
    except DomainError:
        return "makes no task"
    finally:
        domain.spec = whole
    return intent


# ------------------------------------------------------------------------------------------------------- writing


def _write(spec: DomainSpec, found: SchemaAnalysis, folder: Path, file: Path) -> None:
    head = f"# Made from the SQLite file {file.name!r}; yours to change. Build it with: toolorchestra build\n"
    for kind, title in NOTE_TITLES.items():
        if notes := found.notes.of(kind):
            head += f"# {title}:\n" + "".join(f"# - {' '.join(note.split())}\n" for note in notes)
    parts = {part: getattr(spec, part) for part in ("name", "title", "today", "seed", "description")}
    text = head + dump_yaml(parts) + "\ntables:\n"
    for name, table in spec.tables.items():
        bare_spec = msgspec.to_builtins(replace(table, rows=[]))
        text += _indented(dump_yaml({name: bare_spec}), 2)
        if table.rows:
            keys = {key: dump_yaml({key: 0})[: -len(": 0\n")] for key in table.columns}
            text += "    rows:\n" + "".join(f"      - {_row(row, keys)}\n" for row in table.rows)
    (folder / "domain.yaml").unlink(missing_ok=True)  # without it the folder is no domain
    if not (folder / "names.yaml").exists() or is_untouched(folder / "names.yaml"):
        write_whole(folder / "names.yaml", marked(_NAMES + dump_yaml(msgspec.to_builtins(found.names))))
    _write_section(folder / "tools.yaml", "tools", spec.tools, "What can be done; derived from the tables.")
    _write_section(folder / "intents.yaml", "intents", spec.intents, "What people ask; derived from the tables.")
    write_whole(folder / "domain.yaml", marked(text))  # last: without it the folder is no domain yet


def _write_section(file: Path, section: str, entries: Mapping[str, ToolSpec | IntentSpec], comment: str) -> None:
    write_whole(file, marked(f"# {comment}\n" + dump_yaml({section: msgspec.to_builtins(dict(entries))})))


def _indented(text: str, spaces: int) -> str:
    return "".join(" " * spaces + line if line.strip() else line for line in text.splitlines(keepends=True))


def _row(row: Mapping[str, Any], keys: Mapping[str, str]) -> str:
    """Return a row as one line of YAML: JSON, with numbers and the `keys` as YAML reads them."""
    return "{" + ", ".join(f"{keys[key]}: {_cell(value)}" for key, value in row.items()) + "}"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value, ensure_ascii=False)
