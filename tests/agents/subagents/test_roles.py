"""ParaManager's roles: who sees the history, and what each is worth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.problems import Problem, Step
from toolorchestra.agents.subagents import (
    SubAgentQuestion,
    critical_reviewer,
    ensemble_solver,
    final_answer,
    standard_reasoner,
)

HISTORY = "Assistant: I ask code_reasoner.\nResult: 55"


@pytest.mark.parametrize(
    ("role", "sees"),
    [(standard_reasoner, False), (ensemble_solver, False), (critical_reviewer, True), (final_answer, True)],
)
def test_only_reviewer_and_summariser_see_the_history(role: Any, sees: bool) -> None:
    chat = ScriptedChat(lambda request: r"\boxed{55}")
    reply = role(chat, SubAgentQuestion("What is the sum?", history=HISTORY))
    assert reply.answer == "55"
    for request in chat.requests:
        content = request.messages[1]["content"]
        assert (f"<conversation_history>\n{HISTORY}\n</conversation_history>" in content) is sees
        assert content.endswith("<user_query>\nWhat is the sum?\n</user_query>")


def test_an_ensemble_is_four_samples_at_once_and_their_majority() -> None:
    chat = ScriptedChat([r"\boxed{45}", r"\boxed{21}", "<answer>21.0", r"\boxed{7}"])
    reply = ensemble_solver(chat, SubAgentQuestion("How many?"))
    assert (reply.answer, len(reply.children)) == ("21", 4)
    assert {child.start for child in reply.children} == {0.0}


def test_the_summariser_is_greedy() -> None:
    chat = ScriptedChat([r"\boxed{45}"])
    final_answer(chat, SubAgentQuestion("How many?"))
    assert chat.requests[0].temperature == 0.0


def test_without_marks_there_is_a_text_and_no_answer() -> None:
    reply = critical_reviewer(ScriptedChat(["The code leaves out leading zeros."]), SubAgentQuestion("How many?"))
    assert (reply.text, reply.answer) == ("The code leaves out leading zeros.", "")


def test_a_review_corrects_what_is_wrong_often_and_spoils_what_is_right_seldom(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float]
) -> None:
    model = simulated(skills={"other": 0.95})
    review = functools.partial(critical_reviewer, model)
    alone = share(functools.partial(standard_reasoner, model), 5)
    assert share(review, 5, candidates=("13",)) > max(0.55, alone + 0.05)
    assert share(review, 5, candidates=("12",)) > 0.93


def test_another_models_review_helps_more_than_ones_own(simulated: Callable[..., SimulatedChat]) -> None:
    ada, bob = (simulated(name, own_noise=0.6, skills={"other": 0.95}) for name in ("ada", "bob"))
    corrected = {"ada": 0, "bob": 0}
    for number in range(600):
        problem = Problem.chain(f"p{number}", "math", 3, "12", ("13", "14", "15"))
        answer = standard_reasoner(ada, SubAgentQuestion("What is it?", problem, seed=number)).answer
        for model in (ada, bob):
            question_asked = SubAgentQuestion("Is it?", problem, candidates=(answer,), seed=number)
            corrected[model.name] += answer != "12" and critical_reviewer(model, question_asked).answer == "12"
    assert corrected["bob"] > 1.3 * corrected["ada"]


def test_the_summariser_follows_a_clear_majority_and_else_its_own_view(
    simulated: Callable[..., SimulatedChat], share: Callable[..., float]
) -> None:
    conclude = functools.partial(final_answer, simulated())
    assert share(conclude, 4, candidates=("12", "13", "12", "12")) > 0.93
    assert share(conclude, 4, candidates=("12", "13", "13", "13")) < 0.1
    assert 0.4 < share(conclude, 4, candidates=("12", "13")) < 0.9
    assert share(conclude, 4) == share(functools.partial(standard_reasoner, simulated(), temperature=0.0), 4)


def test_passages_in_the_history_are_read_by_the_roles_that_see_it(simulated: Callable[..., SimulatedChat]) -> None:
    def right(role: Any, evidence: str) -> int:
        problems = (Problem(f"p{i}", "search", (Step("Thornby", ("Elmby",)),)) for i in range(200))
        question_asked = (
            SubAgentQuestion("Where?", one, ("Where was Ada born?",), evidence=evidence, seed=3) for one in problems
        )
        return sum(role(simulated(), question).answer == "Thornby" for question in question_asked)

    passages = "Ada Lovelace was born in Thornby."
    assert right(final_answer, passages) > 160 > 100 > right(final_answer, "")
    assert right(standard_reasoner, passages) == right(standard_reasoner, "") < 100
