"""The slots of the tasks of the shipped domains: named, short, and right in the reference answer."""

from __future__ import annotations

import re

import pytest

from toolorchestra.toolscale.answers.typed_answers import judge_typed
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain
from toolorchestra.toolscale.tasks.answer_slots import OUTCOME

VAGUE = re.compile(r"(answer|number|value|id|name|date|time|amount)(_\d+)?")
MAX_MEAN_LENGTH = 200  # characters of the slots of a task


@pytest.mark.parametrize("name", builtin_domains())
def test_slots_say_what_they_are(name: str) -> None:
    domain = load_domain(name)
    answers = {task.id: domain.slots.of(task) for task in domain.tasks()}
    assert [task_id for task_id, answer in answers.items() if judge_typed(answer.written(), answer)] == []
    called = [slot.name for answer in answers.values() for slot in answer.slots]
    assert sum(map(bool, map(VAGUE.fullmatch, called))) <= 0.002 * len(called)
    assert sum(len(str(answer)) for answer in answers.values()) <= MAX_MEAN_LENGTH * len(answers)


@pytest.mark.parametrize("name", builtin_domains())
def test_what_the_yaml_says_of_slots_is_used(name: str) -> None:
    domain = load_domain(name)
    slots = {slot for task in domain.tasks() for slot in domain.slots.of(task).slots}
    outcomes = {option for slot in slots if slot.name == OUTCOME for option in slot.options}
    kinds = outcomes | {outcome.partition(":")[0] for outcome in outcomes}
    money = {slot.name for slot in slots if "money" in slot.types and slot.unit}
    for intent, spec in domain.spec.intents.items():
        if isinstance(spec.slots, dict):
            assert set(spec.slots) <= kinds, intent
    for names in domain.spec.money.values():
        assert set(names) <= money
    deeds = {deed for outcome in outcomes for deed in outcome.partition(": ")[2].split(", ")}
    assert {tool.deed for tool in domain.spec.tools.values() if tool.deed} <= deeds
