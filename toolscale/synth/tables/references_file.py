"""A file of references: which columns of a database refer to which, where the database says nothing or the wrong thing.

The file is YAML, with names of the database (case does not matter):

    orders.customer_id: customers.id          # adds a reference, or corrects one
    orders.region: null                       # takes one away, declared or not
    "returns.order_no, line": "order_lines.order_no, line"    # of several columns
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolorchestra.toolscale.common.errors import DomainError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable

Place = tuple[str, tuple[str, ...]]
"""A table and columns of it, as the database calls them."""


class GivenReferences:
    """The references that a file gives or takes away.

    Args:
        sources: The tables of the database.
        file: A file of references, if there is one.

    Raises:
        DomainError: The file cannot be read, or names something that the database does not have.
    """

    def __init__(self, sources: Sequence[SqliteTable], file: Path | None = None) -> None:
        self.file = file
        self._columns = {source.name: [column.name for column in source.columns] for source in sources}
        self._given: dict[Place, Place | None] = {}
        try:
            read = convert(read_yaml(file), dict[str, str | None]) if file is not None else {}
        except (DomainError, UnicodeDecodeError, OSError) as error:
            remedy = "Write it as docs/from_sqlite.md shows: `table.column: table.column`, or null."
            raise DomainError(str(error), file=file, remedy=remedy) from None
        for place, target in read.items():
            self._given[self._place(place)] = None if target is None else self._place(target)

    def _place(self, text: str) -> Place:
        """Return the table and the columns of ``table.column`` or ``table.column, column``."""
        tables = [name for name in self._columns if text.lower().startswith(f"{name}.".lower())]
        if not tables:
            message = unknown_name("table", text.partition(".")[0], self._columns)
            raise DomainError(message, file=self.file, remedy="Write `table.column` with names of the database.")
        table = max(tables, key=len)
        known = {f"{table}.{column}".lower(): column for column in self._columns[table]}
        columns = []
        for part in text[len(table) + 1 :].split(","):
            name = f"{table}.{part.strip()}"
            if name.lower() not in known:
                every = [f"{table}.{column}" for column in self._columns[table]]
                raise DomainError(unknown_name("column", name, every), file=self.file)
            columns.append(known[name.lower()])
        return table, tuple(columns)

    def names(self, table: str, columns: Sequence[str]) -> bool:
        """Whether the file says what these columns refer to, or that they do not."""
        return (table, tuple(columns)) in self._given

    def of(self, source: SqliteTable) -> list[tuple[list[str], str, list[str]]]:
        """Return the references of a table: those declared, as the file corrects them, and those that it adds."""
        spelled = {column.lower(): column for column in self._columns[source.name]}
        declared = [([spelled.get(c.lower(), c) for c in columns], *rest) for columns, *rest in source.references]
        found = [(columns, target, to) for columns, target, to in declared if not self.names(source.name, columns)]
        for (table, columns), goal in self._given.items():
            if table == source.name and goal is not None:
                found.append((list(columns), goal[0], list(goal[1])))
        return found
