"""Problems of parity: balanced, split by instance, right by another computation, played by name and from a file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from toolorchestra.envs import make_multiagent
from toolorchestra.envs.sources.math.parity import FAMILIES, WORDS, Evaluate, ParitySource, make_problems
from toolorchestra.envs.sources.questions import try_answers
from toolorchestra.envs.task_source import FileSource, make_source, question_source
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import write_tasks
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Status, ToolContext

SOURCE = question_source("MathParity")


@pytest.mark.parametrize("split", ["train", "test"])
def test_half_of_the_answers_of_every_family_are_even(split: str) -> None:
    counts = Counter((task.intent, task.communicate[0][0]) for task in SOURCE.tasks(split))
    assert {intent for intent, _ in counts} == {family.name for family in FAMILIES}
    assert {answer for _, answer in counts} == {*WORDS}
    assert len(set(counts.values())) == 1


def test_no_number_of_a_problem_gives_its_answer_away() -> None:
    for name in ("a", "b", "m"):
        agree = [
            WORDS[task.bindings["given"][name] % 2] == task.communicate[0][0]
            for task in SOURCE.tasks("train")
            if name in task.bindings["given"]
        ]
        assert 0.4 < sum(agree) / len(agree) < 0.6


def test_the_answers_are_those_of_another_computation() -> None:
    found = {
        "power_parity": lambda a, n, m: pow(a, n, m),
        "tens_parity": lambda a, b: int(str(a * b)[-2]),
        "square_parity": lambda a, b, m: (a**2 + b**2) % m,
        "quotient_parity": lambda a, b, m: (a * b - a * b % m) // m,
    }
    for task in SOURCE.tasks("all"):
        assert task.communicate[0][0] == WORDS[found[task.intent](**task.bindings["given"]) % 2]


def test_no_problem_is_in_both_splits_and_all_follow_from_the_seed() -> None:
    train, test = ({task.instruction for task in SOURCE.tasks(split)} for split in ("train", "test"))
    assert not train & test
    assert make_problems("test", 12) == SOURCE.tasks("test")[:12]
    assert make_problems("test", 12, seed=1) != SOURCE.tasks("test")[:12]
    with pytest.raises(OptionError, match="at least 0"):
        ParitySource(train=-1)


def test_right_answers_pass_and_wrong_ones_fail() -> None:
    tasks = SOURCE.tasks("test")[:12]
    report = try_answers(SOURCE.world(tasks[0]), tasks)
    assert report.surprises == []


def test_it_is_named_with_custom_ids_and_played_from_a_file(tmp_path: Path) -> None:
    assert make_source("MathParity") is SOURCE
    write_tasks(tmp_path / "some.jsonl", SOURCE.tasks("test")[:4])
    assert FileSource(tmp_path / "some.jsonl").world(SOURCE.tasks("test")[0]).name == "math_parity"
    env = make_multiagent("TMATR-Custom-v0", source="MathParity")
    env.reset(seed=0)
    assert env.episode.env_id == "TMATR-MathParity-v0"


def test_the_tool_knows_the_numbers_of_the_problem_by_their_names() -> None:
    for task in SOURCE.tasks("test")[:8]:
        (call,) = task.reference_calls
        found = Evaluate().run(call.arguments, ToolContext(task=task))
        assert (found.status, found.value) == (Status.OK, task.communicate[0][0])


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("power(a, 2)", "Unexpected 'power'"),
        ("1/2", "no whole number"),
        ("1, 2", "several expressions"),
        ("", "evaluated"),
    ],
)
def test_the_tool_fails_on_what_is_no_whole_number(expression: str, message: str) -> None:
    found = Evaluate().run({"expression": expression}, ToolContext(task=SOURCE.tasks("test")[0]))
    assert found.status is Status.EXEC_ERR
    assert message in str(found.error)


def test_the_tool_evaluates_numbers_outside_any_problem() -> None:
    assert Evaluate().run({"expression": "2^10 + 1"}, NO_CONTEXT).value == "odd"
