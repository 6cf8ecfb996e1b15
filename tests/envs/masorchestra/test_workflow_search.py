from __future__ import annotations

import random
from pathlib import Path

import pytest

from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import AGENTS
from toolorchestra.envs.masorchestra.workflow_edits import EDITS, Space, crossed, mutated, random_workflow, single
from toolorchestra.envs.masorchestra.workflow_search import SearchBudget, Validation, best, search
from toolorchestra.envs.masorchestra.workflow_strategies import SEARCHES, Evolution, TreeSearch, WorkflowCandidate
from toolorchestra.toolscale.errors import OptionError, UnknownNameError

SPACE = Space(AGENTS[:4], 6)


@pytest.fixture(scope="module")
def validation() -> Validation:
    return Validation.drawn(MASOrchestraEnv("Math", model="qwen2.5-7b"), 12, seed=1)


# -------------------------------------------------------------------------------------------------------------- edits


def test_random_workflows_and_all_their_edits_are_valid_and_within_their_size() -> None:
    rng = random.Random(0)
    moves = set()
    for _ in range(300):
        design = random_workflow(SPACE, rng)
        for _ in range(4):
            design, move = mutated(design, SPACE, rng)
            moves.add(move)
            assert parse_design(to_text(design)) == design
            assert 1 <= len(design.agents) <= SPACE.max_agents
            assert design.sink == design.agents[-1].id
    assert moves == set(EDITS)


def test_an_edit_changes_a_workflow() -> None:
    rng = random.Random(1)
    for design in (random_workflow(SPACE, rng) for _ in range(200)):
        assert mutated(design, SPACE, rng)[0] != design


def test_two_workflows_are_crossed_side_by_side() -> None:
    child = crossed(single("CoTAgent"), single("SCAgent"), SPACE, random.Random(0))
    assert child is not None
    assert child.edges == (("A1", "A3"), ("A2", "A3"))
    assert [agent.kind for agent in child.agents[:2]] == ["CoTAgent", "SCAgent"]
    assert crossed(child, child, SPACE, random.Random(0)) is None


# ------------------------------------------------------------------------------------------------------------- search


@pytest.mark.parametrize("method", sorted(SEARCHES))
def test_a_search_finds_something_better_than_a_single_agent(method: str, validation: Validation) -> None:
    history = search(method, validation, SearchBudget(14), seed=3)
    assert [candidate.number for candidate in history] == list(range(14))
    assert history[0].design == single("CoTAgent")
    assert best(history).score > history[0].score
    assert best(history).score == max(candidate.score for candidate in history)
    assert len({candidate.design for candidate in history}) == 14
    low, high = best(history).interval
    assert low < best(history).score <= high


@pytest.mark.parametrize("method", sorted(SEARCHES))
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


def candidate(
    number: int, score: float, agents: int = 1, parent: int | None = None, usd: float = 0.0
) -> WorkflowCandidate:
    design = random_workflow(SPACE, random.Random(number))
    while len(design.agents) != agents:
        design = random_workflow(SPACE, random.Random(f"{number}/{design}"))
    return WorkflowCandidate(number, design, () if parent is None else (parent,), "made", score, 10, usd)


def test_of_each_size_the_best_survive_and_of_equal_ones_the_cheapest() -> None:
    history = [candidate(0, 0.5), candidate(1, 0.9, usd=2), candidate(2, 0.9, usd=1), candidate(3, 0.1, agents=3)]
    alive = Evolution(SPACE, niche=1).survivors(history)
    assert [one.number for one in alive] == [2, 3]
    assert best(history).number == 2


def test_the_tree_is_followed_where_scores_are_good() -> None:
    history = [candidate(0, 0.2), candidate(1, 0.1, parent=0), candidate(2, 0.9, parent=0)]
    history += [candidate(number, 0.9, parent=2) for number in (3, 4)]
    chosen = [TreeSearch(SPACE).propose(history, random.Random(seed)).parents[0] for seed in range(20)]
    assert set(chosen) <= {0, 2, 3, 4}
    assert 1 not in chosen


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
