"""Evaluations: tasks, simulated and real attempts, and their rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from statistics import mean

import pytest

from toolorchestra.agents.chat.base import BatchError, Completion, ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.evaluation import ExpertTask, ask, graded_tasks, read_tasks, simulate
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.toolscale.common.errors import ExpertError, OptionError

TASKS = [
    ExpertTask(key="a", instruction="What is 6 times 7?", answer="42", subject="math", steps=2),
    ExpertTask(key="b", instruction="Half of one?", answer=r"\frac{1}{2}", subject="math"),
]


def expert() -> SimulatedExpert:
    return Catalog.load().simulated("qwen3-8b")


def test_a_simulated_expert_is_right_as_often_as_its_error_model_says():
    tasks = [ExpertTask(key=str(i), instruction="?", answer="1", subject="math", steps=4) for i in range(1000)]
    evaluations = simulate(expert(), tasks)
    chance = expert().spec.chance("math", 0.0, 4) ** 4
    assert mean(evaluation.right for evaluation in evaluations) == pytest.approx(chance, abs=0.06)
    assert all(evaluation.text.endswith("Answer: 1") == evaluation.right for evaluation in evaluations)


def test_notes_lower_the_share_of_right_answers():
    def share(notes: int) -> float:
        tasks = [ExpertTask(key=str(i), instruction="?", answer="1", steps=2, notes=notes) for i in range(800)]
        return mean(evaluation.right for evaluation in simulate(expert(), tasks))

    assert share(1) == pytest.approx(share(0) * (1 - expert().spec.deceived), abs=0.06)


def test_samples_differ_and_repeat():
    evaluations = simulate(expert(), TASKS, samples=3, seed=5)
    assert [(evaluation.task.key, evaluation.sample) for evaluation in evaluations] == [
        (key, i) for key in "ab" for i in range(3)
    ]
    assert evaluations == simulate(expert(), TASKS, samples=3, seed=5)
    assert len({evaluation.seconds for evaluation in evaluations}) == 6


def test_a_real_expert_is_asked_for_a_boxed_answer_and_judged_exactly():
    chat = ScriptedChat(
        [Completion(r"So \boxed{42}.", [], 11, 7, 0.1, 2.5), "I guess 43.", r"\boxed{0.5}", r"\boxed{2}"], name="m"
    )
    evaluations = ask(chat, "ada", TASKS, samples=2, seed=9, temperature=0.7, max_tokens=50, role="math")
    assert [evaluation.right for evaluation in evaluations] == [True, False, True, False]
    assert [request.seed for request in chat.requests] == [9, 10, 9, 10]
    assert {(request.temperature, request.max_tokens) for request in chat.requests} == {(0.7, 50)}
    assert chat.requests[0].messages[-1]["content"] == "What is 6 times 7?"
    row = evaluations[0].row
    assert (row.expert, row.key, row.subject, row.steps, row.role) == ("ada", "a", "math", 2, "math")
    assert (row.tokens, row.seconds, row.prompt_tokens, row.right) == (7, 2.5, 11, True)
    assert evaluations[1].row.seconds is None  # a scripted answer takes no time


def test_a_failed_request_is_no_wrong_answer():
    with pytest.raises(BatchError, match="down"):
        ask(ScriptedChat(["x", ExpertError("down")]), "ada", TASKS)


def test_graded_tasks_are_spread_over_subjects_lengths_and_difficulties():
    tasks = graded_tasks(210, noted=0.5)
    assert set(Counter(task.subject for task in tasks).values()) == {30}
    assert {task.steps for task in tasks} == {1, 2, 4, 8}
    assert {task.difficulty for task in tasks} == {0.0, 1.0, 2.0}
    assert 60 < sum(task.notes for task in tasks) < 150
    assert len({task.key for task in [*tasks, *graded_tasks(10, seed=1)]}) == 220
    assert graded_tasks(5) == graded_tasks(10)[:5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"key": "a", "instruction": "?"}\n', r"t\.jsonl:1: expected a task .*`answer`"),
        ('{"key": "a", "instruction": "?", "answer": "1"}\n' * 2, r"t\.jsonl:2: .*a key of its own, got 'a' again"),
        ("", "holds no task"),
    ],
)
def test_a_line_that_is_no_task_is_named(tmp_path: Path, text: str, message: str):
    (tmp_path / "t.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(OptionError, match=message):
        read_tasks(tmp_path / "t.jsonl")
