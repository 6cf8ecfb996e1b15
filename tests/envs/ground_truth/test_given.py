"""What a model is given, and how it is compared: sums, repeated requests, similarity to tools."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolorchestra.agents.experts.specialties import HARDER_OUTSIDE
from toolorchestra.agents.policies.scripted_questions import UNINFORMED
from toolorchestra.envs.ground_truth.given import UNCLEAR, UNKNOWN, Given, repeats, unclear
from toolorchestra.envs.ground_truth.sums import asked_sum, sum_problem
from toolorchestra.envs.ground_truth.tool_similarity import tool_similarity
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain

REQUEST = "Cancel the order of Edgar for July 30 and tell me the fee."


def test_a_request_is_given_as_such_or_repeated_in_the_question() -> None:
    assert Given("", REQUEST).has_request(REQUEST)
    assert Given(f"Please: {REQUEST}").has_request(REQUEST)
    assert not Given("Cancel the order.").has_request(REQUEST)
    assert not Given("Cancel it.", results={"call_1": REQUEST}).has_request(REQUEST), "a result is no request"
    assert Given("a", "b", {"call_1": "c"}).text.split() == ["a", "b", "c"]


def test_a_request_is_repeated_by_nearly_all_its_words() -> None:
    assert repeats("Fee, please, and cancel Edgar's order of 2025-07-30: tell me the fee for it, and of what", REQUEST)
    assert not repeats("Who was it?", "What is it?")
    assert not repeats("", "")
    assert not repeats("x" * 30_000 + REQUEST, REQUEST), "what lies beyond the maximum is not read"


def test_who_is_told_nothing_says_so() -> None:
    problem = unclear("q/1")
    assert [(step.answer, step.wrong) for step in problem.steps] == [(UNCLEAR, (UNKNOWN,))]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("What is 21 + 25 + 24?", "21 + 25 + 24"),
        ("Compute 3 × (4 − 1.5), please.", "3 * (4 - 1.5)"),
        ("12*3.5", "12*3.5"),
        ("(2 + 3", "(2 + 3)"),
        ("Book it for 2025-07-23.", None),
        ("Call 555-4443.", None),
        ("1 / 0", None),
        ("12", None),
        ("Ada had 2 + 3 red hats and lent four of them to Odo at home.", None),
    ],
)
def test_sums_are_found_in_texts_that_say_little_else(text: str, expression: str | None) -> None:
    assert asked_sum(text) == expression


def test_a_sum_has_a_step_for_each_operation_and_is_no_work_for_a_query_writer() -> None:
    problem = sum_problem("q/1", "2 * 3 + 4", "code")
    assert [step.difficulty for step in problem.steps] == [0.0, 0.0]
    assert problem.steps[-1].answer == "10"
    assert "10" not in problem.steps[-1].wrong
    assert sum_problem("q/1", "2 * 3", "query").steps[-1].difficulty == HARDER_OUTSIDE


@pytest.mark.parametrize("name", ["restaurant", "railway", "finance", "weather"])
def test_a_tool_is_similar_to_its_own_description_and_few_others_are_more_so(name: str) -> None:
    domain = load_domain(name)
    similarity = tool_similarity(domain)
    for tool in domain.tools.values():
        found = similarity.of(tool.description.split(". ")[0])
        assert found[tool.name] >= 0.7 * max(found.values())


@pytest.mark.parametrize(
    "text", [*UNINFORMED, "", "Buche bitte den Tisch für die Gäste", "\ud800", "#" * 99, "é" * 9_000]
)
def test_what_is_about_no_tool_is_similar_to_none(text: str, mini: Domain) -> None:
    found = tool_similarity(mini).of(text)
    assert found.keys() == {*mini.tools, "submit"}
    assert all(0 <= share < 0.4 for share in found.values())


def test_similarity_does_not_depend_on_the_order_of_sets() -> None:
    code = (
        "from toolorchestra.toolscale.domain_folder import load_domain; "
        "from toolorchestra.envs.ground_truth.tool_similarity import tool_similarity; "
        "print(tool_similarity(load_domain('finance')).of('Look up the account of a customer, and its balance'))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
