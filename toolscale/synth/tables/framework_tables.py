"""Tables in which a framework keeps its own books, such as migrations and sessions: a YAML file beside this."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.synth.tables.notes import Notes
from toolorchestra.toolscale.synth.tables.sqlite_file import SqliteTable


@functools.cache
def _patterns() -> dict[str, list[str]]:
    return convert(read_yaml(Path(__file__).with_suffix(".yaml")), dict[str, list[str]])


def framework_of(table: str) -> str | None:
    """Return the framework that keeps its own books in a table of this name, or None.

    >>> framework_of("django_session"), framework_of("sessions")
    ('Django', None)
    """
    for framework, patterns in _patterns().items():
        if any(fnmatchcase(table.lower(), pattern) for pattern in patterns):
            return framework
    return None


def without_framework_tables(sources: Sequence[SqliteTable], named: Collection[str], notes: Notes) -> list[SqliteTable]:
    """Return the tables but for those of frameworks; those that are `named` stay, and where no others are, all do."""
    wanted = {name.lower() for name in named}
    kept = [source for source in sources if source.name.lower() in wanted or not framework_of(source.name)]
    if not kept:
        return list(sources)
    left = [source.name for source in sources if source not in kept]
    for framework in dict.fromkeys(map(framework_of, left)):
        names = ", ".join(name for name in left if framework_of(name) == framework)
        notes.left_out(f"Tables of {framework}'s own: {names}. To keep one, name it in a file of names.")
    return kept
