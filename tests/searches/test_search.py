from __future__ import annotations

from pathlib import Path

import pytest

from examples.searches.search import SearchBudget, Validation, best, search
from examples.searches.strategies import METHODS, WorkflowCandidate
from examples.searches.workflows import single
from toolorchestra.envs.masorchestra.design import Design
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError


@pytest.fixture(scope="module")
def validation() -> Validation:
    return Validation.drawn(MASOrchestraEnv("Math", model="qwen2.5-7b"), 12, seed=1)


@pytest.mark.parametrize("method", sorted({*METHODS} - {"adas"}))
def test_a_search_finds_something_better_than_a_single_agent(method: str, validation: Validation) -> None:
    history = search(method, validation, SearchBudget(14), seed=3)
    assert [candidate.number for candidate in history] == list(range(14))
    assert history[0].design == single("CoTAgent")
    assert best(history).score > history[0].score
    assert best(history).score == max(candidate.score for candidate in history)
    assert len({candidate.design for candidate in history}) == 14
    low, high = best(history).interval
    assert low < best(history).score <= high


@pytest.mark.parametrize("method", sorted({*METHODS} - {"adas"}))
def test_a_search_goes_on_from_its_record_as_if_it_had_never_stopped(
    method: str, validation: Validation, tmp_path: Path
) -> None:
    file = tmp_path / "search.jsonl"
    search(method, validation, SearchBudget(4), seed=3, file=file)
    with file.open("ab") as stream:
        stream.write(b'{"type":"candidate","num')  # a kill cut it short
    seen: list[int] = []
    resumed = search(method, validation, SearchBudget(9), seed=3, file=file, watch=lambda one: seen.append(one.number))
    assert resumed == search(method, validation, SearchBudget(9), seed=3)
    assert seen == list(range(9))
    assert len(file.read_bytes().splitlines()) == 10
    with pytest.raises(OptionError, match=r"another search \(seed\)"):
        search(method, validation, SearchBudget(9), seed=4, file=file)


def test_a_search_ends_when_its_budget_is_spent(validation: Validation) -> None:
    history = search("random", validation, SearchBudget(50, usd=0.05), seed=3)
    spent = [
        sum(one.usd for one in history[:count]) * len(validation.tasks) for count in (len(history) - 1, len(history))
    ]
    assert spent[0] < 0.05 <= spent[1]


def test_a_search_ends_when_there_is_nothing_new() -> None:
    env = MASOrchestraEnv("Math", agents=["CoTAgent"])
    history = search("random", Validation.drawn(env, 1), SearchBudget(50), max_agents=1)
    assert len(history) == 7  # a single agent with each of the instructions


def test_a_search_that_cannot_be_made_is_refused(validation: Validation) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'tree'"):
        search("trees", validation)
    with pytest.raises(OptionError, match="cannot be made so"):
        search("random", validation, niche=2)
    with pytest.raises(OptionError, match="budget"):
        SearchBudget(0)
    with pytest.raises(OptionError, match="dom='high'"):
        Validation(MASOrchestraEnv("Math", dom="low"), ["x"])
    with pytest.raises(OptionError, match="questions of the split"):
        Validation.drawn(validation.env, 10**6)


def test_a_workflow_is_measured_the_same_each_time(validation: Validation) -> None:
    first = validation.measured(WorkflowCandidate(0, single("SCAgent")))
    assert first == validation.measured(WorkflowCandidate(0, single("SCAgent")))
    assert first.episodes == 12
    assert first.usd > 0 < first.seconds
    assert isinstance(first.design, Design)
