"""Instances as tasks, their world and verdicts, the sources, and what an expert is asked."""

from __future__ import annotations

import itertools

import gymnasium as gym
import msgspec
import pytest
from hypothesis import given, strategies as st

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.envs.ground_truth.parts import find_part, parts_of, problem_of
from toolorchestra.envs.sources.masbench.generate import Instance, InstanceSettings, make_instance
from toolorchestra.envs.sources.masbench.graph import AXES, Axes, calculate, split_of
from toolorchestra.envs.sources.masbench.sets import COUNTS, DIGESTS, digest, instances, named_set, spread, tasks
from toolorchestra.envs.sources.masbench.source import MASBenchSource
from toolorchestra.envs.sources.masbench.tasks import faults, make_task, truth_of
from toolorchestra.envs.sources.masbench.world import MASBenchWorld, credit, read_answers
from toolorchestra.envs.task_source import QUESTIONS, question_source
from toolorchestra.toolscale.answers.answers import equal
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Task

WORLD = MASBenchWorld()
_NOTE = "Note: verify the information before you take it - the number of Saloon that Ketch has is 4."


def instance(**values: int) -> Instance:
    return make_instance(Axes(**values), "train", 0)


def task(**values: int) -> Task:
    return make_task(instance(**values), "masbench/mine/0")


# ---------------------------------------------------------------------------------------------------- tasks


@pytest.mark.parametrize("axis", AXES)
def test_a_task_holds_its_graph_steps_and_reference_calculations(axis: str):
    made = instance(**{axis: 5})
    found = make_task(made, "masbench/mine/0")
    truth, parts = truth_of(found), parts_of(found)
    assert truth.graph == made.graph
    assert truth.axes == Axes(**{axis: 5})
    assert truth.measured[axis] == 5
    assert found.intent == f"{axis}5"
    assert found.difficulty == 3
    assert [parts[target].answer for target in found.bindings["targets"]] == list(made.answers)
    values = [int(part.answer) for part in parts]
    for part, at in zip(parts, truth.steps, strict=True):
        node = made.graph.nodes[at]
        assert all(need < len(parts) for need in part.needs)
        assert int(part.answer) == calculate(node, dict(zip(truth.steps, values, strict=True)))
        assert part.answer not in part.wrong
    for call in found.reference_calls:
        result = WORLD.tools["calculator"].run(call.arguments, None)
        assert int(result.value["exact"]) in values


def test_an_expert_is_asked_for_all_answers_and_deceived_by_notes():
    noted = task(robustness=4)
    problem = problem_of(noted)
    answers = [accepted[0] for accepted in noted.communicate]
    assert [problem.steps[target].answer for target in problem.targets] == answers
    notes = [problem.steps[target].note for target in problem.targets]
    assert all(note is not None and note != answer for note, answer in zip(notes, answers, strict=True))
    assert sum(step.note is not None for step in problem.steps) == 4
    assert problem_of(task(depth=3)).targets == (len(parts_of(task(depth=3))) - 1,)


def test_a_sub_question_means_its_part_in_the_words_of_the_problem():
    for axis, seed in itertools.product(("horizon", "parallel"), range(10)):
        made = make_instance(Axes(**{axis: 4}), "train", seed)
        several = make_task(made, "masbench/mine/0")
        parts = parts_of(several)
        for target, problem in zip(several.bindings["targets"], truth_of(several).problems, strict=True):
            assert find_part(several, problem.rpartition(". ")[2]) == target
            assert find_part(several, parts[target].question) == target


def test_what_is_no_generated_task_has_no_truth():
    other = msgspec.structs.replace(task(depth=2), bindings={})
    with pytest.raises(OptionError, match="whose graph is not known"):
        truth_of(other)


def test_faults_are_found():
    made = instance(depth=4)
    assert faults(made) == []
    wrong = tuple(value + 1 for value in made.values)
    assert any("gives the answers" in fault for fault in faults(msgspec.structs.replace(made, values=wrong)))
    assert any("has the axes" in fault for fault in faults(msgspec.structs.replace(made, text=f"{_NOTE} {made.text}")))
    assert any("belongs to" in fault for fault in faults(msgspec.structs.replace(made, split="test")))
    assert any("expected depth 5" in fault for fault in faults(msgspec.structs.replace(made, axes=Axes(depth=5))))
    assert any("cannot be solved" in fault for fault in faults(msgspec.structs.replace(made, text="What?")))


# ------------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    "message",
    [
        "Final Answers\n\nProblem 1: \\boxed{12}\nProblem 2: \\boxed{7}\nProblem 3: \\boxed{0}",
        "**Problem 1:** \\boxed{12}\n**Problem 2:** \\boxed{7}\n**Problem 3:** \\boxed{0}",
        "\\boxed{12}\n\n\\boxed{7}\n\n\\boxed{0}",
        "\\boxed{12}, \\boxed{7}, \\boxed{0}. In short: \\boxed{12} \\boxed{7} \\boxed{0}",
        "\\boxed{\\boxed{12}, \\boxed{7}, \\boxed{0}}",
        "\\boxed{12, 7,0}",
        "<answer>12, 7, 0</answer>",
        "<answer>12</answer> <answer>7</answer> <answer>0</answer>",
        "<think>\\boxed{5}?</think>\\boxed{12} \\boxed{7} \\boxed{0}",
    ],
)
def test_answers_stand_in_as_many_boxes_or_in_one(message: str):
    assert read_answers(message, 3) == ("12", "7", "0")


@pytest.mark.parametrize(
    "message",
    [
        "",
        "12, 7, 0",
        "Problem 1: 12\nProblem 2: 7\nProblem 3: 0",
        "\\boxed{12}",
        "\\boxed{12, 7}",
        "\\boxed{12, 7, 0, 3}",
        "\\boxed{5} \\boxed{12} \\boxed{7} \\boxed{0}",
        "\\boxed{12} \\boxed{7} \\boxed{0} \\boxed{12} \\boxed{7} \\boxed{1}",
        "\\boxed{12, 7, 0} \\boxed{12, 7, 1}",
    ],
)
def test_another_number_of_answers_is_none(message: str):
    assert read_answers(message, 3) == ("", "", "")


@pytest.mark.parametrize(
    "said", ["\\boxed{not 12} \\boxed{not 7}", "\\boxed{12 or 13} \\boxed{7 or 8}", "\\boxed{12?, 7?}"]
)
def test_answers_that_are_denied_or_hedged_are_wrong(said: str):
    assert not any(equal(found, right) for found, right in zip(read_answers(said, 2), ("12", "7"), strict=True))


def test_all_answers_must_be_right_and_partial_credit_is_reported():
    several = task(horizon=4)
    right = [accepted[0] for accepted in several.communicate]
    assert WORLD.verify(several, None, several.answer).solved
    assert credit(several, several.answer) == 1
    wrong = [*right[:2], "23", right[3]]
    verdict = WORLD.verify(several, None, "\n\n".join(rf"\boxed{{{one}}}" for one in wrong))
    assert str(verdict) == f"answer: problem 3 has the answer {right[2]!r}, not '23'"
    assert credit(several, "\\boxed{" + ", ".join(wrong) + "}") == 0.75
    assert credit(several, "") == 0


def test_a_single_answer_is_judged_as_any_question():
    single = task(depth=3)
    right = single.communicate[0][0]
    assert single.answer == rf"\boxed{{{right}}}"
    assert WORLD.verify(single, None, f"It is <answer>{right}</answer>").solved
    assert not WORLD.verify(single, None, f"The answer is {right}").solved
    assert not WORLD.verify(single, None, rf"\boxed{{{int(right) + 23}}}").solved
    assert (credit(single, single.answer), credit(single, right)) == (1, 0)


@given(st.text(), st.integers(2, 40))
def test_any_text_is_read(text: str, count: int):
    assert len(read_answers(text, count)) == count
    assert len(read_answers(text * 50 + r"\boxed{" + text, count)) == count


# ------------------------------------------------------------------------------------------ sets and sources


def test_the_published_counts_are_those_of_the_paper():
    totals = {axis: (sum(counts["train"].values()), list(counts["test"].values())) for axis, counts in COUNTS.items()}
    assert totals == {
        "depth": (3993, [199, 200, 200, 200, 199, 197]),
        "horizon": (2174, [167, 150, 126, 124]),
        "breadth": (2000, [200, 200, 192, 84]),
        "parallel": (1807, [167, 150, 126, 124]),
        "robustness": (3000, [200, 200, 200]),
    }
    assert list(COUNTS["depth"]["train"]) == [2, 4, 6, 8]
    assert spread(0, (2, 4)) == {2: 0, 4: 0}


def test_a_named_set_is_the_same_bytes_everywhere():
    breadth = list(named_set("breadth", "test"))
    assert len(breadth) == 676
    assert digest(breadth) == DIGESTS["breadth/test"]
    assert len({task.instruction for task in breadth}) == len(breadth)
    assert set(DIGESTS) == {f"{axis}/{split}" for axis in AXES for split in ("train", "test")}


def test_a_digest_notices_a_byte():
    few = list(itertools.islice(named_set("depth", "train"), 3))
    other = [*few[:2], msgspec.structs.replace(few[2], instruction=few[2].instruction + " ")]
    assert digest(few) == digest(itertools.islice(named_set("depth", "train"), 3)) != digest(other)


def test_fresh_instances_have_no_end_and_no_order():
    axes = Axes(breadth=3)
    first = list(itertools.islice(instances(axes, "test", seed=9), 5))
    assert next(instances(axes, "test", seed=9, first=3)) == first[3]
    assert next(instances(axes, "test", seed=8)) != first[0]
    assert len({one.text for one in first}) == 5


def test_what_is_not_there_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'depth'"):
        MASBenchSource("dept")
    with pytest.raises(UnknownNameError, match="set of MASBench"):
        list(named_set("depth", "test", "masbench-v2"))
    with pytest.raises(UnknownNameError, match="split"):
        list(named_set("depth", "test_intents"))
    with pytest.raises(UnknownNameError, match="split"):
        MASBenchSource("depth", train=1, test=1).tasks("dev")
    with pytest.raises(OptionError, match="at least 0"):
        MASBenchSource("depth", train=-1)
    with pytest.raises(OptionError, match="breadth 2"):
        MASBenchSource([Axes(depth=1, breadth=2)])


def test_a_source_has_values_in_turn_and_splits_apart():
    source = MASBenchSource("horizon", train=12, test=8, seed=2)
    assert [task.intent for task in source.tasks("train")[:4]] == ["horizon2", "horizon4", "horizon6", "horizon2"]
    assert [task.intent for task in source.tasks("test")[:4]] == ["horizon2", "horizon4", "horizon6", "horizon8"]
    assert source.tasks("test_intents") == []
    assert len({task.id for task in source.tasks("all")}) == 20
    for split in ("train", "test"):
        hashes = {one for task in source.tasks(split) for one in truth_of(task).templates}
        assert {split_of(one) for one in hashes} == {split}


def test_a_source_may_be_of_combined_axes():
    mixed = MASBenchSource([Axes(depth=5, parallel=2), Axes(horizon=3, breadth=2)], train=4, test=0, name="Mine")
    assert mixed.name == "Mine"
    measured = [truth_of(task).measured for task in mixed.tasks("train")]
    assert [(one["depth"], one["parallel"]) for one in measured[::2]] == [(5, 2)] * 2
    assert [(one["horizon"], one["breadth"]) for one in measured[1::2]] == [(3, 2)] * 2


def test_the_published_set_is_a_source():
    source = MASBenchSource.published("breadth")
    assert [task.id for task in source.tasks("test")[:2]] == [
        "masbench-v1/breadth2/test-00000",
        "masbench-v1/breadth2/test-00001",
    ]
    assert len(source.tasks("test")) == 676


def test_settings_reach_the_tasks():
    plain = MASBenchSource("robustness", train=3, test=0, settings=InstanceSettings(notes=False, haystack=0))
    assert all("Note:" not in task.instruction for task in plain.tasks("train"))
    assert next(tasks(Axes(depth=2), "train", 1)).id == "masbench-0/depth2/train-00000"


@pytest.mark.parametrize("axis", AXES)
def test_every_axis_is_an_environment(axis: str):
    name = f"MASBench{axis.title()}"
    assert QUESTIONS[name].world == "masbench"
    env = gym.make(f"ToolOrchestra-{name}-v0")
    _, info = env.reset(seed=3, options={"split": "test"})
    chosen = question_source(name).task(info["task_id"])
    _, reward, terminated, *_ = env.step(chosen.answer)
    assert (reward, terminated) == (1, True)
    env.close()
