"""The stages of synthesis by a model: subjects, schema, records, tools, intents, tasks, evolved tasks (Fig. 3).

Each stage asks, checks what comes back by reading it as the format's types and by building with it, and adds what is
valid to the `DomainDraft`. What may be missing (a tool, an intent) is dropped when its repairs are spent; what the rest
stands on (the schema, the records that others refer to) ends the synthesis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from toolorchestra.toolscale.build import build_database
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import make_domain
from toolorchestra.toolscale.errors import DomainError, SynthesisError
from toolorchestra.toolscale.format import IntentSpec, Name, Operator, ParameterSpec, TableSpec, ToolSpec
from toolorchestra.toolscale.synth import prompts
from toolorchestra.toolscale.synth.answer_checks import (
    MAX_ROWS,
    SchemaAnswer,
    check_intent,
    check_schema,
    read_answer,
    refusing,
    without_rows,
)
from toolorchestra.toolscale.synth.draft import (
    DomainDraft,
    fill_order,
    functions_text,
    records_text,
    rule_tables,
    tables_text,
)
from toolorchestra.toolscale.synth.model_queries import InvalidError, ModelQueries, StageCount, UnsettledError
from toolorchestra.toolscale.synth.table_filler import TableFiller
from toolorchestra.toolscale.yaml_reader import dump_yaml

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
_UTILITIES = {
    "look_calendar": ToolSpec(
        description="Find the date and weekday of a day given in words, such as 'next Friday' or 'in 3 days'.",
        parameters={"expression": ParameterSpec(type="string", description="The day in words.")},
        function="look_calendar",
        latency=0.05,
    ),
    "calculator": ToolSpec(
        description="Work out an arithmetic expression, such as '2 * 12.5 + 3'.",
        parameters={"expression": ParameterSpec(type="string", description="The expression.", max_length=500)},
        function="calculator",
        latency=0.05,
    ),
}

Subject = Annotated[str, Meta(min_length=2, max_length=120)]
Purpose = Annotated[str, Meta(min_length=10, max_length=600)]


class Sizes(msgspec.Struct, frozen=True):
    """How much of each is asked for.

    Attributes:
        subjects: Areas that the domain is about; records and intents are spread over them.
        entries: Database rows.
        tools: Tools written by the model; two of the library's (calendar, calculator) come on top.
        intents: Kinds of request, without the evolved ones.
        tasks_per_intent: Most tasks made of each.
        evolved: Harder intents made of others.
    """

    subjects: int = 6
    entries: int = 200
    tools: int = 16
    intents: int = 18
    tasks_per_intent: int = 12
    evolved: int = 8


@dataclass
class Stages:
    """The stages, one method each, to be run in order on one draft.

    Attributes:
        draft: What is settled so far.
        asker: Who is asked.
        sizes: How much of each.
        image: The database, once it has records.
        remarks: What was dropped and why, and objections that remain, by stage and matter.
    """

    draft: DomainDraft
    queries: ModelQueries
    sizes: Sizes
    image: bytes = b""
    remarks: dict[str, str] = field(default_factory=dict)

    # ----------------------------------------------------------------------------------------------- subjects, schema

    def subjects(self) -> None:
        """Settle what the domain is about (Table 7)."""
        wanted = self.sizes.subjects

        def check(text: str) -> list[str]:
            found = read_answer(text, list[Subject])
            distinct = list(dict.fromkeys(" ".join(subject.split()) for subject in found))
            if len(distinct) < wanted:
                raise InvalidError(f"Expected {wanted} different subjects, found {len(distinct)}.")
            return distinct[:wanted]

        self.draft.subjects = self._essential("subjects", prompts.subjects(self.draft.title, wanted), check)

    def schema(self) -> None:
        """Settle tables, house rules and consistency rules (Table 8)."""
        draft, entries = self.draft, self.sizes.entries

        def check(text: str) -> tuple[SchemaAnswer, list[list[str]]]:
            answer = read_answer(text, SchemaAnswer)
            check_schema(answer)
            with refusing():
                spec = draft.spec(
                    description=answer.description,
                    tables={name: without_rows(table) for name, table in answer.tables.items()},
                    consistency=answer.consistency,
                )
                Domain(spec)
                return answer, fill_order(spec)

        prompt = prompts.schema(draft.title, draft.subjects, draft.today, entries)
        answer, groups = self._essential("schema", prompt, check)
        draft.description, draft.consistency = answer.description, answer.consistency
        planned = {name: answer.tables[name].count or _SMALL for group in groups for name in group}
        small = sum(count for count in planned.values() if count < _SMALL)  # of kinds, places: they do not grow
        scale = max(1, entries - small) / max(1, sum(planned.values()) - small)
        draft.tables = {
            name: msgspec.structs.replace(
                answer.tables[name], count=count if count < _SMALL else min(MAX_ROWS, math.ceil(count * scale))
            )
            for name, count in planned.items()
        }

    # ------------------------------------------------------------------------------------------------------- records

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
            found = self.queries.each(count, group, fill)
            for name, table in zip(group, found, strict=True):
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
        draft, count, wanted = self.draft, self.queries.begin("tools"), self.sizes.tools
        tables = tables_text(draft.tables)
        failed: list[str] = []
        for number in range(_ROUNDS):
            missing = wanted - len(draft.tools)
            if missing <= 0:
                break
            taken = [*draft.tools, *failed, *_UTILITIES]
            prompt = prompts.tool_plan(draft.title, draft.rules, tables, draft.subjects, missing, taken)
            plans = self.queries.each(count, [f"plan {number + 1}"], self._planner(count, prompt, missing, taken))
            plan = self._plan(count, plans, missing, taken, needed=not draft.tools)
            everything = plan | {name: tool.description for name, tool in draft.tools.items()}

            def write(name: str, everything: dict[str, str] = everything) -> ToolSpec:
                prompt = prompts.tool(draft.title, draft.rules, tables, everything, name)
                return self.queries.settle(count, name, prompt, lambda text: self._checked_tool(name, text))

            for name, tool in zip(plan, self.queries.each(count, list(plan), write), strict=True):
                if isinstance(tool, UnsettledError):
                    self.remark(f"tools/{name}", str(tool))
                    failed.append(name)
                else:
                    draft.tools[name] = tool
        if not draft.tools:
            raise self._failure("tools", "every one of them", self.remarks.get(f"tools/{failed[-1]}", ""))
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
        return msgspec.structs.replace(tool, price=price, latency=latency)

    # ------------------------------------------------------------------------------------- intents, tasks and evolved

    def intents(self) -> None:
        """Settle what people want (Table 12) and make tasks of it (Table 13), in turns until there are enough."""
        draft, wanted, failed = self.draft, self.sizes.intents, list[str]()
        planning, writing = self.queries.begin("intents"), self.queries.begin("tasks")
        shown = records_text(draft.spec(), self.image, draft.tables, 3)
        tables, functions = tables_text(draft.tables), functions_text(draft.tools)
        for number in range(_ROUNDS):
            missing = wanted - len(draft.intents)
            if missing <= 0:
                break
            taken = [*draft.intents, *failed]
            subjects = draft.subjects[: max(1, min(len(draft.subjects), missing))]
            each = math.ceil(missing / len(subjects))

            def propose(subject: str, each: int = each, taken: Sequence[str] = taken, number: int = number) -> Any:
                prompt = prompts.intent_plan(draft.title, draft.rules, functions, subject, each, taken)
                return self._planner(planning, prompt, each, taken)(f"{number + 1}, {subject}")

            plans = self.queries.each(planning, subjects, propose)
            plan = self._plan(planning, plans, missing, taken, needed=not draft.intents)

            def write(name: str, plan: dict[str, str] = plan) -> IntentSpec:
                prompt = prompts.intent(draft.title, draft.rules, tables, functions, shown, name, plan[name])
                return self.queries.settle(writing, name, prompt, lambda text: self._checked_intent(name, text))

            for name, intent in zip(plan, self.queries.each(writing, list(plan), write), strict=True):
                if isinstance(intent, UnsettledError):
                    self.remark(f"tasks/{name}", str(intent))
                    failed.append(name)
                else:
                    draft.intents[name] = intent
            self._settle_together(writing, failed)
        if not draft.intents:
            raise self._failure("tasks", "every intent", self.remarks.get(f"tasks/{failed[-1]}", ""))
        every = min(_HELD_OUT, max(3, len(draft.intents)))
        for position, name in enumerate(draft.intents, 1):
            if position % every == 0:
                draft.intents[name] = msgspec.structs.replace(draft.intents[name], held_out=True)

    def evolved(self) -> None:
        """Make harder intents of those there are (Table 14), operator by operator."""
        draft, count = self.draft, self.queries.begin("evolved")
        shown = records_text(draft.spec(), self.image, draft.tables, 3)
        tables, functions = tables_text(draft.tables), functions_text(draft.tools)
        plan = _evolutions(list(draft.intents), self.sizes.evolved)

        def write(name: str) -> IntentSpec:
            parent, operator = plan[name]
            body = dump_yaml(msgspec.to_builtins(_bare(draft.intents[parent])))
            prompt = prompts.evolved(draft.title, draft.rules, tables, functions, shown, operator, body)
            return self.queries.settle(count, name, prompt, lambda text: self._checked_evolved(name, *plan[name], text))

        for name, intent in zip(plan, self.queries.each(count, list(plan), write), strict=True):
            if isinstance(intent, UnsettledError):
                self.remark(f"evolved/{name}", str(intent))
            else:
                draft.intents[name] = intent
        self._settle_together(count, [])

    def _checked_intent(self, name: str, text: str) -> IntentSpec:
        intent = msgspec.structs.replace(
            read_answer(text, IntentSpec), count=self.sizes.tasks_per_intent, held_out=False, parent=None, operator=None
        )
        check_intent(intent)
        with refusing():
            self._domain({name: intent})
        return intent

    def _checked_evolved(self, name: str, parent: str, operator: Operator, text: str) -> IntentSpec:
        intent = self._checked_intent(name, text)
        origin = self.draft.intents[parent]
        if (intent.reference_calls, intent.bindings) == (
            origin.reference_calls,
            origin.bindings,
        ) and operator != "distract":
            raise InvalidError(
                "The reference trajectory and the bindings are those of the old intent: nothing became harder."
            )
        if operator == "impossible" and not intent.refuses:
            raise InvalidError("Expected `refuses: true`: the right answer is that it cannot be done.")
        if operator == "branch" and not intent.branches:
            raise InvalidError("Expected `branches: true`: what is done depends on what a look-up returns.")
        return msgspec.structs.replace(intent, parent=parent, operator=operator, held_out=origin.held_out)

    def _settle_together(self, count: StageCount, failed: list[str]) -> None:
        """Drop intents that stand alone but not beside the others (the same wording, say)."""
        while self.draft.intents:
            try:
                self._domain(self.draft.intents)
                return
            except DomainError as error:
                name = error.path.removeprefix("intents.").split(".")[0]
                if name not in self.draft.intents:
                    raise
                del self.draft.intents[name]
                failed.append(name)
                count.dropped += 1
                self.remark(f"{count.stage}/{name}", error.message)

    def _domain(self, intents: dict[str, IntentSpec]) -> Domain:
        """Make the tasks of some intents."""
        return make_domain(self.draft.spec(intents=intents), image=self.image)

    # -------------------------------------------------------------------------------------------------------- shared

    def _essential(self, stage: str, prompt: str, check: Callable[[str], Any]) -> Any:
        """Settle the one matter of a stage without which there is no domain."""
        count = self.queries.begin(stage)
        (found,) = self.queries.each(count, [stage], lambda matter: self.queries.settle(count, matter, prompt, check))
        if isinstance(found, UnsettledError):
            self.remark(f"{stage}/{stage}", str(found))
            raise self._failure(stage, "this stage", found)
        return found

    def _planner(
        self, count: StageCount, prompt: str, wanted: int, taken: Sequence[str]
    ) -> Callable[[str], dict[str, str]]:
        """Return what asks for a plan: names and what each is for."""

        def check(text: str) -> dict[str, str]:
            plan = {name: " ".join(purpose.split()) for name, purpose in read_answer(text, dict[Name, Purpose]).items()}
            new = {name: purpose for name, purpose in plan.items() if name not in taken}
            if len(new) < min(wanted, 2):
                raise InvalidError(f"Expected {wanted} names that are not there already, found {len(new)}.")
            return new

        return lambda matter: self.queries.settle(count, matter, prompt, check)

    def _plan(
        self,
        count: StageCount,
        plans: Sequence[dict[str, str] | UnsettledError],
        wanted: int,
        taken: Sequence[str],
        *,
        needed: bool,
    ) -> dict[str, str]:
        """Return the first `wanted` of several plans, taking from each in turn."""
        queues = [list(plan.items()) for plan in plans if not isinstance(plan, UnsettledError)]
        errors = [plan for plan in plans if isinstance(plan, UnsettledError)]
        for error in errors:
            self.remark(f"{count.stage}/plan", str(error))
        merged: dict[str, str] = {}
        while any(queues) and len(merged) < wanted:
            for queue in queues:
                if queue and len(merged) < wanted:
                    name, purpose = queue.pop(0)
                    merged.setdefault(name, purpose)
        if not merged and needed:
            raise self._failure(count.stage, "the plan", errors[0] if errors else "it was empty")
        return merged

    def remark(self, matter: str, text: str) -> None:
        """Note what was dropped, or stands in spite of objections."""
        self.remarks[matter] = " ".join(text.split())[:_MAX_REMARK]

    def _failure(self, stage: str, what: str, error: object) -> SynthesisError:
        return SynthesisError(
            f"The stage {stage} failed: the answers for {what} remained invalid after all repairs. "
            f"The last error: {' '.join(str(error).split())[:_MAX_REMARK]} {self.queries.saved} "
            "Raise --repairs to go on from there, or ask another --model."
        )


def _referred(name: str, tables: dict[str, TableSpec]) -> bool:
    return any(
        column.references is not None and column.references.split(".")[0] == name
        for other, table in tables.items()
        for column in table.columns.values()
        if other != name
    )


def _bare(intent: IntentSpec) -> IntentSpec:
    """Return an intent as a model is shown it and writes it."""
    return msgspec.structs.replace(intent, count=20, held_out=False, parent=None, operator=None)


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
