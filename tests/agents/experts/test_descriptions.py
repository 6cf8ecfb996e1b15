"""Descriptions: what they say is what was seen, whoever writes them."""

from __future__ import annotations

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.descriptions import describe_by_model, describe_by_rule, sample_tasks
from toolorchestra.agents.experts.evaluation import ExpertEvaluation, ExpertTask, graded_tasks, simulate
from toolorchestra.toolscale.common.errors import ExpertError, OptionError


def evaluations(
    subject: str, right: int, count: int, steps: int = 1, text: str = "I think so."
) -> list[ExpertEvaluation]:
    return [
        ExpertEvaluation(
            expert="ada",
            task=ExpertTask(key=f"{subject}{i}", instruction=f"Why {i}?", answer="42", subject=subject, steps=steps),
            sample=0,
            text=text,
            right=i < right,
            tokens=5,
            seconds=1.0,
        )
        for i in range(count)
    ]


def test_a_description_by_rule_grades_subjects_by_success():
    seen = evaluations("math", 10, 10) + evaluations("function_calling", 5, 10) + evaluations("law", 0, 10)
    assert describe_by_rule(seen) == (
        "It is excellent at math, moderate at function calling and weak at law. It solved 15 of 30 problems."
    )


def test_few_attempts_say_little():
    assert describe_by_rule(evaluations("math", 1, 1)).startswith("It is moderate at math.")
    assert describe_by_rule(evaluations("math", 0, 1)).startswith("It is uneven at math.")


def test_a_description_says_when_long_problems_are_too_much():
    seen = evaluations("math", 9, 10, steps=2) + evaluations("math", 2, 10, steps=8)
    assert describe_by_rule(seen).endswith(
        "It solved 9 of 10 problems of at most 2 steps and 2 of 10 longer ones: give it small parts of a task."
    )
    seen = evaluations("math", 9, 10, steps=2) + evaluations("math", 9, 10, steps=8)
    assert describe_by_rule(seen).endswith("9 of 10 longer ones.")


@pytest.mark.parametrize("name", ["gpt-5", "qwen2.5-math-7b", "starcoder2-15b"])
def test_the_shipped_descriptions_are_those_of_the_simulated_experts(name: str):
    catalog = Catalog.load()
    assert describe_by_rule(simulate(catalog.simulated(name), graded_tasks(140))) == catalog.spec(name).description


def test_a_model_is_shown_instructions_attempts_and_success_and_its_text_is_taken():
    describer = ScriptedChat(["<think>hm</think> Strong at\n maths. "])
    assert describe_by_model(evaluations("math", 1, 2), describer) == "Strong at maths."
    (request,) = describer.requests
    shown = request.messages[-1]["content"]
    assert shown.count("Why") == shown.count("I think so.") == 2
    assert "### Outcome\n\nright\n" in shown
    assert shown.endswith("wrong; right would be: 42")
    assert request.temperature == 0


def test_long_attempts_are_cut_and_long_descriptions_too():
    describer = ScriptedChat(["word " * 1000])
    text = describe_by_model(evaluations("math", 1, 1, text="a" * 50_000 + "end"), describer)
    assert len(text) <= 1_202
    assert text.endswith("word …")
    shown = describer.requests[0].messages[-1]["content"]
    assert len(shown) < 2_500
    assert "[…]" in shown
    assert "end" in shown


def test_no_attempts_and_no_text_are_errors():
    for describe in (describe_by_rule, lambda seen: describe_by_model(seen, ScriptedChat([]))):
        with pytest.raises(OptionError, match="at least one evaluation"):
            describe([])
    with pytest.raises(ExpertError, match="expected a description, got nothing"):
        describe_by_model(evaluations("math", 1, 1), ScriptedChat(["<think>hm</think>\n"]))


def test_ten_random_tasks_are_sampled_in_order():
    tasks = list(range(100))
    assert len(sample_tasks(tasks)) == 10
    assert sample_tasks(tasks) == sorted(sample_tasks(tasks))
    assert sample_tasks(tasks, seed=1) != sample_tasks(tasks)
    with pytest.raises(OptionError, match="a sample of 1 to 3 tasks, got 10"):
        sample_tasks([1, 2, 3])
