"""What a text asks of a question: the whole, a part, a sum, or something beside it."""

from __future__ import annotations

import pytest

from toolorchestra.agents.experts.trades import MISPLACED
from toolorchestra.agents.policies.scripted_questions import NONSENSE, PLAIN
from toolorchestra.envs.ground_truth.parts import Part, parts_of, problem_of
from toolorchestra.envs.ground_truth.questions import VAGUE, QuestionRequest
from toolorchestra.envs.ground_truth.wording import BESIDE, UNCLEAR
from toolorchestra.envs.sources.math.source import MathSource
from toolorchestra.envs.sources.questions import make_question
from toolorchestra.toolscale.task import Task

PARTS = (
    Part("Who wrote the novel Tern?", "Ada Vell", ("Ida Vell",), (), 0.5, "search"),
    Part("In which city was Ada Vell born?", "Brenholm", ("Corrick",), (0,), 0.5, "search"),
    Part("How many bridges cross the rivers of Brenholm?", "3", ("2", "4"), (1,)),
)


def task(parts: tuple[Part, ...] = PARTS) -> Task:
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


def asked(text: str | None, parts: tuple[Part, ...] = PARTS) -> QuestionRequest:
    return QuestionRequest(task(parts), parts, text)


@pytest.mark.parametrize(
    "text", [None, task().instruction, f"{task().instruction} Think twice.", *PLAIN[:4], "Solve it."]
)
def test_the_whole_is_asked_for_in_many_words(text: str | None) -> None:
    request = asked(text)
    assert request.is_whole
    assert request.problem() == problem_of(task())


@pytest.mark.parametrize("text", NONSENSE)
@pytest.mark.parametrize("parts", [PARTS, ()])
def test_nonsense_is_answered_beside_the_question(text: str, parts: tuple[Part, ...]) -> None:
    request = asked(text, parts)
    assert not request.is_whole
    (step, *_) = request.problem().steps
    assert step.answer in BESIDE or text == "1 + 1"
    assert len(request.positions) == 0


def test_a_part_in_other_words_is_vague_and_harder() -> None:
    exact = asked("In which city was Ada Vell born?")
    vague = asked("Tell me the city of birth of Ada Vell.")
    assert (exact.part, vague.part) == (1, 1)
    assert exact.problem().steps[0].difficulty + VAGUE == vague.problem().steps[0].difficulty


def test_what_is_about_the_question_and_asks_for_nothing_in_it_is_unclear() -> None:
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
    for position, harder in ((1, 0.0), (2, MISPLACED)):
        text = PARTS[position].question
        usual, writer = (QuestionRequest(task(), PARTS, text, role).problem() for role in ("generalist", "query"))
        assert writer.steps[-1].difficulty == usual.steps[-1].difficulty + harder
    assert QuestionRequest(task(), PARTS, None, "query").problem() == problem_of(task())


def test_no_nonsense_gives_the_answer_of_a_problem_in_mathematics() -> None:
    for one in MathSource().tasks("test")[::25]:
        for text in NONSENSE:
            problem = QuestionRequest(one, parts_of(one), text).problem()
            assert problem.steps[problem.targets[0]].answer != one.communicate[0][0] or text == "1 + 1"
