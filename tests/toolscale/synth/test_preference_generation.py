"""Preference pairs from a model: repairs of proposals, judgements, stored answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import SynthesisError
from toolorchestra.toolscale.preferences import ToolFacts, check_pair, make_pairs
from toolorchestra.toolscale.synth.answer_store import AnswerStore, ModelAnswer, ModelQuestion
from toolorchestra.toolscale.synth.model_queries import ModelQueries, QuerySettings
from toolorchestra.toolscale.synth.preference_generation import judge_pairs, propose_pairs

TOOLS = [ToolFacts("web_search", price=0.01, latency=2.0, description="Searches."), ToolFacts("book", writes=True)]

GOOD = """```yaml
- instruction: Above all be quick, and lean a little towards web_search.
  weights: {latency: 1.0, web_search: 0.2}
- instruction: I am on a budget.
  weights: {compute: 0.8}
```"""
BAD = """```yaml
- instruction: Be quick.
  weights: {latency: 10}
- instruction: Keep it cheap, please.
  weights: {compute: 0.7}
- instruction: Use the oracle.
  weights: {oracle: 1}
```"""


class Scripted:
    """Answers by a function of the last message, and keeps the questions."""

    name = "scripted"

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.questions: list[str] = []
        self._answer = answer

    def ask(self, question: ModelQuestion) -> ModelAnswer:
        text = question.messages[-1][1]
        self.questions.append(text)
        return ModelAnswer(self._answer(text), 10, 5, 0.001)


Make = Callable[..., ModelQueries]


@pytest.fixture
def queries() -> Iterator[Make]:
    """Make queries whose answers are stored in a folder; threads and stores are closed afterwards."""
    with contextlib.ExitStack() as stack:

        def make(model: Scripted, folder: Path, **settings: Any) -> ModelQueries:
            store = stack.enter_context(AnswerStore(folder / "answers.jsonl"))
            return stack.enter_context(ModelQueries(model, store, QuerySettings(parallel=1, **settings)))

        yield make


def test_a_faulty_proposal_is_shown_its_faults_and_fixed(tmp_path: Path, queries: Make):
    model = Scripted(lambda text: GOOD if "cannot be used" in text else BAD)
    pairs = propose_pairs(TOOLS, 2, queries(model, tmp_path))
    assert [pair.instruction for pair in pairs] == [
        "Above all be quick, and lean a little towards web_search.",
        "I am on a budget.",
    ]
    assert not any(check_pair(pair, TOOLS) for pair in pairs)
    assert "pair 1: expected weights in [0, 1], got 10" in model.questions[1]
    assert "pair 3: Unknown entry 'oracle'" in model.questions[1]
    assert "- web_search: $0.0100 a call, 2 seconds, only reads. Searches." in model.questions[0]


def test_of_a_batch_that_stays_faulty_the_good_pairs_are_kept(tmp_path: Path, queries: Make):
    pairs = propose_pairs(TOOLS, 2, queries(Scripted(lambda text: BAD), tmp_path, repairs=1))
    assert [pair.instruction for pair in pairs] == ["Keep it cheap, please."]


@pytest.mark.parametrize("text", ["no yaml: [", "[]", "- 3", "- {instruction: x, weights: {latency: .nan}}", "&a [*a]"])
def test_what_is_no_list_of_pairs_yields_none(tmp_path: Path, text: str, queries: Make):
    model = Scripted(lambda _: text)
    assert propose_pairs(TOOLS, 2, queries(model, tmp_path, repairs=2)) == []
    assert len(model.questions) == 3


def test_batches_are_requested_as_different_users(tmp_path: Path, queries: Make):
    model = Scripted(lambda text: GOOD)
    propose_pairs(TOOLS, 30, queries(model, tmp_path))
    assert len(set(model.questions)) == len(model.questions) == 4


def test_the_judge_drops_what_it_finds_inconsistent(tmp_path: Path, queries: Make):
    def answer(text: str) -> str:
        if "Would an assistant" not in text:
            return GOOD
        return "consistent: false\nwhy: budgets differ" if "on a budget" in text else "consistent: true"

    ask = queries(Scripted(answer), tmp_path)
    pairs = propose_pairs(TOOLS, 2, ask)
    kept, report = make_pairs(TOOLS, 2, proposals=pairs, judge=judge_pairs(pairs, TOOLS, ask))
    assert [pair.instruction for pair in kept] == ["Above all be quick, and lean a little towards web_search."]
    assert report.dropped == {"judged inconsistent: budgets differ": 1}
    assert report.not_run == {}


def test_a_judge_without_a_verdict_does_not_pass(tmp_path: Path, queries: Make):
    ask = queries(Scripted(lambda text: "maybe" if "Would an" in text else GOOD), tmp_path, repairs=0)
    pairs = propose_pairs(TOOLS, 2, ask)
    judge = judge_pairs(pairs, TOOLS, ask)
    assert {judge(pair) for pair in pairs} == {"the judge gave no valid answer"}


def test_no_question_is_sent_twice_and_the_budget_holds(tmp_path: Path):
    first = Scripted(lambda text: GOOD)
    settings = QuerySettings(parallel=1)
    file = tmp_path / "answers.jsonl"
    with AnswerStore(file) as store, ModelQueries(first, store, settings) as queries:
        pairs = propose_pairs(TOOLS, 16, queries)
    again = Scripted(lambda text: GOOD)
    with AnswerStore(file) as store, ModelQueries(again, store, settings) as queries:
        assert propose_pairs(TOOLS, 16, queries) == pairs
        assert again.questions == []
    few = QuerySettings(parallel=1, budget=0.002)
    with (
        AnswerStore(file) as store,
        ModelQueries(again, store, few) as poor,
        pytest.raises(SynthesisError, match="budget of"),
    ):
        propose_pairs(TOOLS, 17, poor)
