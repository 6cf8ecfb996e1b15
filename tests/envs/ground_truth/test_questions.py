"""What a text asks of a question: the whole, a part, a sum, or something beside it."""

from __future__ import annotations

import pytest

from toolorchestra.agents.experts.specialties import HARDER_OUTSIDE
from toolorchestra.agents.policies.scripted_questions import UNINFORMED
from toolorchestra.envs.ground_truth.given import UNCLEAR, Given
from toolorchestra.envs.ground_truth.parts import SubProblem, parts_of, problem_of
from toolorchestra.envs.ground_truth.questions import VAGUE, QuestionRequest
from toolorchestra.envs.sources.math.source import MathSource
from toolorchestra.envs.sources.questions import make_question
from toolorchestra.toolscale.tasks.task import Task

PARTS = (
    SubProblem("Who wrote the novel Tern?", "Ada Vell", ("Ida Vell",), (), 0.5, "search"),
    SubProblem("In which city was Ada Vell born?", "Brenholm", ("Corrick",), (0,), 0.5, "search"),
    SubProblem("How many bridges cross the rivers of Brenholm?", "3", ("2", "4"), (1,)),
)


def task(parts: tuple[SubProblem, ...] = PARTS) -> Task:
    return make_question(
        id="mine/1",
        domain="mine",
        intent="rivers",
        split="train",
        difficulty=3,
        question="How many bridges cross the rivers of the city where the author of the novel Tern was born?",
        answers=["3"],
        parts=parts,
        subject="reasoning",
    )


def asked(text: str, parts: tuple[SubProblem, ...] = PARTS, request: str = "") -> QuestionRequest:
    return QuestionRequest(task(parts), parts, Given(text, request))


@pytest.mark.parametrize("text", [task().instruction, f"{task().instruction} Think twice."])
def test_whoever_repeats_the_request_asks_for_the_whole(text: str) -> None:
    request = asked(text)
    assert request.is_whole
    assert request.problem() == problem_of(task())


@pytest.mark.parametrize("text", ["", "Solve it.", "asdf", "Was nun?"])
@pytest.mark.parametrize("parts", [PARTS, ()])
def test_where_the_request_is_given_any_words_will_do(text: str, parts: tuple[SubProblem, ...]) -> None:
    request = asked(text, parts, task().instruction)
    assert request.is_whole
    assert request.problem() == problem_of(task(parts))


@pytest.mark.parametrize("text", [*UNINFORMED, ""])
@pytest.mark.parametrize("parts", [PARTS, ()])
def test_without_it_nothing_can_be_worked_out(text: str, parts: tuple[SubProblem, ...]) -> None:
    request = asked(text, parts)
    assert not request.is_whole
    (step, *_) = request.problem().steps
    assert step.answer == UNCLEAR or text == "1 + 1"
    assert len(request.positions) == 0


def test_a_part_is_asked_for_by_its_words_with_the_request_and_without() -> None:
    for request in ("", task().instruction):
        assert asked("In which city was Ada Vell born?", request=request).part == 1


def test_a_part_in_other_words_is_vague_and_harder() -> None:
    exact = asked("In which city was Ada Vell born?")
    vague = asked("Tell me the city of birth of Ada Vell.")
    assert (exact.part, vague.part) == (1, 1)
    assert exact.problem().steps[0].difficulty + VAGUE == vague.problem().steps[0].difficulty


def test_without_the_request_what_asks_for_no_part_is_unclear() -> None:
    problem = asked("Is the author of that city rather old, or is the novel?").problem()
    assert problem.steps[0].answer == UNCLEAR


def test_a_sum_is_worked_out() -> None:
    problem = asked("What is 2 * 3 + 4?").problem()
    assert problem.steps[-1].answer == "10"
    assert not asked("What is 2 * 3 + 4?").is_whole


def test_where_only_the_answer_is_known_what_is_about_the_question_is_vague() -> None:
    vague = asked("Who is the author of the novel Tern?", ())
    assert vague.is_whole
    assert [step.difficulty for step in vague.problem().steps] == [
        step.difficulty + VAGUE for step in problem_of(task(())).steps
    ]


def test_a_query_writer_is_worse_at_what_must_be_thought_out() -> None:
    whole = Given(request=task().instruction)
    for given, harder in (
        (Given(PARTS[1].question), 0.0),
        (Given(PARTS[2].question), HARDER_OUTSIDE),
        (whole, HARDER_OUTSIDE),
    ):
        usual, writer = (QuestionRequest(task(), PARTS, given, role).problem() for role in ("generalist", "query"))
        assert writer.steps[-1].difficulty == usual.steps[-1].difficulty + harder


def test_nobody_who_is_told_nothing_gives_the_answer_of_a_problem_in_mathematics() -> None:
    for one in MathSource().tasks("test")[::25]:
        for text in (*UNINFORMED, ""):
            problem = QuestionRequest(one, parts_of(one), Given(text)).problem()
            assert problem.steps[problem.targets[0]].answer != one.communicate[0][0] or text == "1 + 1"
