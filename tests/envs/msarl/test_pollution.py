"""What can pollute a context: stale values, failing programs, chains of them; and who is spared which of it."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.envs.msarl import MSARLEnv, raw_env
from toolorchestra.envs.msarl.chain_teacher import ERROR
from toolorchestra.envs.msarl.teacher import inject_error, teach
from toolorchestra.envs.sources.chains import LEVELS, NAMES, ChainSource, Formula, formulas
from toolorchestra.envs.sources.questions import try_answers
from toolorchestra.envs.task_source import FileSource, make_source, question_source
from toolorchestra.envs.tools.simulated_python import SimulatedPython, last_value
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import write_tasks
from toolorchestra.toolscale.tools.tool import NO_CONTEXT

SYSTEMS: list[dict[str, Any]] = [{}, {"helpers": "none"}, {"helpers": "none", "old_outputs": "deleted"}]


def new(calls: int, task: int = 0, **options: Any) -> MSARLEnv:
    env = raw_env("Chains", max_calls=calls + 2, max_cycles=2 * calls + 5, **options)
    tasks = [one for one in env.source.tasks("test") if one.difficulty == calls]
    env.reset(seed=task, options={"task_id": tasks[task].id})
    return env


def play(env: MSARLEnv) -> str | None:
    while not env.play.over:
        env.step(teach(env.play))
    return env.episode.outcome


# ------------------------------------------------------------------------------------------------------- the tasks


def test_every_value_of_a_chain_needs_the_one_before_it_and_the_third_an_earlier_one_too() -> None:
    tasks = question_source("Chains").tasks("all")
    assert {task.difficulty for task in tasks} == set(LEVELS)
    for task in tasks:
        chain = formulas(task)
        assert [formula.name for formula in chain] == list(NAMES[: task.difficulty])
        for n, formula in enumerate(chain[1:], 1):
            assert formula.left == NAMES[n - 1]
            assert n == 1 or formula.right in NAMES[: n - 1]


def test_values_are_two_digits_and_the_answer_is_the_last_of_them() -> None:
    for task in question_source("Chains").tasks("test"):
        values: dict[str, int] = {}
        for formula in formulas(task):
            one, other = (values.get(part) or int(part) for part in (formula.left, formula.right))
            values[formula.name] = one + other if formula.sign == "+" else one - other
        assert all(10 <= value <= 99 for value in values.values())
        assert task.answer == rf"\boxed{{{values[formula.name]}}}"


def test_no_test_chain_is_a_training_chain_and_there_are_enough_of_each_length() -> None:
    source = ChainSource()
    train, test = ({task.instruction for task in source.tasks(split)} for split in ("train", "test"))
    assert not train & test
    assert all(sum(task.difficulty == level for task in source.tasks("test")) >= 100 for level in LEVELS)


def test_right_answers_pass_and_a_formula_of_the_question_is_none() -> None:
    source = question_source("Chains")
    tasks = source.tasks("test")[:20]
    report = try_answers(source.world(tasks[0]), tasks)
    assert report.surprises == []
    assert (report.kill_rate, report.acceptance_rate) == (1.0, 1.0)
    first = tasks[0].instruction.split(" = ")[1].split(".")[0]
    for answer in (rf"\boxed{{{first}}}", first, tasks[0].instruction):
        assert not source.world(tasks[0]).verify(tasks[0], None, answer).solved


def test_the_source_is_named_where_an_id_leaves_it_open_and_is_read_from_files(tmp_path: Path) -> None:
    assert make_source("Chains") is question_source("Chains")
    tasks = make_source("Chains").tasks("test")[:2]
    write_tasks(tmp_path / "some.jsonl", tasks)
    env = raw_env(FileSource(tmp_path / "some.jsonl"), split="test")
    env.reset(options={"task_id": tasks[1].id})
    env.step(tasks[1].answer)
    assert env.episode.outcome == "solved"


def test_a_program_needs_the_values_that_its_formula_names() -> None:
    assert Formula("c", "b", "-", "a").program({"b": "42"}) is None
    assert Formula("c", "b", "-", "a").program({"b": "42", "a": "30"}) == "print('c', 42 - 30)"


# ------------------------------------------------------------------------------------------------------ the outputs


@pytest.mark.parametrize("lines", [8, 33, 133])
def test_a_printed_value_is_the_last_of_its_name_among_stale_ones(lines: int) -> None:
    python = SimulatedPython(stale=lines)
    older = 0
    for n in range(10, 60):
        output = python.run({"code": f"print('b', {n} + 30)"}, NO_CONTEXT).value
        assert len(output.splitlines()) == lines + 1
        assert last_value(output, "b") == str(n + 30)
        older += output.count("\nb ") + output.startswith("b ") - 1
        assert {line.split()[0] for line in output.splitlines()} <= set(NAMES)
    assert older > 50 * lines / 5  # nothing but its place tells the value printed


def test_a_program_that_fails_shows_stale_values_and_a_traceback_and_may_succeed_when_run_again() -> None:
    share, repaired = 0.0, 0
    for seed in range(40):
        env = raw_env("Chains", max_calls=3, max_cycles=9, stale=8, failures=0.3, helpers="none")
        env.reset(seed=seed)
        last_failed = False
        for _ in range(3):
            env.step("```python\nprint('a', 40 + 2)\n```")
            output = str(env.observe("reasoner"))
            failed = "RuntimeError" in output
            share += failed / 120
            assert failed == ("Traceback (most recent call last):" in output) == ("EXEC_ERR: " in output)
            assert len(output.splitlines()) == 8 + (5 if failed else 3)
            repaired += last_failed and not failed
            last_failed = failed
    assert 0.15 < share < 0.45
    assert repaired > 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stale": -1}, "`stale`"),
        ({"stale": 3, "noise": 3}, "leave one"),
        ({"failures": 1.0}, "`failures`"),
        ({"failures": 0.2, "python": "none"}, "python='simulated'"),
        ({"old_outputs": "deleted"}, "helpers='none'"),
        ({"helpers": "none", "old_outputs": "cut"}, "`old_outputs`"),
        ({"tag": "says"}, "`tag`"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        raw_env("Chains", **options)


# --------------------------------------------------------------------------------------------------- who reads what


def test_a_helper_reads_one_pair_of_code_and_output_at_a_time() -> None:
    env = new(3, stale=8)
    assert play(env) == "solved"
    history = env.play.histories["helper"]
    assert [message["role"] for message in history] == ["system", "user", "assistant"]
    assert "print('c'" in history[1]["content"]
    closed = env.play.closed_histories["helper"]
    assert [[message["role"] for message in one] for one in closed] == [["system", "user", "assistant"]] * 2
    assert "print('a'" in closed[0][1]["content"]
    assert "reasoner" not in env.play.closed_histories


def test_a_helper_with_a_memory_keeps_what_it_has_read() -> None:
    env = new(3, stale=8, helper_memory=True)
    assert play(env) == "solved"
    assert len(env.play.histories["helper"]) == 1 + 3 * 2
    assert not env.play.closed_histories


def test_a_single_agent_keeps_outputs_or_sees_that_they_were_deleted() -> None:
    kept, deleted = (new(3, stale=8, helpers="none", old_outputs=old) for old in ("kept", "deleted"))
    assert play(kept) == play(deleted) == "solved"
    outputs = [
        [message["content"] for message in env.play.histories["reasoner"][1:] if "<output>" in message["content"]]
        for env in (kept, deleted)
    ]
    assert outputs[1][:2] == ["<output>\n(deleted)\n</output>"] * 2
    assert outputs[1][2] == outputs[0][2]
    assert all(len(output.splitlines()) == 8 + 3 for output in outputs[0])
    notes = [message for message in deleted.play.histories["reasoner"] if message["role"] == "assistant"]
    assert notes == [turn.message for turn in deleted.episode.turns]


def test_what_stays_in_a_rewritten_history_is_read_again_and_paid_for_so() -> None:
    spent = []
    for old in ("kept", "deleted"):
        env = new(3, stale=60, helpers="none", old_outputs=old)
        play(env)
        spent.append([turn.tokens[0] for turn in env.episode.turns if turn.tokens])
    assert spent[0][:2] == spent[1][:2]
    assert spent[1][2] < spent[0][2]


def test_a_branch_has_its_own_rewritten_histories() -> None:
    env = new(2, stale=8)
    env.step(teach(env.play))
    env.step(teach(env.play))
    branch = env.play.branch()
    env.step(teach(env.play))
    assert "helper" in env.play.closed_histories
    assert "helper" not in branch.closed_histories
    assert len(branch.histories["helper"]) == 3


# ------------------------------------------------------------------------------------------------------ the teacher


@pytest.mark.parametrize("options", SYSTEMS)
@pytest.mark.parametrize("calls", LEVELS)
def test_the_teacher_solves_every_chain_by_a_program_a_value(calls: int, options: dict[str, Any]) -> None:
    for task in range(8):
        env = new(calls, task, stale=12, **options)
        assert play(env) == "solved"
        assert len(list(env.episode.calls)) == calls


@pytest.mark.parametrize("options", SYSTEMS)
def test_the_teacher_runs_a_program_that_failed_again(options: dict[str, Any]) -> None:
    solved = failed = 0
    for task in range(30):
        env = new(2, task, stale=12, failures=0.3, **options)
        solved += play(env) == "solved"
        records = list(env.episode.calls)
        failed += sum(record.error is not None for record in records)
        for before, after in itertools.pairwise(records):
            if before.error is not None:
                assert after.arguments == before.arguments
                assert any(str(turn.message["content"]).startswith(ERROR) for turn in env.episode.turns)
    assert failed > 5
    assert solved >= 25


@pytest.mark.parametrize("options", SYSTEMS)
def test_an_injected_error_anywhere_makes_the_answer_wrong(options: dict[str, Any]) -> None:
    messages, solved = 3 if options else 5, 0
    for wrong in range(messages):
        for task in range(10):
            env = new(2, task, stale=12, **options)
            for turn in range(messages):
                env.step(inject_error(env.play, random.Random(task)) if turn == wrong else teach(env.play))
            solved += env.episode.outcome == "solved"
    assert solved < 0.1 * messages * 10
