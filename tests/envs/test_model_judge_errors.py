"""How often a model errs as judge, compared with the rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.envs.model_judge import PROMPT_DIGEST, ModelJudge
from toolorchestra.envs.model_judge_errors import JudgeErrors, LabelledAnswer, attack_answers, judge_errors
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.errors import ExpertError
from toolorchestra.toolscale.task import Task

ROOT = Path(__file__).parents[2]


@pytest.fixture
def task(mini: Domain) -> Task:
    return mini.task("mini/ask_price/000")


def labelled(task: Task) -> list[LabelledAnswer]:
    return [
        LabelledAnswer(task, "The price of O013 was $11.00.", True),  # rules: right
        LabelledAnswer(task, "The price of O013 was as many dollars as a team has players.", True),  # unsettled
        LabelledAnswer(task, "The price of O013 was as many dollars as a hand has fingers.", False),  # unsettled
        LabelledAnswer(task, "The price of O013 was $12.00.", False),  # rules: wrong
    ]


def always(word: str) -> ModelJudge:
    def answer(request: ChatRequest) -> str:
        facts = request.messages[1]["content"].split("<facts>\n")[1].split("\n</facts>")[0].splitlines()
        return json.dumps({line.split(":")[0]: word for line in facts})

    return ModelJudge(ScriptedChat(answer))


def test_a_judge_that_always_says_yes_errs_on_what_the_rules_leave_to_it(mini: Domain, task: Task) -> None:
    found = judge_errors(mini, labelled(task), always("yes"))
    assert found.rules == JudgeErrors(right=2, wrong=2, wrongly_rejected=1)
    assert found.both == JudgeErrors(right=2, wrong=2, wrongly_accepted=1, asked=2)
    assert found.model == JudgeErrors(right=2, wrong=2, wrongly_accepted=2, asked=4)
    assert found.surprises == [(task.id, labelled(task)[2].text, False)]


def test_a_judge_that_always_says_no_leaves_the_verdicts_of_the_rules(mini: Domain, task: Task) -> None:
    found = judge_errors(mini, labelled(task), always("no"), alone=False)
    assert found.both == JudgeErrors(right=2, wrong=2, wrongly_rejected=1, asked=2)
    assert found.model == JudgeErrors()


def test_a_judge_without_a_verdict_is_counted_as_failed(mini: Domain, task: Task) -> None:
    judge = ModelJudge(ScriptedChat(lambda request: ExpertError("out of order")))
    found = judge_errors(mini, labelled(task), judge, batch=1)
    assert found.both == JudgeErrors(right=1, wrong=1, asked=2, failed=2)
    assert found.model == JudgeErrors(asked=4, failed=4)


def test_rates_have_intervals_and_are_unknown_of_nothing() -> None:
    errors = JudgeErrors(right=10, wrong=0, wrongly_rejected=1)
    assert errors.rates == {"wrongly rejected": 0.1, "wrongly accepted": None}
    low, high = errors.intervals["wrongly rejected"]
    assert low < 0.1 < high
    assert errors.intervals["wrongly accepted"] == (0.0, 1.0)


def test_attacks_are_wrong_answers_and_rephrasings_right_ones(mini: Domain) -> None:
    answers = list(attack_answers(mini, 2, seed=0))
    assert answers == list(attack_answers(mini, 2, seed=0))
    kinds = {right: {answer.kind for answer in answers if answer.right is right} for right in (True, False)}
    assert {"denial", "parrot", "one word"} <= kinds[False]
    assert {"capitals", "table"} <= kinds[True]
    assert len({answer.task.id for answer in answers}) == 2


def test_the_page_shows_the_recorded_errors_and_the_prompt_is_the_recorded_one() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "judge_model.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "domains.md").read_text(encoding="utf-8")
    assert record["prompt"] == PROMPT_DIGEST
    says = {"always yes": "always says yes", "always no": "always says no"}
    for model, sets in record["models"].items():
        for answers, judges in sets.items():
            for judge, name in (("rules", "rules"), ("rules and model", f"rules, and a model that {says[model]}")):
                found = judges[judge]
                rejected = f"{found['wrongly_rejected']:,} of {found['right']:,}"
                accepted = f"{found['wrongly_accepted']:,} of {found['wrong']:,}"
                assert f"| {answers} | {name} | {found['asked']:,} | {rejected} | {accepted} |" in page


def test_a_judge_that_always_says_yes_is_not_asked_about_nearly_all_attacks(mini: Domain) -> None:
    answers = list(attack_answers(mini, 5, seed=0))
    found = judge_errors(mini, answers, always("yes"), alone=False)
    assert found.both.asked <= 0.1 * len(answers)
