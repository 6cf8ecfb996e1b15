"""Rows of tasks, in τ²-bench's shape and in the library's own.

In files with columns of objects every call has the arguments of all others, as nulls; such nulls are dropped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.common.errors import unknown_name
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.requests.intents import difficulty, split_of
from toolorchestra.toolscale.tasks.answer_slots import IMPORTED, SlotTable
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.expressions import shown_value

OURS = "toolorchestra"
"""Key of a τ²-bench task for what that format has no place for."""

SCENARIO = "scenario"
"""The binding of a task that has what τ²-bench tells the user, by its keys there."""
_USER = "Ask for exactly this. You know nothing beyond it."
_CHECKED = {"DB", "COMMUNICATE", "ACTION"}
_WORDS = {True: "yes", False: "no"}


def tau2_row(domain: Domain, task: Task) -> dict[str, Any]:
    """Return a task in τ²-bench's shape; the rest is under `OURS`."""
    intent = domain.spec.intents.get(task.intent)
    whole = msgspec.to_builtins(task)
    ours = {key: value for key, value in whole.items() if key not in ("id", "instruction", "reference_calls")}
    instructions = {
        "task_instructions": _USER,
        "domain": task.domain,
        "reason_for_call": task.instruction,
        "known_info": None,
        "unknown_info": None,
    }
    actions = [
        {"action_id": f"{call.name}_{number}", "requestor": "assistant", "name": call.name}
        | {"arguments": call.arguments, "info": None}
        for number, call in enumerate(task.reference_calls)
    ]
    told = _told(domain.slots, task)
    purpose = intent.description if intent else f"A task of the kind {task.intent}."
    return {
        "id": task.id,
        "description": {"purpose": purpose, "relevant_policies": None, "notes": None},
        "user_scenario": {"persona": None, "instructions": instructions},
        "initial_state": None,
        "evaluation_criteria": {
            "actions": actions,
            "communicate_info": told,
            "nl_assertions": None,
            "reward_basis": ["DB", "COMMUNICATE"],
        },
        OURS: ours | {"stages": [call.stage for call in task.reference_calls], "told": told},
    }


def _told(slots: SlotTable, task: Task) -> list[str]:
    """Return what the slots of a task tell, as it is written: not the outcome, and nothing for null.

    Where they tell nothing and nothing is done, as when it is refused, it is the phrases that say so.
    """
    answer = slots.of(task)
    told = list[str]()
    for slot, value in zip(answer.slots, answer.values, strict=True):
        if not slot.is_outcome:
            values = value if isinstance(value, list) else [value]
            told += [_WORDS[one] if isinstance(one, bool) else shown_value(one) for one in values if one is not None]
    return told or ([] if any(slots.writes(task)) else [options[0] for options in task.communicate])


class SourceRow(NamedTuple):
    """A row that was read, the split that its file is named after, and its place."""

    row: Mapping[str, Any]
    split: str | None
    where: str


class TaskReader:
    """Makes a task of a row of either shape; `wrong` lists all errors."""

    def __init__(self, domain: Domain, source: SourceRow, task_id: str) -> None:
        self.domain, self.id = domain, task_id
        self.row, self.split, _ = source
        self.wrong: list[str] = []

    def task(self) -> Task | None:
        """Return the task, or None if it cannot even be made."""
        try:
            return self._fitted(self._tau2() if "evaluation_criteria" in self.row else self._own())
        except (msgspec.DecodeError, RecursionError) as error:
            self.wrong.append(f"expected a task: {error}")
        return None

    def _own(self) -> Task:
        row = dict(self.row)
        more = row.pop("more", None)
        if isinstance(more, str):
            row |= msgspec.json.decode(more, type=dict[str, Any])
        row = {key: value for key, value in row.items() if value is not None}
        for call in (*(row.get("lookups") or ()), *(row.get("reference_calls") or ())):
            if isinstance(call, dict) and isinstance(call.get("arguments"), str):
                call["arguments"] = msgspec.json.decode(call["arguments"])
        task = msgspec.convert(row, Task)
        if task.domain != self.domain.name:
            self.wrong.append(f"it is a task of the domain {task.domain!r}")
        return task

    def _tau2(self) -> Task:
        row = msgspec.convert(self.row, _Tau2)
        criteria = row.evaluation_criteria
        ours = row.toolorchestra or {}
        if _filled(row.initial_state):
            self.wrong.append("it starts from an initial_state of its own, which a domain does not have")
        basis = criteria.reward_basis or []
        if other := [name for name in basis if name not in _CHECKED]:
            self.wrong.append(f"it is judged by {', '.join(other)}, which only τ²-bench can")
        for action in criteria.actions or ():
            if action.requestor not in (None, "assistant"):
                self.wrong.append(f"the {action.requestor} calls {action.name}; only the orchestrator has tools")
        calls = [Call(action.name, _decoded(action.arguments)) for action in criteria.actions or ()]
        instruction = tau2_instruction(row.user_scenario.instructions)
        facts = tuple((text,) for text in criteria.communicate_info or () if text.strip())
        if not instruction:
            self.wrong.append("it has no instructions")
        stages = ours.get("stages")
        if not isinstance(stages, list) or len(stages) != len(calls):
            stages = self._stages(calls, instruction)
        known = {name: value for name, value in ours.items() if name in Task.__struct_fields__ and value is not None}
        told = ours["told"] if "told" in ours else [part[0] for part in known.get("communicate", [])]
        if told != [part[0] for part in facts]:  # somebody changed what is to be told
            known["communicate"] = facts
            known.pop("answer", None)
        staged = [msgspec.structs.replace(call, stage=stage) for call, stage in zip(calls, stages, strict=True)]
        whole = {
            "intent": IMPORTED,
            "split": self.split or split_of(hashlib.blake2b(self.id.encode(), digest_size=8).digest()),
            "difficulty": difficulty(len(calls), branches=False),
            "answer": ". ".join(["Done", *(part[0] for part in facts)]) + ".",
            **known,
            "id": self.id,
            "domain": self.domain.name,
            "instruction": instruction,
            "reference_calls": msgspec.to_builtins(staged),
        }
        return msgspec.convert(whole, Task)

    def _fitted(self, task: Task) -> Task:
        """Return a task with its calls as the domain's tools take them."""
        if task.split not in SPLITS:
            self.wrong.append(unknown_name("split", task.split, SPLITS))

        def path(calls: Iterable[Call]) -> tuple[Call, ...]:
            return tuple(msgspec.structs.replace(call, arguments=self._arguments(call)) for call in calls)

        return msgspec.structs.replace(
            task,
            lookups=path(task.lookups),
            reference_calls=path(task.reference_calls),
            alternatives=tuple(map(path, task.alternatives)),
        )

    def _arguments(self, call: Call) -> dict[str, Any]:
        """Return a call's arguments without meaningless nulls, and note those that no tool takes."""
        tool = self.domain.tools.get(call.name)
        if tool is None:
            self.wrong.append(unknown_name("tool", call.name, self.domain.tools))
            return call.arguments
        kept = {}
        for name, value in call.arguments.items():
            parameter = tool.parameters.get(name)
            if value is None and (parameter is None or not parameter.required):
                continue
            if parameter is None:
                self.wrong.append(unknown_name(f"argument of {call.name}", name, tool.parameters))
                continue
            if value is None:
                self.wrong.append(f"the argument {name!r} of {call.name} is null, and it is required")
            whole = isinstance(value, float) and value.is_integer() and parameter.type == "integer"
            kept[name] = int(value) if whole else value
        if missing := [n for n, p in tool.parameters.items() if p.required and n not in call.arguments]:
            self.wrong.append(f"{call.name} needs the argument {missing[0]!r}")
        return kept

    def _stages(self, calls: Sequence[Call], instruction: str) -> list[int]:
        """Return the stages of calls: reads that need no more than the instruction go with the reads before them."""
        words = tokens(instruction)
        stages: list[int] = []
        before = False
        for call in calls:
            tool = self.domain.tools.get(call.name)
            reads = tool is not None and tool.effect != "write"
            given = [value for value in call.arguments.values() if value is not None]
            alone = reads and all(mentions(words, str(value)) for value in given)
            stages.append((stages[-1] if before and alone else stages[-1] + 1) if stages else 0)
            before = reads
        return stages


class _Action(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | str | None = None
    requestor: str | None = None


class _Criteria(msgspec.Struct):
    actions: list[_Action] | None = None
    communicate_info: list[str] | None = None
    reward_basis: list[str] | None = None


class _Scenario(msgspec.Struct):
    instructions: dict[str, Any] | str


class _Tau2(msgspec.Struct):
    """What is read of a task in τ²-bench's shape; other keys are ignored."""

    user_scenario: _Scenario
    evaluation_criteria: _Criteria
    initial_state: dict[str, Any] | None = None
    toolorchestra: dict[str, Any] | None = None


def _decoded(arguments: dict[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(arguments, str):
        return msgspec.json.decode(arguments, type=dict[str, Any])
    return arguments or {}


def _filled(value: Any) -> bool:
    """Whether there is anything but nulls in a value."""
    if isinstance(value, dict):
        return any(map(_filled, value.values()))
    return bool(value) if isinstance(value, (list, str)) else value is not None


def tau2_instruction(instructions: dict[str, Any] | str) -> str:
    """Return what the user wants, from τ²-bench's instructions for one."""
    if isinstance(instructions, str):
        return instructions.strip()
    parts = [instructions.get(key) for key in ("reason_for_call", "known_info", "task_instructions")]
    said = (part.strip() for part in parts if isinstance(part, str))
    texts = dict.fromkeys(part for part in said if part not in ("", ".", _USER))
    unknown = instructions.get("unknown_info")
    if isinstance(unknown, str) and unknown.strip():
        texts[f"Not known to the user: {unknown.strip()}"] = None
    return "\n".join(texts)
