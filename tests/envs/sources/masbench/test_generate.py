"""Instances have the axis values wanted, are solved by their text alone, and differ by template between splits."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from toolorchestra.envs.ground_truth.parts import parts_of
from toolorchestra.envs.sources.masbench.dataset_check import CRITICAL, check_dataset
from toolorchestra.envs.sources.masbench.generate import InstanceSettings, check_axes, make_instance
from toolorchestra.envs.sources.masbench.graph import (
    AXES,
    MODULUS,
    Axes,
    ProblemNode,
    measure,
    needed,
    split_of,
    template,
    values_of,
)
from toolorchestra.envs.sources.masbench.mistakes import mistakes
from toolorchestra.envs.sources.masbench.sets import instances
from toolorchestra.envs.sources.masbench.solver import solve
from toolorchestra.envs.sources.masbench.source import MASBenchSource
from toolorchestra.envs.sources.masbench.tasks import faults, truth_of
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

VALUES = (1, 2, 3, 4, 6, 8, 12, 20, 32)


@pytest.mark.parametrize("axis", AXES)
def test_the_text_alone_leads_to_the_answers_and_the_axes(axis: str):
    found = check_dataset([Axes(**{axis: value}) for value in (1, 2, 3, 4, 5, 6, 8, 10, 12, 32)], 15, seed="test")
    assert found.instances == 300
    assert found.faults == ()
    assert found.disagreements == 0
    assert found.shared == 0
    assert found.chi_square < CRITICAL
    assert min(found.templates.values()) > 20
    assert found.duplicates == 0
    assert found.passed


@st.composite
def combinations(draw: st.DrawFn) -> Axes:
    values = {axis: draw(st.none() | st.integers(1, 6)) for axis in AXES}
    if not any(values.values()):
        values["depth"] = draw(st.integers(1, 6))
    return Axes(**values)


@settings(max_examples=120, deadline=None)
@given(combinations(), st.sampled_from(("train", "test")), st.integers(0, 9), st.integers(1, 8), st.booleans())
def test_axes_can_be_combined(axes: Axes, split: str, seed: int, distractors: int, notes: bool):
    try:
        check_axes(axes)
    except OptionError:
        return  # the graph that is wanted does not exist; which do not is tested below
    instance = make_instance(axes, split, seed, InstanceSettings(distractors, 5, notes))
    assert faults(instance) == []


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (Axes(depth=1, breadth=2), "expected depth 2 or more with breadth 2"),
        (Axes(depth=3, horizon=4, breadth=2), "a horizon of at most 3 with depth 3 and breadth 2"),
        (Axes(depth=2, horizon=2), "a horizon of at most 1 with depth 2 and breadth left to chance"),
        (Axes(horizon=2, parallel=2, robustness=5), "a robustness of at most 4"),
    ],
)
def test_what_does_not_exist_is_refused(axes: Axes, message: str):
    with pytest.raises(OptionError, match=message):
        make_instance(axes, "train", 0)


def test_a_split_without_templates_of_a_shape_is_refused():
    bare = InstanceSettings(distractors=0)
    home = split_of(template([ProblemNode("given")], 0))  # of the only template there is: a number that is given
    assert make_instance(Axes(depth=1), home, 0, bare).split == home
    with pytest.raises(OptionError, match="too few templates"):
        make_instance(Axes(depth=1), {"train": "test", "test": "train"}[home], 0, bare)


def test_all_axes_at_once_at_their_largest():
    axes = Axes(*[32] * 5)
    instance = make_instance(axes, "test", 0)
    assert measure(instance.graph) == dict.fromkeys(AXES, 32)
    assert solve(instance.text).answers == instance.answers


def test_the_same_seed_gives_the_same_instance():
    axes = Axes(depth=5, parallel=2)
    assert make_instance(axes, "train", 4) == make_instance(axes, "train", 4)
    assert make_instance(axes, "train", 4) != make_instance(axes, "train", 5)


def test_an_unknown_split_or_setting_is_refused():
    with pytest.raises(UnknownNameError, match="split"):
        make_instance(Axes(depth=2), "test_intents", 0)
    with pytest.raises(OptionError, match="distractors"):
        InstanceSettings(distractors=9)
    with pytest.raises(OptionError, match="haystack"):
        InstanceSettings(haystack=-1)


# ------------------------------------------------------------------------------------------------- content


@pytest.mark.parametrize("distractors", [0, 3, 8])
def test_a_problem_has_as_many_distractors_as_wanted(distractors: int):
    for seed in range(20):
        graph = make_instance(Axes(depth=4), "train", seed, InstanceSettings(distractors)).graph
        way = set(needed(graph.nodes, [graph.targets[0].node]))
        assert sum(at not in way for at in graph.targets[0].states) == distractors


def test_statements_are_shuffled():
    orders = set()
    for seed in range(20):
        target = make_instance(Axes(depth=6), "train", seed).graph.targets[0]
        orders.add(tuple(target.states) == tuple(sorted(target.states)))
    assert orders == {False}


def test_every_kind_of_sub_task_comes_up():
    kinds = Counter[str]()
    for seed, split in itertools.product(range(60), ("train", "test")):
        graph = make_instance(Axes(depth=5), split, seed).graph
        kinds.update(graph.nodes[at].kind for at in needed(graph.nodes, [graph.targets[0].node]))
    assert set(kinds) == {"given", "undefined", "same", "sum", "difference", "total", "nested"}


def test_an_answer_takes_every_value():
    values = {make_instance(Axes(breadth=3), "test", seed).answers for seed in range(250)}
    assert values == {(str(value),) for value in range(MODULUS)}


def test_templates_belong_to_the_split():
    for split in ("train", "test"):
        instance = make_instance(Axes(parallel=6), split, 0)
        assert len(instance.templates) == 6
        assert {split_of(one) for one in instance.templates} == {split}


def test_problems_of_a_horizon_carry_answers_on_and_can_be_solved_one_by_one():
    for seed in range(30):
        instance = make_instance(Axes(horizon=5), "train", seed)
        assert "[answer1]" in instance.text
        earlier: dict[str, str] = {}
        for number, problem in enumerate(instance.problems, 1):
            alone = problem.removeprefix(f"Problem {number}: ")
            for reference, answer in earlier.items():
                alone = alone.replace(reference, answer)
            earlier[f"each [answer{number}]"] = answer = instance.answers[number - 1]
            assert solve(alone).answers == (answer,)


def test_each_note_is_about_the_problem_before_and_wrong():
    instance = make_instance(Axes(robustness=4), "test", 3)
    notes = re.findall(r"Note: verify the information before you take it - (.*?) is (\d+)\.", instance.text)
    assert len(notes) == 4
    for (what, claim), answer in zip(notes, instance.answers, strict=True):
        assert claim != answer
        assert what in instance.text.rpartition("identify and return")[2]
    paragraphs = instance.text.split("\n\n")
    assert "Note" not in paragraphs[1]
    assert paragraphs[5].startswith("Note")  # about the last passage, on its own


def test_without_notes_the_problem_is_the_same():
    noted = make_instance(Axes(robustness=4), "train", 1, InstanceSettings(notes=True))
    plain = make_instance(Axes(robustness=4), "train", 1, InstanceSettings(notes=False))
    lines = re.sub(r"(^| )Note: [^.]*\.( |$)", "", noted.text, flags=re.MULTILINE).replace("\n\n\n\n", "\n\n")
    assert lines == plain.text
    assert noted.answers == plain.answers
    assert measure(plain.graph)["robustness"] == 0
    assert "Note:" not in plain.text


def test_needles_are_hidden_in_as_much_hay_as_wanted():
    instance = make_instance(Axes(robustness=2), "train", 2, InstanceSettings(haystack=100))
    passage = next(part for part in instance.text.split("\n\n") if "special magic number" in part)
    assert passage.partition("Note:")[0].count(". ") >= 100
    assert sorted(len(answer) > 2 for answer in instance.answers) == [False, True]


def test_mistakes_are_wrong_and_plausible():
    for seed in range(40):
        instance = make_instance(Axes(depth=4, parallel=2), "train", seed)
        nodes, values = instance.graph.nodes, values_of(instance.graph.nodes)
        for at, node in enumerate(nodes):
            wrong = mistakes(node, values, at)
            assert len(set(wrong)) == len(wrong) >= 2
            assert str(values[at]) not in wrong


# ------------------------------------------------------------------------------------------------- axes by themselves

ALONE = {
    "depth": {"horizon": 1, "breadth": 1, "parallel": 1, "robustness": 0},
    "horizon": {"depth": 9, "breadth": 1, "parallel": 1, "robustness": 0},
    "breadth": {"depth": 3, "horizon": 1, "parallel": 1, "robustness": 0},
    "parallel": {"depth": 3, "horizon": 1, "breadth": 1, "robustness": 0},
    "robustness": {"depth": 4, "horizon": 1, "breadth": 1},  # every passage is a component of its own
}


@pytest.mark.parametrize("axis", AXES)
def test_a_source_of_one_axis_varies_it_alone(axis: str):
    source = MASBenchSource(axis, train=20, test=20)
    for task in source.tasks("all"):
        measured = truth_of(task).measured
        assert f"{axis}{measured[axis]}" == task.intent
        assert {name: measured[name] for name in ALONE[axis]} == ALONE[axis]


def test_every_intermediate_answer_of_a_horizon_is_used_by_the_next_problem():
    for task in MASBenchSource("horizon", train=30, test=0).tasks("train"):
        problems = truth_of(task).problems
        for number, problem in enumerate(problems[1:], 1):
            body = problem.partition(": ")[2]
            assert f"[answer{number}]" in body
        targets = task.bindings["targets"]
        parts = parts_of(task)
        for before, after in itertools.pairwise(targets):
            assert before in needed(parts, [after])


@pytest.mark.parametrize("count", [2, 4, 8, 32])
def test_parallel_problems_share_a_world_and_stay_independent(count: int):
    settings = InstanceSettings(alone=True, shared_world=True)
    for seed in range(8):
        instance = make_instance(Axes(parallel=count), "train", seed, settings)
        assert faults(instance) == []
        named = [
            {name for at in target.states for name in (instance.graph.nodes[at].owner, instance.graph.nodes[at].name)}
            for target in instance.graph.targets
        ]
        assert all(any(one & other for other in named if other is not one) for one in named)
    apart = make_instance(Axes(parallel=count), "train", 0, InstanceSettings(alone=True))
    assert apart.text != make_instance(Axes(parallel=count), "train", 0, settings).text


def test_variables_say_which_earlier_answers_a_problem_uses():
    settings = InstanceSettings(alone=True, variables=True)
    instance = make_instance(Axes(horizon=3), "test", 2, settings)
    line = "Using the result [answer1] from the previous calculation, [variable2] = [answer1]. What is"
    assert line in instance.problems[1]
    assert "[variable1]" not in instance.text
    assert "- [variablek] represents the calculated variable needed to solve problem k." in instance.text
    assert faults(instance) == []
    plain = make_instance(Axes(horizon=3), "test", 2, InstanceSettings(alone=True))
    assert "variable" not in plain.text
    assert plain.answers == instance.answers
    several = make_instance(Axes(horizon=6, breadth=3), "train", 3, InstanceSettings(variables=True))
    assert re.search(r"Using the results \[answer\d\](?:, \[answer\d\])* and \[answer\d\] from the", several.text)


def test_without_a_world_of_their_own_the_earlier_problems_are_the_same():
    old = MASBenchSource("parallel", train=2, test=0, settings=InstanceSettings(load="steps"))
    fresh = itertools.islice(instances(Axes(parallel=2), "train", seed=0), 1)
    assert old.tasks("train")[0].instruction == next(fresh).text
    assert "load" not in old.tasks("train")[0].bindings
    with pytest.raises(UnknownNameError, match="load"):
        InstanceSettings(load="all")
