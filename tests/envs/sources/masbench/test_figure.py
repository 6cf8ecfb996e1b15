"""Figures of dependency graphs."""

from __future__ import annotations

import re

import pytest

from toolorchestra.envs.sources.masbench.figure import figure
from toolorchestra.envs.sources.masbench.generate import make_instance
from toolorchestra.envs.sources.masbench.graph import AXES, Axes, measure


@pytest.mark.parametrize("axis", AXES)
def test_a_figure_shows_every_sub_task_and_what_it_needs(axis: str):
    graph = make_instance(Axes(**{axis: 4}), "test", 1).graph
    drawn = figure(graph, "mine")
    assert drawn == figure(graph, "mine")
    assert f"mine<br/>depth {measure(graph)['depth']}" in drawn
    boxes = dict(re.findall(r'^  n(\d+)\["(.*)"\]', drawn, re.MULTILINE))
    assert all(node.name in boxes[str(at)] for at, node in enumerate(graph.nodes))
    edges = set(re.findall(r"^  n(\d+) --> n(\d+)$", drawn, re.MULTILINE))
    assert edges == {(str(need), str(at)) for at, node in enumerate(graph.nodes) for need in node.needs}


def test_what_no_answer_needs_is_told_from_what_one_needs():
    graph = make_instance(Axes(depth=6), "train", 2).graph
    kinds = re.findall(r":::(\w+)$", figure(graph), re.MULTILINE)
    assert set(kinds) == {"title", "answer", "needed", "distractor"}
    assert kinds[1 + graph.targets[0].node] == "answer"
