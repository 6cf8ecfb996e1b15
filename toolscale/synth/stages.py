"""The stages of synthesis by a model: subjects, schema, records, tools, intents, tasks, evolved tasks (Fig. 3).

Each stage asks, checks what comes back by reading it as the format's types and by building with it, and adds what is
valid to the `DomainDraft`. What may be missing (a tool, an intent) is dropped when its repairs are spent; what the rest
stands on (the schema, the records that others refer to) ends the synthesis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from toolorchestra.toolscale.common.errors import DomainError, SynthesisError
from toolorchestra.toolscale.common.yaml_reader import convert, dump_yaml
from toolorchestra.toolscale.database.build import build_database
from toolorchestra.toolscale.database.format import IntentSpec, Name, Operator, TableSpec, ToolSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import make_domain
from toolorchestra.toolscale.synth.answer_checks import (
    MAX_ROWS,
    SchemaAnswer,
    check_intent,
    check_schema,
    read_answer,
    refusing,
    without_rows,
)
from toolorchestra.toolscale.synth.derived.templates import prompt, read_templates
from toolorchestra.toolscale.synth.draft import DomainDraft, fill_order, records_text, rule_tables
from toolorchestra.toolscale.synth.model_queries import InvalidError, ModelQueries, StageCount, UnsettledError
from toolorchestra.toolscale.synth.sizes import Sizes
from toolorchestra.toolscale.synth.table_filler import TableFiller

STAGES = ("subjects", "schema", "records", "tools", "intents", "tasks", "evolved")

_ROUNDS = 3
"""Times that a stage plans more, where some of what it planned was dropped."""
_SMALL = 10
"""Rows below which a table is one of kinds or places, and keeps the number of rows that its schema gave."""
_HELD_OUT = 6
"""One intent in this many is kept for the split ``test_intents``; of fewer, the last."""
_MAX_REMARK = 300

_PRICES = {"pure": (0.0, 0.05), "read": (0.0005, 0.2), "list": (0.001, 0.3), "write": (0.002, 0.4)}
"""US dollars and virtual seconds of a call, by what it does; a model does not set prices."""
_UTILITIES = convert(read_templates("library_tools.yaml"), dict[str, ToolSpec])
"""The library's tools that every domain has."""

Subject = Annotated[str, Meta(min_length=2, max_length=120)]
Purpose = Annotated[str, Meta(min_length=10, max_length=600)]
T = TypeVar("T")


@dataclass
class Stages:
    """The stages, one method each, to be run in order on one draft.

    Attributes:
        draft: The parts of the domain so far.
        queries: Queries the model.
        sizes: How much of each part.
        image: The database, once it has records.
        remarks: What was dropped and why, and objections that remain, by stage and matter.
    """

    draft: DomainDraft
    queries: ModelQueries
    sizes: Sizes
    image: bytes = b""
    remarks: dict[str, str] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------- subjects, schema, records

    def subjects(self) -> None:
        """Settle what the domain is about (Table 7)."""
        wanted = self.sizes.subjects

        def check(text: str) -> list[str]:
            found = read_answer(text, list[Subject])
            distinct = list(dict.fromkeys(" ".join(subject.split()) for subject in found))
            if len(distinct) < wanted:
                raise InvalidError(f"Expected {wanted} different subjects, found {len(distinct)}.")
            return distinct[:wanted]

        self.draft.subjects = self._essential("subjects", check, count=wanted)

    def schema(self) -> None:
        """Settle tables, house rules and consistency rules (Table 8)."""
        draft, entries = self.draft, self.sizes.entries

        def check(text: str) -> tuple[SchemaAnswer, list[list[str]]]:
            answer = read_answer(text, SchemaAnswer)
            check_schema(answer)
            with refusing():
                tables = {name: without_rows(table) for name, table in answer.tables.items()}
                spec = draft.spec(description=answer.description, tables=tables, consistency=answer.consistency)
                Domain(spec)
                return answer, fill_order(spec)

        answer, groups = self._essential("schema", check, entries=entries)
        draft.description, draft.consistency = answer.description, answer.consistency
        planned = {name: answer.tables[name].count or _SMALL for group in groups for name in group}
        small = sum(count for count in planned.values() if count < _SMALL)  # of kinds, places: they do not grow
        scale = max(1, entries - small) / max(1, sum(planned.values()) - small)
        for name, count in planned.items():
            scaled = count if count < _SMALL else min(MAX_ROWS, math.ceil(count * scale))
            draft.tables[name] = replace(answer.tables[name], count=scaled)

    def records(self) -> None:
        """Fill the tables (Table 9), each batch looked through by the model itself (Table 10)."""
        draft, count = self.draft, self.queries.begin("records")
        empty = draft.spec(tables={name: without_rows(table) for name, table in draft.tables.items()})
        rules = list(zip(draft.consistency, rule_tables(empty), strict=True))
        filled: dict[str, TableSpec] = {}

        def fill(name: str) -> TableSpec:
            checked = [rule for rule, tables in rules if tables <= {*filled, name}]
            world = draft.spec(tables=dict(filled), consistency=checked)
            table, wanted = empty.tables[name], draft.tables[name].count
            return TableFiller(self.queries, self.remark, count, draft, name, table, wanted, world).run()

        for group in fill_order(empty):
            for name, table in zip(group, self.queries.each(count, group, fill), strict=True):
                if isinstance(table, UnsettledError):
                    self.remark(f"records/{name}", f"left empty: {table}")
                    if _referred(name, draft.tables):
                        raise self._failure("records", f"the table {name}, to which others refer", table)
                    table = empty.tables[name]
                filled[name] = table
        draft.tables = {name: filled[name] for name in draft.tables}
        try:
            self.image = build_database(draft.spec())
        except DomainError as error:
            raise self._failure("records", "all tables together", error) from None

    # --------------------------------------------------------------------------------------------------------- tools

    def tools(self) -> None:
        """Settle what can be done (Table 11): first which functions, then each of them."""
        draft, count = self.draft, self.queries.begin("tools")

        def plans(number: int, wanted: int, taken: Sequence[str]) -> tuple[dict[str, str], int]:
            others = f"There are already: {', '.join(taken)}. Name others."
            return {f"plan {number}": draft.prompt("tool_plan", wanted=wanted, taken=others)}, wanted

        def write(plan: dict[str, str]) -> list[str]:
            purposes = plan | {name: tool.description for name, tool in draft.tools.items()}
            questions = {}
            for name, purpose in plan.items():
                others = "\n".join(f"- {other}: {purposes[other]}" for other in purposes if other != name)
                questions[name] = draft.prompt("tool", name=name, purpose=purpose, others=others or "(none)")
            return self._add_each(count, questions, self._checked_tool, draft.tools)

        self._in_rounds(count, draft.tools, self.sizes.tools, plans, write, fixed=_UTILITIES)
        if not draft.tools:
            raise self._nothing("tools", "every one of them")
        draft.tools |= _UTILITIES

    def _checked_tool(self, name: str, text: str) -> ToolSpec:
        tool = read_answer(text, ToolSpec)
        if tool.function is not None:
            raise InvalidError("`function` is for the library's own tools: write `statements` or `returns`.")
        with refusing():
            empty = {table: without_rows(spec) for table, spec in self.draft.tables.items()}
            compiled = Domain(self.draft.spec(tables=empty, consistency=[], tools={name: tool}, intents={}))
            kind: str = compiled.tools[name].effect
        if kind == "read" and tool.returns and tool.returns.shape in ("rows", "list"):
            kind = "list"
        price, latency = _PRICES[kind]
        return replace(tool, price=price, latency=latency)

    # ------------------------------------------------------------------------------------- intents, tasks and evolved

    def intents(self) -> None:
        """Settle what people want (Table 12) and make tasks of it (Table 13), in turns until there are enough."""
        draft = self.draft
        planning, writing = self.queries.begin("intents"), self.queries.begin("tasks")

        def plans(number: int, missing: int, taken: Sequence[str]) -> tuple[dict[str, str], int]:
            """Ask for what is missing, subject by subject."""
            others = f"There are already: {'; '.join(taken)}. Propose others." if taken else ""
            subjects = draft.subjects[:missing]
            each = math.ceil(missing / len(subjects))
            return {
                f"{number}, {subject}": draft.prompt("intent_plan", subject=subject, wanted=each, taken=others)
                for subject in subjects
            }, each

        def write(plan: dict[str, str]) -> list[str]:
            values = {"records": self._records_text()}
            questions = {name: draft.prompt("intent", name=name, purpose=plan[name], **values) for name in plan}
            failed = self._add_each(writing, questions, self._checked_intent, draft.intents)
            return failed + self._drop_conflicting(writing)

        self._in_rounds(planning, draft.intents, self.sizes.intents, plans, write)
        if not draft.intents:
            raise self._nothing("tasks", "every intent")
        every = min(_HELD_OUT, max(3, len(draft.intents)))
        for name in list(draft.intents)[every - 1 :: every]:
            draft.intents[name] = replace(draft.intents[name], held_out=True)

    def evolved(self) -> None:
        """Make harder intents of those there are (Table 14), operator by operator."""
        draft, count = self.draft, self.queries.begin("evolved")
        values = {"records": self._records_text()}
        plan = _evolutions(list(draft.intents), self.sizes.evolved)
        questions = {}
        for name, (parent, operator) in plan.items():
            body = dump_yaml(msgspec.to_builtins(_bare(draft.intents[parent])))
            change = prompt(f"evolved_{operator}")
            questions[name] = draft.prompt("evolved", parent=body, change=change, **values)
        self._add_each(
            count, questions, lambda name, text: self._checked_evolved(name, *plan[name], text), draft.intents
        )
        self._drop_conflicting(count)

    def _records_text(self) -> str:
        return records_text(self.draft.spec(), self.image, self.draft.tables, 3)

    def _checked_intent(self, name: str, text: str) -> IntentSpec:
        intent = replace(
            read_answer(text, IntentSpec), count=self.sizes.tasks_per_intent, held_out=False, parent=None, operator=None
        )
        check_intent(intent)
        with refusing():
            self._domain({name: intent})
        return intent

    def _checked_evolved(self, name: str, parent: str, operator: Operator, text: str) -> IntentSpec:
        intent = self._checked_intent(name, text)
        origin = self.draft.intents[parent]
        same = intent.reference_calls == origin.reference_calls and intent.bindings == origin.bindings
        if same and operator != "distract":
            raise InvalidError(
                "The reference trajectory and the bindings are those of the old intent: nothing became harder."
            )
        if operator == "impossible" and not intent.refuses:
            raise InvalidError("Expected `refuses: true`: the right answer is that it cannot be done.")
        if operator == "branch" and not intent.branches:
            raise InvalidError("Expected `branches: true`: what is done depends on what a look-up returns.")
        return replace(intent, parent=parent, operator=operator, held_out=origin.held_out)

    def _drop_conflicting(self, count: StageCount) -> list[str]:
        """Drop and return intents that stand alone but not beside the others (the same wording, say)."""
        dropped: list[str] = []
        while self.draft.intents:
            try:
                self._domain(self.draft.intents)
                break
            except DomainError as error:
                name = error.path.removeprefix("intents.").split(".")[0]
                if name not in self.draft.intents:
                    raise
                del self.draft.intents[name]
                dropped.append(name)
                count.dropped += 1
                self.remark(f"{count.stage}/{name}", error.message)
        return dropped

    def _domain(self, intents: dict[str, IntentSpec]) -> Domain:
        """Make the tasks of some intents."""
        return make_domain(self.draft.spec(intents=intents), image=self.image)

    # -------------------------------------------------------------------------------------------------------- shared

    def _essential(self, stage: str, check: Callable[[str], T], **values: Any) -> T:
        """Settle the one matter of a stage without which there is no domain, by the prompt of its name."""
        questions = {stage: self.draft.prompt(stage, **values)}
        (found,) = self.queries.settle_each(self.queries.begin(stage), questions, lambda _, text: check(text))
        if isinstance(found, UnsettledError):
            self.remark(f"{stage}/{stage}", str(found))
            raise self._failure(stage, "this stage", found)
        return found

    def _in_rounds(
        self,
        count: StageCount,
        into: Mapping[str, object],
        wanted: int,
        plans: Callable[[int, int, Sequence[str]], tuple[dict[str, str], int]],
        write: Callable[[dict[str, str]], list[str]],
        fixed: Iterable[str] = (),
    ) -> None:
        """Plan what is missing and write it, a few times, until there is as much as wanted.

        Args:
            count: The stage that plans.
            into: What there is; `write` adds to it.
            wanted: How much there is to be.
            plans: Gives the questions of a round, of so many things missing and with so many names taken, by matter,
                and the number of names that each asks for.
            write: Writes what was planned (names, and what each is for); returns the names that failed.
            fixed: Further names that are taken.
        """
        failed: list[str] = []
        for number in range(1, _ROUNDS + 1):
            missing, taken = wanted - len(into), [*into, *failed, *fixed]
            if missing <= 0:
                return
            questions, each = plans(number, missing, taken)
            found = self.queries.settle_each(count, questions, partial(_new_names, each, taken))
            failed += write(self._merged(count, found, missing, needed=not into))

    def _merged(
        self, count: StageCount, plans: Sequence[dict[str, str] | UnsettledError], wanted: int, *, needed: bool
    ) -> dict[str, str]:
        """Return the first `wanted` of several plans, taking from each in turn."""
        errors = [plan for plan in plans if isinstance(plan, UnsettledError)]
        for error in errors:
            self.remark(f"{count.stage}/plan", str(error))
        turns = zip_longest(*(plan.items() for plan in plans if not isinstance(plan, UnsettledError)))
        merged: dict[str, str] = {}
        for name, purpose in (entry for entries in turns for entry in entries if entry):
            if len(merged) < wanted:
                merged.setdefault(name, purpose)
        if not merged and needed:
            raise self._failure(count.stage, "the plan", errors[0] if errors else "it was empty")
        return merged

    def _add_each(
        self, count: StageCount, questions: Mapping[str, str], check: Callable[[str, str], T], into: dict[str, T]
    ) -> list[str]:
        """Put what the answer to each question gives into the draft; return the names that failed."""
        failed = []
        for name, written in zip(questions, self.queries.settle_each(count, questions, check), strict=True):
            if isinstance(written, UnsettledError):
                self.remark(f"{count.stage}/{name}", str(written))
                failed.append(name)
            else:
                into[name] = written
        return failed

    def remark(self, matter: str, text: str) -> None:
        """Note what was dropped, or stands in spite of objections."""
        self.remarks[matter] = " ".join(text.split())[:_MAX_REMARK]

    def _nothing(self, stage: str, what: str) -> SynthesisError:
        """Return the error that all of a stage failed, with the last reason."""
        reasons = [text for matter, text in self.remarks.items() if matter.startswith(stage)]
        return self._failure(stage, what, reasons[-1])

    def _failure(self, stage: str, what: str, error: object) -> SynthesisError:
        return SynthesisError(
            f"The stage {stage} failed: the answers for {what} remained invalid after all repairs. "
            f"The last error: {' '.join(str(error).split())[:_MAX_REMARK]} {self.queries.saved} "
            "Raise --repairs to go on from there, or ask another --model."
        )


def _new_names(wanted: int, taken: Sequence[str], matter: str, text: str) -> dict[str, str]:
    """Return an answer's plan: names that are not `taken`, and what each is for."""
    plan = read_answer(text, dict[Name, Purpose])
    new = {name: " ".join(purpose.split()) for name, purpose in plan.items() if name not in taken}
    if len(new) < min(wanted, 2):
        raise InvalidError(f"Expected {wanted} names that are not there already, found {len(new)}.")
    return new


def _referred(name: str, tables: dict[str, TableSpec]) -> bool:
    return any(
        column.references is not None and column.references.split(".")[0] == name
        for other, table in tables.items()
        for column in table.columns.values()
        if other != name
    )


def _bare(intent: IntentSpec) -> IntentSpec:
    """Return an intent as a model is shown it and writes it."""
    return replace(intent, count=20, held_out=False, parent=None, operator=None)


def _evolutions(intents: Sequence[str], wanted: int) -> dict[str, tuple[str, Operator]]:
    """Return the harder intents to be made: by name, the parent and the operator, both varied."""
    operators: tuple[Operator, ...] = get_args(Operator)
    plan: dict[str, tuple[str, Operator]] = {}
    for i in range(min(wanted, len(intents) * len(operators))):
        turn, position = divmod(i, len(intents))
        parent, operator = intents[position], operators[(position + turn) % len(operators)]
        name = f"{parent[: 63 - len(operator)]}_{operator}"
        if name not in plan and name not in intents:
            plan[name] = parent, operator
    return plan
