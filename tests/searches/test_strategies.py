from __future__ import annotations

import random

from examples.searches.search import best
from examples.searches.strategies import Evolution, TreeSearch, WorkflowCandidate
from examples.searches.workflows import Space, random_workflow
from toolorchestra.envs.masorchestra.rules import AGENTS

SPACE = Space(AGENTS[:4], 6)


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
