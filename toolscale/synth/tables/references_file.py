"""A file of references: which columns of a database refer to which, where the database says nothing or the wrong thing.

The file is YAML, with names of the database (case does not matter):

    orders.customer_id: customers.id                         # adds a reference, or corrects one
    orders.region: null                                      # takes one away, declared or not
    "returns.order_no, line": "order_lines.order_no, line"    # of several columns
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolorchestra.toolscale.common.errors import DomainError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable

Place = tuple[str, tuple[str, ...]]
"""A table and columns of it."""


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
        self._known = {f"{table.name}.{column.name}": table.name for table in sources for column in table.columns}
        try:
            read = convert(read_yaml(file), dict[str, str | None]) if file is not None else {}
        except (DomainError, UnicodeDecodeError) as error:
            remedy = "Write it as docs/from_sqlite.md shows: `table.column: table.column`, or null."
            raise DomainError(str(error), file=file, remedy=remedy) from None
        self._given = {self._place(place): target and self._place(target) for place, target in read.items()}

    def _place(self, text: str) -> Place:
        """Return the table and the columns of ``table.column`` or ``table.column, column``, in lower case."""
        known = {name.lower(): table.lower() for name, table in self._known.items()}
        table, columns = "", []
        for part in text.lower().split(","):
            name = f"{table}.{part.strip()}" if table else part.strip()
            if name not in known:
                raise DomainError(unknown_name("column", name, self._known), file=self.file)
            table = known[name]
            columns.append(name[len(table) + 1 :])
        return table, tuple(columns)

    def names(self, table: str, columns: Sequence[str]) -> bool:
        """Whether the file says what these columns refer to, or that they do not."""
        return (table.lower(), tuple(map(str.lower, columns))) in self._given

    def of(self, source: SqliteTable) -> list[tuple[Sequence[str], str, Sequence[str]]]:
        """Return the references of a table: those declared, as the file corrects them, and those that it adds."""
        given = [
            (columns, *goal) for (table, columns), goal in self._given.items() if goal and table == source.name.lower()
        ]
        return [one for one in source.references if not self.names(source.name, one[0])] + given
