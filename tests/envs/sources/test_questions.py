"""Worlds of questions: no database, the same protocol, and parts from which experts' problems follow."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import msgspec
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.ground_truth.parts import SubProblem, find_part, parts_of, problem_of
from toolorchestra.envs.sources import questions
from toolorchestra.envs.sources.code_questions import CodeWorld
from toolorchestra.envs.sources.questions import (
    QuestionSource,
    QuestionWorld,
    StatelessSession,
    make_question,
    try_answers,
)
from toolorchestra.envs.task_source import QUESTIONS, FileSource, MixtureSource, make_source, question_source
from toolorchestra.envs.tools.calculator import Calculator
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Task, read_tasks, write_tasks
from toolorchestra.toolscale.tools.tool import Status

PARTS = (
    SubProblem("Who wrote the novel Tern?", "Ada Vell", ("Ida Vell",), (), 0.5, None, ("p1",)),
    SubProblem("In which city was Ada Vell born?", "Brenholm", ("Corrick",), (0,), 0.5, None, ("p2",)),
)


def question(number: int = 0, answer: str = "Brenholm", **changes: object) -> Task:
    """A question of two parts."""
    values = {
        "id": f"mine/birth/{number}",
        "domain": "mine",
        "intent": "birth",
        "split": "train",
        "difficulty": 2,
        "question": f"Where was the author of the novel Tern {number} born?",
        "answers": [answer, f"the city of {answer}"],
        "parts": PARTS,
        "subject": "search",
    }
    return make_question(**(values | changes))


@pytest.fixture
def source() -> QuestionSource:
    """Three questions with a calculator."""
    answers = ("Brenholm", "Corrick", "Aldery")
    tasks = [question(number, answer) for number, answer in enumerate(answers)]
    return QuestionSource("Mine", QuestionWorld("mine", "Answer in a box.", [Calculator()]), tasks)


def test_the_verdict_is_whether_the_answer_is_right(source: QuestionSource):
    env = gym.make("ToolOrchestra-Custom-v0", source=source)
    for answer, reward in (
        ("\\boxed{the city of Brenholm}", 1),
        ("<answer>Brenholm</answer>", 1),
        ("\\boxed{Corrick}", 0),
    ):
        env.reset(options={"task_id": "mine/birth/0"})
        observation, *_, info = env.step(
            '<tool_call>{"name":"calculator","arguments":{"expression":"1/3"}}</tool_call>'
        )
        assert '"exact":"\\\\frac{1}{3}"' in observation
        assert info["clock"] > 0
        _, found, terminated, truncated, info = env.step(answer)
        assert (found, terminated, truncated) == (reward, True, False)
    assert info["verdict"] == "answer: the final answer should be 'Brenholm' or 'the city of Brenholm'"
    env.close()


def test_an_episode_is_restored_from_a_snapshot(source: QuestionSource):
    env = gym.make("ToolOrchestra-Custom-v0", source=source).unwrapped
    env.reset(seed=3)
    env.step([{"name": "calculator", "arguments": {"expression": "2^10"}}])
    snapshot = env.snapshot()
    first = env.step("\\boxed{Brenholm}")
    env.reset(seed=4)
    env.restore(snapshot)
    assert env.step("\\boxed{Brenholm}")[:4] == first[:4]
    env.close()


def test_a_session_without_state_keeps_none():
    session = StatelessSession()
    tool = Calculator()
    assert session.call(tool, {"expression": "sqrt(8)"}).value == {"exact": "2\\sqrt{2}", "decimal": 2.8284271247}
    assert session.call(tool, {"expression": "x + x"}).value == {"exact": "2x", "decimal": None}
    assert session.call(tool, {"expression": "1, 2"}).status is Status.EXEC_ERR
    assert session.call(tool, {"expression": "import os"}).status is Status.EXEC_ERR
    session.restore(session.snapshot())
    session.reset()
    assert session.touched() == {}
    session.close()


# ---------------------------------------------------------------------------------------------- problems


def test_a_question_is_a_problem_of_its_parts():
    whole = problem_of(question())
    assert whole.key == "mine/birth/0"
    assert whole.subject == "search"
    assert [(step.answer, step.wrong, step.needs) for step in whole.steps] == [
        ("Ada Vell", ("Ida Vell",), ()),
        ("Brenholm", ("Corrick",), (0,)),
    ]
    assert parts_of(question()) == PARTS


@pytest.mark.parametrize(
    ("sub_question", "part"),
    [
        ("Who wrote the novel Tern?", 0),
        ("who wrote Tern, the novel", 0),
        ("In which city was Ada Vell born?", 1),
        ("Where was the author of the novel Tern 0 born?", None),
        ("What is the capital of Estavia?", None),
        ("", None),
    ],
)
def test_a_sub_question_is_found_by_its_words(sub_question: str, part: int | None):
    assert find_part(question(), sub_question) == part
    found = problem_of(question(), sub_question)
    if part is None:
        assert found == problem_of(question())
    else:
        assert (found.key, len(found.steps)) == (f"mine/birth/0#{part}", 1)
        assert (found.steps[0].answer, found.steps[0].needs) == (PARTS[part].answer, ())


def test_a_question_without_parts_is_a_chain_as_long_as_it_is_difficult():
    chain = problem_of(question(parts=(), difficulty=4))
    assert len(chain.steps) == 4
    assert chain.steps[-1].answer == "Brenholm"


# ----------------------------------------------------------------------------------------------- sources


def test_a_source_without_questions_is_refused():
    with pytest.raises(OptionError, match="at least one question for the source Mine"):
        QuestionSource("Mine", QuestionWorld("mine", ""), [])


def test_splits_are_those_of_all_sources(source: QuestionSource):
    assert len(source.tasks("train")) == len(source.tasks("all")) == 3
    assert source.tasks("test") == []
    with pytest.raises(UnknownNameError, match="split"):
        source.tasks("dev")


def test_questions_mix_with_others(source: QuestionSource):
    other = QuestionSource("Other", QuestionWorld("other", ""), [question(7, id="other/birth/7", domain="other")])
    mixture = MixtureSource([source, other])
    assert [mixture.world(task).name for task in mixture.tasks("all")] == ["mine"] * 3 + ["other"]


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_questions_are_played_from_a_file(name: str, tmp_path: Path):
    tasks = question_source(name).tasks("test")[:4]
    write_tasks(tmp_path / "some.jsonl", tasks)
    assert read_tasks(tmp_path / "some.jsonl") == tasks
    source = FileSource(tmp_path / "some.jsonl")
    assert source.world(tasks[0]).name == tasks[0].domain in (QUESTIONS[name].world, *QUESTIONS[name].others)
    env = gym.make("ToolOrchestra-Custom-v0", tasks=tmp_path / "some.jsonl", split="test")
    env.reset(options={"task_id": tasks[2].id})
    assert env.step(tasks[2].answer)[1] == 1
    env.close()
    assert make_source(name) is question_source(name)


def test_an_unknown_source_names_those_of_questions():
    with pytest.raises(UnknownNameError, match="Did you mean 'MultiHopQA'"):
        make_source("MultiHop")


# ------------------------------------------------------------------------------------------------ checks


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_environments_of_questions_pass_the_checks(name: str):
    checks = ["gymnasium", "null", "random", "snapshot", "hostile", "coverage"]
    report = check_environment(f"ToolOrchestra-{name}-v0", checks=checks, random_episodes=60, hostile=50)
    assert report.passed, report


@pytest.mark.parametrize("name", list(QUESTIONS))
def test_right_answers_pass_and_wrong_ones_fail(name: str):
    source = question_source(name)
    tasks = [*source.tasks("test")[:40], *source.tasks("test_intents")[:20]]
    report = try_answers(source.world(tasks[0]), tasks)
    assert report.surprises == []
    assert (report.kill_rate, report.acceptance_rate) == (1.0, 1.0)
    several = len(tasks[0].communicate) > 1
    one = {"several boxes", "box and tag", "either or", "enumeration", "dump", "asked", "hedge", "denial", "alone"}
    many = {"one answer wrong", "one answer missing", "or", "each denied", "all numbers", "all numbers for each"}
    assert (many if several else one) | {"request repeated", "no answer"} <= set(report.mutants)
    assert len(report.variants) >= 10
    assert report.variants.total() >= 10 * len(tasks)


def test_an_answer_that_would_bomb_the_grader_is_a_failure_and_never_a_judge_error(source: QuestionSource):
    env = gym.make("ToolOrchestra-Math-v0")
    for bomb in (
        r"\boxed{(1000!*1000!)!}",
        r"\boxed{\binom{1000!*1000!}{3}}",
        r"\boxed{\frac{1}{1+\sqrt{9999999967}}}",
    ):
        env.reset(seed=0)
        *_, info = env.step(bomb)
        assert info["outcome"] == "failed"
        env.reset(seed=0)
        expression = bomb.removeprefix("\\boxed{")[:-1]
        *_, info = env.step([{"name": "calculator", "arguments": {"expression": expression}}])
        assert info["calls"][0].status in (Status.OK, Status.EXEC_ERR)
    env.close()


def test_what_is_in_neither_form_is_no_answer_and_the_rules_and_the_verdict_tell_the_forms(source: QuestionSource):
    world, task = source.world(source.tasks("all")[0]), source.tasks("all")[0]
    assert world.rules == r"Answer in a box. Give your final answer as \boxed{…}."
    told = QuestionWorld("mine", r"The city as \boxed{…}.")
    assert told.rules == r"The city as \boxed{…}."
    verdict = world.verify(task, None, "The answer is Brenholm.")
    assert str(verdict) == r"answer: the message gives no answer: it must stand in \boxed{…} or <answer>…</answer>"
    assert world.verify(task, None, r"Ida Vell wrote it. \boxed{Brenholm}").solved  # words around it are not judged


@pytest.mark.parametrize("text", ["Brenholm", r"\boxed{Brenholm}", "It is <answer>the city of Brenholm</answer>."])
def test_a_bare_final_answer_to_a_question_is_put_into_a_box(source: QuestionSource, text: str):
    env = gym.make("ToolOrchestra-Custom-v0", source=source).unwrapped
    env.reset(options={"task_id": "mine/birth/0"})
    assert env.final("Brenholm") == r"\boxed{Brenholm}"
    assert env.final("{Brenholm") == "<answer>{Brenholm</answer>"
    assert env.step(env.final(text))[1] == 1
    env.close()


def test_a_final_answer_in_a_domain_and_a_program_are_left_as_they_are():
    env = gym.make("ToolOrchestra-Restaurant-v0", answer="text").unwrapped
    env.reset(seed=0)
    assert env.final("It is booked.") == "It is booked."
    env.close()
    world = CodeWorld("mine_code", {})
    assert "boxed" not in world.rules
    task = msgspec.structs.replace(question(), communicate=(), domain="mine_code")
    env = gym.make("ToolOrchestra-Custom-v0", source=QuestionSource("Code", world, [task])).unwrapped
    env.reset(seed=0, options={"split": "train"})
    assert env.final("```python\nprint(1)\n```") == "```python\nprint(1)\n```"
    env.close()


def test_a_verifier_that_is_wrong_is_found(source: QuestionSource, monkeypatch: pytest.MonkeyPatch):
    world = source.world(source.tasks("all")[0])
    monkeypatch.setattr(questions, "is_right", lambda answer, *context: "Brenholm" in answer)
    report = try_answers(world, source.tasks("all"))
    kinds = {(surprise.task_id, surprise.kind) for surprise in report.surprises}
    assert ("mine/birth/0", "several answers") in kinds
    assert ("mine/birth/1", "boxed") in kinds
    assert report.kill_rate < 1 > report.acceptance_rate
