"""Building a domain's database from its recipes, with Faker.

The bytes of the database depend on the domain file, its seed and Faker's version alone: each column has a random
generator of its own, tables have no rowids (rows are in the order of the key), and the header fields with SQLite's
version are cleared. Records are checked as they are inserted (types, keys, references, CHECKs) and at the end
(consistency rules).
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import random
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice, repeat
from typing import Any

from toolorchestra.toolscale.common.errors import DomainError, unknown_name
from toolorchestra.toolscale.database.connection import Connection
from toolorchestra.toolscale.database.format import ColumnSpec, DomainSpec, Recipe, TableSpec
from toolorchestra.toolscale.database.sql import (
    SQL_ERRORS,
    bounded,
    fetch,
    prepare_connection,
    primary_key,
    quote,
    read_only,
    sql_error,
)

_ATTEMPTS = 1000
_VERSION_FIELDS = ((24, 4), (92, 4), (96, 4))  # change counter, version-valid-for, SQLite's version number


def create_table_sql(name: str, table: TableSpec) -> str:
    """Return the CREATE TABLE statement of a table: strict types, all constraints, no rowid."""
    lines = []
    for column, spec in table.columns.items():
        line = f"{quote(column)} {spec.type}" + " NOT NULL" * (not spec.nullable) + " UNIQUE" * spec.unique
        if spec.references:
            target, key = spec.references.split(".")
            line += f" REFERENCES {quote(target)} ({quote(key)})"
        lines.append(line)
    lines.append(f"PRIMARY KEY ({', '.join(map(quote, primary_key(table)))})")
    for foreign in table.foreign_keys:  # without columns, the other table's primary key is meant
        lines.append(f"FOREIGN KEY ({', '.join(map(quote, foreign.columns))}) REFERENCES {quote(foreign.references)}")
    lines += [f"CHECK ({check})" for check in table.checks]
    return f"CREATE TABLE {quote(name)} (\n  " + ",\n  ".join(lines) + "\n) STRICT, WITHOUT ROWID"


def create_schema(connection: sqlite3.Connection, spec: DomainSpec, file: Any = None) -> None:
    """Create the domain's empty tables and indexes.

    Raises:
        DomainError: A table cannot be created.
    """
    for name, table in spec.tables.items():
        try:
            _create(connection, name, table)
        except SQL_ERRORS as error:
            raise DomainError(f"The table cannot be created: {error}.", file=file, path=f"tables.{name}") from None


def _create(connection: sqlite3.Connection, name: str, table: TableSpec) -> None:
    connection.set_authorizer(_schema_only)  # CHECKs are SQL of the domain
    try:
        connection.execute(create_table_sql(name, table))
        for columns in table.indexes:
            index = quote(f"{name}_{'_'.join(columns)}")
            connection.execute(f"CREATE INDEX {index} ON {quote(name)} ({', '.join(map(quote, columns))})")
    finally:
        connection.set_authorizer(None)


_SCHEMA_ACTIONS = frozenset({
    sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_REINDEX,
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_READ,
})  # fmt: skip


def _schema_only(action: int, *rest: Any) -> int:
    """Allow what creating a table takes: the authorizer for its CHECKs, which may do what reading may."""
    return sqlite3.SQLITE_OK if action in _SCHEMA_ACTIONS else read_only(action, *rest)


def build_database(spec: DomainSpec, file: Any = None) -> bytes:
    """Return the image of the domain's database, built from its seed.

    Raises:
        DomainError: A recipe cannot be carried out, or the records break a constraint or a rule.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None, factory=Connection)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.create_function("draw", -1, _draw(spec.seed), deterministic=True)
    prepare_connection(connection)
    builder = _Builder(connection, spec, file)
    for name, table in spec.tables.items():
        builder.build(name, table)
    check_records(connection, spec, file)
    connection.execute("VACUUM")
    image = bytearray(connection.serialize())
    connection.close()
    for start, size in _VERSION_FIELDS:
        image[start : start + size] = bytes(size)
    return bytes(image)


def check_records(connection: sqlite3.Connection, spec: DomainSpec, file: Any = None) -> None:
    """Check all records: references and consistency rules (types, keys and CHECKs hold by construction).

    Raises:
        DomainError: Names the rule and the first rows that break it.
    """
    broken = connection.execute("PRAGMA foreign_key_check").fetchone()
    if broken:
        raise DomainError(f"A row refers to a missing row of {broken[2]}.", file=file, path=f"tables.{broken[0]}")
    for i, rule in enumerate(spec.consistency):
        path = f"consistency[{i}].sql"
        try:
            with _confined(connection):
                rows = connection.execute(rule.sql, {"today": spec.today}).fetchmany(3)
        except SQL_ERRORS as error:
            raise DomainError(sql_error(error), file=file, path=path) from None
        if rows:
            raise DomainError(f"Records break the rule {rule.rule!r}, e.g. {rows[0]}.", file=file, path=path)


@contextmanager
def _confined(connection: sqlite3.Connection, writable: str | None = None) -> Iterator[None]:
    """Let SQL of the domain read, and update the table `writable`, but do nothing else (attach a file, say)."""

    def authorize(action: int, first: str | None, *rest: Any) -> int:
        if action == sqlite3.SQLITE_UPDATE and first == writable:
            return sqlite3.SQLITE_OK
        return read_only(action, first, *rest)

    connection.set_authorizer(authorize)
    try:
        with bounded(connection):
            yield
    finally:
        connection.set_authorizer(None)


def _draw(seed: int) -> Callable[..., float]:
    def draw(*salt: Any) -> float:
        digest = hashlib.blake2b(repr((seed, salt)).encode(), digest_size=7).digest()
        return int.from_bytes(digest) / 2**56

    return draw


def _stored(value: Any) -> Any:
    """Return what SQLite can store of a recipe's value, which may be of any type that Faker makes."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=repr, ensure_ascii=False)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value) if isinstance(value, (datetime.timedelta, uuid.UUID)) else value


class _Builder:
    """Makes the rows of one table after another."""

    def __init__(self, connection: sqlite3.Connection, spec: DomainSpec, file: Any) -> None:
        from faker import Faker  # a quarter of a second, and only building needs it

        self._connection = connection
        self._spec = spec
        self._file = file
        self._faker = Faker("en_US")

    def build(self, name: str, table: TableSpec) -> None:
        """Make and insert the rows of a table."""
        path = f"tables.{name}"
        for i, row in enumerate(table.rows):
            if unknown := set(row) - set(table.columns):
                raise self._fail(f"{path}.rows[{i}]", unknown_name(f"column of {name}", min(unknown), table.columns))
        rows = [*map(dict, table.rows), *self._queried(table, path), *({} for _ in range(table.count))]
        for column, spec in table.columns.items():
            if spec.recipe is not None and spec.recipe.sql is None:
                self._fill_column(rows, name, column, spec)
        complete = [{column: _stored(row.get(column)) for column in table.columns} for row in rows]
        self._computed(name, table, complete)
        try:
            _create(self._connection, name, table)
            marks = ", ".join("?" * len(table.columns))
            with bounded(self._connection):
                self._connection.executemany(
                    f"INSERT INTO {quote(name)} VALUES ({marks})", ([*row.values()] for row in complete)
                )
        except SQL_ERRORS as error:
            raise self._fail(path, f"The rows cannot be inserted: {error}.") from None

    def _fail(self, path: str, message: str, remedy: str = "") -> DomainError:
        return DomainError(message, file=self._file, path=path, remedy=remedy)

    def _queried(self, table: TableSpec, path: str) -> list[dict[str, Any]]:
        if table.query is None:
            return []
        try:
            with _confined(self._connection):
                names, rows = fetch(self._connection.execute(table.query, {"today": self._spec.today}))
        except SQL_ERRORS as error:
            raise self._fail(f"{path}.query", sql_error(error)) from None
        if unknown := set(names) - set(table.columns):
            raise self._fail(f"{path}.query", unknown_name("column of the table", min(unknown), table.columns))
        return rows

    def _fill_column(self, rows: list[dict[str, Any]], table: str, column: str, spec: ColumnSpec) -> None:
        path = f"tables.{table}.columns.{column}.recipe"
        recipe = spec.recipe
        assert recipe is not None
        rng = random.Random(f"{self._spec.seed}:{table}.{column}")
        self._faker.seed_instance(f"{self._spec.seed}:{table}.{column}")
        taken = {row[column] for row in rows if column in row}
        try:
            cells = self._cells(recipe, rng, path)
            for number, row in enumerate(rows, 1):
                if column in row:
                    continue
                if recipe.null_share and rng.random() < recipe.null_share:
                    row[column] = None
                elif recipe.sequence is not None:
                    row[column] = recipe.sequence.format(number)
                else:
                    row[column] = self._next(cells, taken if recipe.unique else None, path)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise self._fail(path, f"The recipe cannot be carried out: {error}.") from None

    def _next(self, cells: Iterator[Any], taken: set[Any] | None, path: str) -> Any:
        for value in islice(cells, _ATTEMPTS):
            if taken is None:
                return value
            if value not in taken:
                taken.add(value)
                return value
        raise self._fail(path, "There are too few distinct values for `unique`.", "Widen the recipe.")

    def _cells(self, recipe: Recipe, rng: random.Random, path: str) -> Iterator[Any]:
        """Yield the values of a recipe for ever."""
        if recipe.faker is not None:
            providers = {name for part in self._faker.get_providers() for name in dir(part) if name[0] != "_"}
            if recipe.faker not in providers:
                raise self._fail(path, unknown_name("Faker provider", recipe.faker, providers, limit=3))
            provider = getattr(self._faker, recipe.faker)
            yield from (provider(**recipe.args) for _ in repeat(None))
        elif recipe.choice is not None:
            yield from (rng.choices(recipe.choice, recipe.weights)[0] for _ in repeat(None))
        elif recipe.range is not None:
            low, high = recipe.range
            steps = round((high - low) / recipe.step)
            whole = all(float(x).is_integer() for x in (low, recipe.step))
            numbers = (low + rng.randint(0, steps) * recipe.step for _ in repeat(None))
            yield from (int(number) if whole else round(number, 6) for number in numbers)
        elif recipe.dates is not None:
            first, last = map(datetime.date.fromisoformat, recipe.dates)
            days = (rng.randint(0, (last - first).days) for _ in repeat(None))
            yield from ((first + datetime.timedelta(day)).isoformat() for day in days)
        elif recipe.reference is not None:
            table, column = recipe.reference.split(".")
            sql = f"SELECT {quote(column)} FROM {quote(table)} WHERE {quote(column)} IS NOT NULL ORDER BY 1"
            try:
                values = [row[0] for row in self._connection.execute(sql)]
            except sqlite3.Error as error:
                raise self._fail(path, f"SQL error: {error}.", "Refer to an earlier table.") from None
            yield from (rng.choice(values) for _ in repeat(None))
        else:
            yield from repeat(recipe.value)

    def _computed(self, name: str, table: TableSpec, rows: list[dict[str, Any]]) -> None:
        """Compute the columns whose recipe is SQL, in a temporary copy without constraints."""
        computed = {c: s.recipe.sql for c, s in table.columns.items() if s.recipe and s.recipe.sql is not None}
        if not computed or not rows:
            return
        columns = ", ".join(f"{quote(column)} {spec.type}" for column, spec in table.columns.items())
        self._connection.execute(f"CREATE TEMP TABLE {quote(name)} ({columns})")
        marks = ", ".join(f":{column}" for column in table.columns)
        try:
            self._connection.executemany(f"INSERT INTO temp.{quote(name)} VALUES ({marks})", rows)
        except SQL_ERRORS as error:
            raise self._fail(f"tables.{name}", f"The rows cannot be inserted: {error}.") from None
        for column, sql in computed.items():
            try:
                with _confined(self._connection, name):
                    update = f"UPDATE temp.{quote(name)} SET {quote(column)} = ({sql}) WHERE {quote(column)} IS NULL"
                    self._connection.execute(update, {"today": self._spec.today})
            except SQL_ERRORS as error:
                raise self._fail(f"tables.{name}.columns.{column}.recipe.sql", sql_error(error)) from None
        cursor = self._connection.execute(f"SELECT * FROM temp.{quote(name)} ORDER BY rowid")
        for row, values in zip(rows, cursor.fetchall(), strict=True):
            row.update(zip(table.columns, values, strict=True))
        self._connection.execute(f"DROP TABLE temp.{quote(name)}")
