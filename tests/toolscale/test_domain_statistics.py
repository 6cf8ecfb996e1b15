"""Statistics: figures worked by hand on a few tasks, and the pages made of them."""

from __future__ import annotations

import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import make_domain
from toolorchestra.toolscale.export.domain_card import card, statistics_page
from toolorchestra.toolscale.export.domain_statistics import figures, statistics
from toolorchestra.toolscale.export.text_statistics import nearest_similarity, words
from toolorchestra.toolscale.tasks.task import Call, Task


def task(number: int, instruction: str, *calls: str, **fields: object) -> Task:
    defaults = {"intent": "ask", "split": "train", "difficulty": 1, "bindings": {"n": number}}
    reference_calls = tuple(Call(name, {}) for name in calls)
    return Task(
        id=f"mini/ask/{number}",
        domain="mini",
        instruction=instruction,
        reference_calls=reference_calls,
        answer="",
        **(defaults | fields),
    )


TASKS = [
    task(0, "pay the bill", "get_order", branches=True),
    task(1, "pay the bill now", "get_order", "make_order", difficulty=2, split="test"),
    task(2, "cancel it", *["get_order"] * 8, difficulty=4, refuses=True, split="test_intents"),
    task(2, "cancel it please", "get_order", parent="mini/ask/0", operator="distract"),
]


def test_counts_and_shares_are_those_worked_by_hand(mini: Domain):
    found = statistics(mini, TASKS)
    assert (found.tasks, found.intents, found.repeated) == (4, 1, 1)  # the last shares intent and bindings
    assert found.splits == {"train": 2, "test": 1, "test_intents": 1}
    assert found.levels == {1: 2, 2: 1, 3: 0, 4: 1, 5: 0}
    assert (found.long, found.branches, found.refuses, found.evolved, found.writes) == (0.25,) * 5
    assert found.sequences == 3
    assert found.calls == 12 / 4
    assert found.words == 12 / 4
    assert found.type_token == 7 / 12  # pay the bill now cancel it please


def test_the_domain_is_counted_from_its_database(mini: Domain):
    found = statistics(mini)
    assert (found.tables, found.references, found.rules) == (4, 4, 2)
    assert found.entries == 20 + 40 + 40 + 3
    assert found.tools == len(mini.tools)
    assert found.tasks == len(mini.tasks())


def test_a_task_touches_what_its_tools_read_and_write(mini: Domain):
    assert statistics(mini, [task(0, "a", "get_customer")]).two_tables == 0
    assert statistics(mini, [task(0, "a", "make_order")]).two_tables == 1


def test_the_nearest_of_an_instruction_is_never_itself():
    assert nearest_similarity([words("pay it"), words("Pay it!"), words("cancel that")]) == pytest.approx(2 / 3)
    assert nearest_similarity([words("alone")]) == 0
    assert nearest_similarity([[], []]) == 0


def test_stretches_of_equal_length_compare_texts_of_any_length(mini: Domain):
    few, many = ([task(i, f"{i % 50} word", "get_order") for i in range(count)] for count in (1000, 4000))
    assert statistics(mini, many).type_token < statistics(mini, few).type_token / 3
    assert statistics(mini, many).type_token_1000 == pytest.approx(statistics(mini, few).type_token_1000, abs=0.003)


def test_no_task_is_a_mistake(mini: Domain):
    with pytest.raises(ValueError, match="at least one task of mini"):
        statistics(mini, [])


def test_a_card_shows_rules_entities_tools_and_a_task_of_each_level(mini: Domain):
    page = card(mini)
    assert page.startswith("# Mini Kitchen\n")
    assert "> A kitchen that takes orders." in page
    assert "- prices are positive" in page
    assert "| `orders` | 40 |" in page
    assert "customer_id → customers" in page
    assert all(f"`{name}(" in page for name in mini.tools)
    assert all(f"| `{name}` |" in page for name in mini.spec.intents)
    levels = {task.difficulty for task in mini.tasks("train")}
    assert all(f"**Level {level}**" in page for level in levels)


def test_a_card_is_the_same_each_time(mini: Domain):
    assert card(mini) == card(make_domain(mini.spec))


def test_the_page_puts_the_papers_sizes_beside_ours(mini: Domain):
    ours = statistics(mini)
    page = statistics_page([ours, statistics(mini, TASKS)])
    assert f"| `mini` | {ours.tools} | {ours.entries} | {ours.tasks} |" in page
    assert all(f"| {name} | {value} |" in page for name, value in figures(ours).items())


def test_the_card_shows_the_look_ups_of_its_examples(named: Domain) -> None:
    named_tasks = [task for task in named.tasks() if task.lookups and task.split == "train"]
    page = card(named.with_tasks(named_tasks, {}))
    assert "# look-ups\nget_customer(" in page
    assert "# reference trajectory\nget_order(" in page
    assert "# look-ups" not in card(named.with_tasks([task for task in named.tasks() if not task.lookups], {}))
