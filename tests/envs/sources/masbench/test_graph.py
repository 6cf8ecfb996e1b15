"""Values, measured axes and templates of graphs written by hand."""

from __future__ import annotations

import pytest

from toolorchestra.envs.ground_truth.parts import needed
from toolorchestra.envs.sources.masbench.graph import (
    Axes,
    Graph,
    ProblemNode,
    Target,
    components_of,
    levels_of,
    measure,
    split_of,
    template,
    values_of,
)
from toolorchestra.toolscale.common.errors import OptionError

#       given 9, given 20 → 2 × (9 − 20) = 1 → total of that and 20 → 21; beside them an undefined one
NODES = (
    ProblemNode("given", "Ketch", "Saloon", constant=9),
    ProblemNode("given", "Sloop", "Saloon", constant=20),
    ProblemNode("difference", "Sloop", "Galley Nook", (0, 1), "times", 2),
    ProblemNode("total", "Sloop", "Cabin", (1, 2)),
    ProblemNode("undefined", "Yawl", "Saloon"),
)


def targets_at(*positions: int, **changes: object) -> tuple[Target, ...]:
    return tuple(Target(position, 0, **changes) for position in positions)


def test_values_are_counted_modulo_23():
    assert values_of(NODES) == [9, 20, 1, 21, 0]


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (ProblemNode("same", needs=(0,)), 9),
        (ProblemNode("same", needs=(0,), change="more", constant=20), 6),
        (ProblemNode("same", needs=(0,), change="times", constant=5), 22),
        (ProblemNode("sum", needs=(0, 1)), 6),
        (ProblemNode("sum", needs=(0, 1), change="more", constant=1), 7),
        (ProblemNode("difference", needs=(0, 1)), 12),
        (ProblemNode("nested", needs=(0, 1)), 19),
        (ProblemNode("needle", constant=1234567), 1234567),
    ],
)
def test_each_kind_of_sub_task_has_its_value(node: ProblemNode, value: int):
    assert values_of([*NODES[:2], node])[-1] == value


def test_axes_are_measured_in_the_graph():
    graph = Graph(NODES, targets_at(3))
    assert levels_of(NODES) == [1, 1, 2, 3, 1]
    assert needed(NODES, [3]) == [0, 1, 2, 3]
    assert needed(NODES, [3], known=[2]) == [1, 2, 3]
    assert measure(graph) == {"depth": 3, "horizon": 1, "breadth": 2, "parallel": 1, "robustness": 0}


def test_the_horizon_counts_reported_answers_that_lead_to_another():
    assert measure(Graph(NODES, targets_at(2, 3)))["horizon"] == 2
    assert measure(Graph(NODES, targets_at(3, 4)))["horizon"] == 1


def test_components_are_independent_and_hold_an_answer():
    apart = (*NODES, ProblemNode("needle", name="calm-otter", constant=7654321))
    graph = Graph(apart, targets_at(3, 5, 2))
    assert components_of(graph) == [[0, 2], [1]]
    assert measure(graph)["parallel"] == 2


def test_notes_are_counted():
    assert measure(Graph(NODES, (*targets_at(2, note="4"), *targets_at(3))))["robustness"] == 1


def test_a_template_forgets_names_numbers_and_order():
    other = (
        ProblemNode("given", "Lugger", "Forepeak", constant=3),
        ProblemNode("given", "Lugger", "Chart Room", constant=4),
        ProblemNode("difference", "Coaster", "Saloon", (1, 0), "times", 7),
        ProblemNode("total", "Coaster", "Cabin", (2, 1)),
    )
    mirrored = (*NODES[:2], ProblemNode("difference", needs=(1, 0), change="times"), ProblemNode("total", needs=(1, 2)))
    assert template(NODES, 3) == template(other, 3)  # operand 20 is the subtrahend there, and so it is here
    assert template(NODES, 3) == template(NODES[:4], 3)  # distractors do not count
    assert template(NODES, 2) != template((*NODES[:2], ProblemNode("difference", needs=(0, 1), change="more")), 2)
    assert template(mirrored, 2) == template(NODES, 2)  # both operands are numbers that are given


def test_what_is_merely_stated_is_known_by_what_stands_beside_it():
    assert template(NODES, 0) != template(NODES[:2], 0)


def test_a_template_belongs_to_one_split():
    assert {split_of(f"{number:016x}") for number in range(17)} == {"train"}
    assert {split_of(f"{number:016x}") for number in range(17, 23)} == {"test"}


@pytest.mark.parametrize("values", [{"depth": 0}, {"breadth": 33}, {"parallel": 2.5}, {}])
def test_axes_have_values_from_1_to_32(values: dict[str, int]):
    with pytest.raises(OptionError, match="Expected a value of"):
        Axes(**values)
