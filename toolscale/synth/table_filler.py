"""Filling the tables of a draft with records that a model writes (Tables 9 and 10).

Records are read as the format's types, built with, and shown to the model again to be judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from toolorchestra.toolscale.common.errors import unknown_name
from toolorchestra.toolscale.database.build import build_database
from toolorchestra.toolscale.database.format import DomainSpec, Name, Recipe, Scalar, TableSpec
from toolorchestra.toolscale.database.sql import primary_key, quote
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.synth.answer_checks import MAX_ROWS, check_recipes, read_answer, refusing
from toolorchestra.toolscale.synth.derived.templates import prompt
from toolorchestra.toolscale.synth.draft import DomainDraft, records_text, rows_text
from toolorchestra.toolscale.synth.model_queries import InvalidError, ModelQueries, StageCount, UnsettledError

_BATCH = 20
"""Rows written by hand in one answer."""
_MAX_BATCHES = 8
_ENOUGH = 0.8
"""Share of the rows wanted with which a table is left as it is."""

_Batch = tuple[TableSpec, list[tuple[Any, ...]], bool]
"""A table with a batch of records, its rows, and whether it is complete."""


class _RecordsAnswer(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    rows: list[dict[Name, Scalar]] = []
    recipes: dict[Name, Recipe] = {}
    query: str | None = None
    count: Annotated[int, Meta(ge=0, le=MAX_ROWS)] = 0
    complete: bool = False


class _JudgeAnswer(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    fits: bool
    agrees: bool
    plausible: bool
    objections: list[str] = []


@dataclass
class TableFiller:
    """Fills one table, batch by batch."""

    queries: ModelQueries
    remark: Callable[[str, str], None]
    """Notes an objection that remains to a matter."""
    count: StageCount
    draft: DomainDraft
    name: str
    table: TableSpec
    """The table, at first without rows."""
    wanted: int
    """Rows wanted."""
    world: DomainSpec
    """The tables filled before, and the rules that can be checked."""
    _rows: list[tuple[Any, ...]] = field(default_factory=list, init=False)
    _doubted: dict[str, _Batch] = field(default_factory=dict, init=False)  # by matter: valid, but objected to

    def run(self) -> TableSpec:
        """Return the table with its records."""
        subjects = self.draft.subjects
        for number in range(_MAX_BATCHES):
            matter, first = f"{self.name} {number + 1}", not number
            question = self._question(subjects[number % len(subjects)], first=first)
            try:
                batch = self.queries.settle(self.count, matter, question, partial(self._check, first, matter))
            except UnsettledError as error:
                self.remark(f"records/{matter}", str(error))
                if matter in self._doubted:
                    batch = self._doubted[matter]  # an objection is an opinion: the records keep every rule
                elif self._rows:
                    break
                else:
                    raise
            self.table, self._rows, complete = batch
            if complete or len(self._rows) >= _ENOUGH * self.wanted:
                break
        return self.table

    def _question(self, subject: str, *, first: bool) -> str:
        world = replace(self.world, tables=self.world.tables | {self.name: self.table})
        shown = records_text(world, build_database(world), world.tables, 30) if world.tables else ""
        return self.draft.prompt(
            "records",
            table=self.name,
            subject=subject,
            wanted=self.wanted - len(self._rows),
            records=shown or "(none)",
            ways=prompt("first_records" if first else "more_records"),
        )

    def _check(self, first: bool, matter: str, text: str) -> _Batch:
        answer = read_answer(text, _RecordsAnswer)
        if not first and (answer.recipes or answer.query or answer.count):
            raise InvalidError("Expected further `rows` only: recipes, query and count stand already.")
        if unknown := set(answer.recipes) - set(self.table.columns):
            message = unknown_name(f"column of {self.name}", min(unknown), self.table.columns)
            raise InvalidError(f"recipes.{min(unknown)}: {message}")
        check_recipes(answer.recipes)
        limit = max(3 * self.wanted, 50)
        if len(answer.rows) + answer.count > limit:
            raise InvalidError(f"Expected at most {limit} rows, found {len(answer.rows) + answer.count}.")
        columns = {
            column: replace(spec, recipe=answer.recipes[column]) if column in answer.recipes else spec
            for column, spec in self.table.columns.items()
        }
        table = replace(
            self.table,
            columns=columns,
            rows=[*self.table.rows, *answer.rows],
            query=answer.query or self.table.query,
            count=answer.count or self.table.count,
        )
        with refusing():
            domain = Domain(replace(self.world, tables=self.world.tables | {self.name: table}))
            key = ", ".join(map(quote, primary_key(table)))
            rows = domain.database.base.execute(f"SELECT * FROM {quote(self.name)} ORDER BY {key}").fetchall()
        if len(rows) > MAX_ROWS:
            raise InvalidError(f"Expected at most {MAX_ROWS:,} rows, found {len(rows):,}.")
        before = set(self._rows)
        new = [row for row in rows if row not in before]
        if not new and not answer.complete:
            raise InvalidError("Expected rows, found none. Say `complete: true` if nothing belongs here.")
        if new and (objections := self._objections(new, matter)):
            self._doubted[matter] = table, rows, answer.complete
            raise InvalidError(f"Whoever looked through these records objects:\n{objections}")
        return table, rows, answer.complete

    def _objections(self, new: list[tuple[Any, ...]], matter: str) -> str:
        """Return what the model finds wrong with records that it wrote."""
        shown = rows_text(list(self.table.columns), new, 2 * _BATCH)
        question = self.draft.prompt("judge", table=self.name, rows=shown)

        def check(answer: str) -> _JudgeAnswer:
            found = read_answer(answer, _JudgeAnswer)
            if not found.objections and not (found.fits and found.agrees and found.plausible):
                raise InvalidError("Expected `objections` that say what is wrong.")
            return found

        try:
            found = self.queries.settle(self.count, f"{matter}, looked through", question, check)
        except UnsettledError:
            return ""  # a judge that says nothing usable has no objection
        if found.fits and found.agrees and found.plausible:
            return ""
        return "\n".join(f"- {objection[:400]}" for objection in found.objections[:10])
