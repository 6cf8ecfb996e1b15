"""Typed answers written and labelled by hand, in natural spellings, without a look at how they are judged.

A label is changed only where it was a mistake, never because the judge says otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolorchestra.toolscale.answers.typed_answers import judge_typed
from toolorchestra.toolscale.domain_folder import builtin_domains, load_domain

ENTRIES: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "typed_answers.yaml").read_text(encoding="utf-8")
)
LEAST, LEAST_PER_DOMAIN = 31, 3
ALL = [entry for entries in ENTRIES.values() for entry in entries]
EACH = [pytest.param(entry, id=entry["task"]) for entry in ALL]


def judge(task: str, answer: dict[str, Any]) -> list[str]:
    """Return what is wrong with an answer to a task; a date of YAML is text."""
    domain = load_domain(task.partition("/")[0])
    return judge_typed(json.dumps({"answer": answer}, default=str), domain.slots.of(domain.task(task)))


def test_there_are_as_many_wrong_ones_as_right_ones_in_all_domains() -> None:
    assert set(ENTRIES) == set(builtin_domains())
    assert min(map(len, ENTRIES.values())) >= LEAST_PER_DOMAIN
    assert all(entry["right"] and entry["wrong"] and entry["why"] for entry in ALL)
    assert len({entry["task"] for entry in ALL}) == len(ALL) >= LEAST
    assert all(entry["task"].startswith(f"{name}/") for name, entries in ENTRIES.items() for entry in entries)


@pytest.mark.parametrize("entry", EACH)
def test_a_right_answer_is_right(entry: dict[str, Any]) -> None:
    assert judge(entry["task"], entry["right"]) == []


@pytest.mark.parametrize("entry", EACH)
def test_a_wrong_answer_is_wrong_in_the_slot_that_differs(entry: dict[str, Any]) -> None:
    right, wrong = entry["right"], entry["wrong"]
    nothing = object()
    assert [name for name in right | wrong if right.get(name, nothing) != wrong.get(name, nothing)] == [entry["slot"]]
    found = judge(entry["task"], wrong)
    assert len(found) == 1
    assert f"slot {entry['slot']!r}" in found[0], entry["why"]
