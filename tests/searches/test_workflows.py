from __future__ import annotations

import random

from examples.searches.workflows import EDITS, Space, crossed, mutated, random_workflow, single
from toolorchestra.envs.masorchestra.design import to_text
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import AGENTS

SPACE = Space(AGENTS[:4], 6)


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
