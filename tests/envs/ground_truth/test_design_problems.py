from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.problems import GroundTruth, Problem, Step
from toolorchestra.envs.ground_truth.design_problems import (
    ADOPTED,
    BELIEVED,
    CERTAIN,
    READ,
    AgentProblem,
    DesignProblems,
    ReadingModel,
)
from toolorchestra.envs.ground_truth.parts import SubProblem
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.sources.questions import make_question
from toolorchestra.toolscale.tasks.task import Task

PARTS = (
    SubProblem("Who wrote the play The Idle Workshop?", "Hanne Sentov", ("Oda Gorne",), difficulty=0.5),
    SubProblem("Where was Hanne Sentov born?", "Helduk", ("Molmo", "Borrim"), (0,), 0.5),
    SubProblem("How many people live in Helduk?", "1200", ("900",), (1,), 0.5, note="7"),
)


def question_task(**bindings: Any) -> Task:
    return make_question(
        id="q/1", domain="q", intent="i", split="test", difficulty=3, answers=["1200"], parts=PARTS, subject="search",
        question="How many people live in the town where the author of The Idle Workshop was born?", **bindings,
    )  # fmt: skip


def posed(task: Task, given: dict[str, str], *agents: Agent, about: str = "Z") -> AgentProblem:
    edges = tuple((parent, agent.id) for agent in agents for parent in agent.references)
    design = Design(dom="high", thinking="A test.", agents=agents, edges=edges)
    return DesignProblems(task, [design.agent(one) for one in design.order]).problem_of(design.agent(about), given)


AUTHOR = Agent("AUTHOR", "CoTAgent", "Who wrote the play The Idle Workshop?")
BORN = Agent("BORN", "CoTAgent", "Find out: where was ${AUTHOR} born?")


def test_an_agent_without_input_is_asked_the_whole_question() -> None:
    found = posed(question_task(), {}, Agent("Z", "CoTAgent"))
    assert (found.problem.key, len(found.problem.steps), found.problem.targets) == ("q/1", 3, (2,))
    assert found.queries == tuple(part.question for part in PARTS)


def test_an_input_that_is_a_sub_question_asks_that_alone() -> None:
    found = posed(question_task(), {}, AUTHOR, Agent("Z", "CoTAgent", "Use ${AUTHOR}"), about="AUTHOR")
    assert found.problem.key == "q/1#0"
    assert [step.answer for step in found.problem.steps] == ["Hanne Sentov"]


def test_what_is_read_is_taken_over_more_easily_than_found_out_and_what_is_wrong_stays_wrong() -> None:
    task = question_task()
    right = posed(task, {"AUTHOR": "Hanne Sentov"}, AUTHOR, BORN, about="BORN").problem
    adopted_step = ("Hanne Sentov", (), ADOPTED, READ)
    assert [(one.answer, one.needs, one.difficulty, one.subject) for one in right.steps] == [
        adopted_step,
        ("Helduk", (0,), 0.5, None),
    ]
    wrong = posed(task, {"AUTHOR": "Oda Gorne"}, AUTHOR, BORN, about="BORN").problem
    assert wrong.steps[0] == Step("Hanne Sentov", ("Oda Gorne",), difficulty=CERTAIN, subject=READ, read=True)
    assert wrong.steps[1] == right.steps[1]


def test_what_an_agent_hands_on_can_be_misread() -> None:
    (passed_on, _) = posed(question_task(), {"AUTHOR": "Hanne Sentov"}, AUTHOR, BORN, about="BORN").problem.steps
    spec = msgspec.structs.replace(Catalog.load().spec("qwen2.5-7b"), skills={"other": 0.1})
    clumsy = SimulatedExpert("clumsy", spec)
    right = sum(clumsy.solve(Problem(f"passed_on{number}", "search", (passed_on,))).solved for number in range(400))
    assert 360 < right < 400


def test_a_needed_result_that_is_not_given_is_a_step() -> None:
    alone = Agent("Z", "CoTAgent", "Where was Hanne Sentov born?")
    found = posed(question_task(), {}, alone).problem
    assert [step.answer for step in found.steps] == ["Hanne Sentov", "Helduk"]
    assert found.steps[1].needs == (0,)
    assert found.targets == (1,)


def test_the_whole_question_is_easier_when_its_parts_are_given() -> None:
    final = Agent("Z", "CoTAgent", "The town is ${BORN}. Answer.")
    found = posed(question_task(), {"BORN": "Helduk"}, AUTHOR, BORN, final).problem
    assert [step.answer for step in found.steps] == ["Helduk", "1200"]
    assert (found.key, found.targets) == ("q/1", (1,))


def test_answers_to_the_same_are_candidates() -> None:
    agents = (Agent("A", "CoTAgent"), Agent("B", "SCAgent"), Agent("Z", "CoTAgent", "Compare ${A} and ${B}."))
    found = posed(question_task(), {"A": "1200", "B": "900"}, *agents)
    assert found.candidates == ("1200", "900")
    assert len(found.problem.steps) == 3


def test_a_sub_question_beside_its_answer_is_information_not_a_question() -> None:
    town = Agent("Z", "CoTAgent", f"{PARTS[1].question} Known: {PARTS[0].question} ${{AUTHOR}}")
    found = posed(question_task(), {"AUTHOR": "Hanne Sentov"}, AUTHOR, town).problem
    assert [found.steps[target].answer for target in found.targets] == ["Helduk"]
    review = Agent("Z", "CoTAgent", f"Check the answer to: {PARTS[0].question} ${{AUTHOR}}")
    assert posed(question_task(), {"AUTHOR": "Oda Gorne"}, AUTHOR, review).candidates == ("Oda Gorne",)


def test_an_agent_with_several_targets_collects_given_results() -> None:
    task = question_task(targets=[0, 2])
    number = Agent("NUMBER", "CoTAgent", PARTS[2].question)
    collect = Agent("Z", "CoTAgent", f"Report:\n{PARTS[0].question} ${{AUTHOR}}\n{PARTS[2].question} ${{NUMBER}}")
    found = posed(task, {"AUTHOR": "Oda Gorne", "NUMBER": "1200"}, AUTHOR, number, collect)
    assert found.candidates == ()
    assert [(step.answer, step.wrong, step.difficulty) for step in found.problem.steps] == [
        ("Hanne Sentov", ("Oda Gorne",), CERTAIN),
        ("1200", ("900",), ADOPTED),
    ]
    assert found.problem.targets == (0, 1)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("Ignore notes that claim a result.", True),
        ("Notes in the text may be wrong.", True),
        ("Be sure to check the note.", True),
        ("Take note of every number.", False),
        ("Answer.", False),
    ],
)
def test_a_warning_of_notes_has_an_agent_doubt_them(text: str, warned: bool) -> None:
    found = posed(question_task(), {}, Agent("Z", "CoTAgent", text)).problem
    assert [step.warned for step in found.steps] == [False, False, warned]
    assert found.steps[2].note == "7"


def test_the_answer_to_a_sum_is_no_candidate_for_the_question() -> None:
    agents = (Agent("A", "CoTAgent", "What is 3 * 4?"), Agent("Z", "CoTAgent", "Check ${A} and answer."))
    found = posed(question_task(), {"A": "12"}, *agents)
    assert found.candidates == ()
    assert len(found.problem.steps) == len(posed(question_task(), {}, Agent("Z", "CoTAgent", "")).problem.steps)


@pytest.mark.parametrize(
    "text",
    [
        "Write down what is given, relation by relation, and what follows.",
        "Check these results and answer: ${A}",
        "Ignore notes that claim a result without deriving it; they may be wrong.",
        "Look up the facts that the question needs.",
        "Compare the answers below and give the one that is best supported.\nAnswer of A: ${A}",
        "Identify the key entities and relationships.",
        "What is the weather in Paris?",
        "asdf",
        "${A}",
    ],
)
def test_an_instruction_that_names_no_part_is_about_the_whole_question(text: str) -> None:
    read = (Agent("A", "CoTAgent", ""),) if "${A}" in text else ()
    found = posed(
        question_task(), dict.fromkeys((agent.id for agent in read), "1200"), *read, Agent("Z", "CoTAgent", text)
    )
    assert found.problem.targets == (2,)
    assert found.candidates == ("1200",) * len(read)


def test_an_input_that_asks_for_a_sum_is_told_the_sum() -> None:
    found = posed(question_task(), {"A": "3"}, Agent("A", "CoTAgent", ""), Agent("Z", "CoTAgent", "Compute ${A} + 4."))
    assert found.problem.steps[-1].answer == "7"


def test_a_question_of_unknown_steps_is_always_the_whole() -> None:
    task = make_question(
        id="q/2", domain="q", intent="i", split="test", difficulty=2, question="What is it?", answers=["4"]
    )
    agents = (Agent("A", "CoTAgent", "What is it?"), Agent("Z", "CoTAgent", "Check ${A}"))
    found = posed(task, {"A": "5"}, *agents)
    assert (found.candidates, found.queries, found.problem.key) == (("5",), (), "q/2")


def test_who_has_read_answers_reviews_one_and_chooses_among_several() -> None:
    ground_truth = GroundTruth(Problem.chain("q", "math", 1, "4"))

    def passed_on(model: ReadingModel, ground_truth: GroundTruth | None) -> GroundTruth | None:
        model.complete([ChatRequest([{"role": "user", "content": "?"}], ground_truth=ground_truth)])
        return chat.requests[-1].ground_truth

    chat = ScriptedChat(lambda request: "4")
    for candidates, review, act in ((("4",), True, "review"), (("4",), False, "choose"), (("4", "5"), True, "choose")):
        found = passed_on(ReadingModel(chat, candidates, review=review), ground_truth)
        assert found is not None
        assert (found.act, found.candidates) == (act, candidates)
    reading = ReadingModel(chat, ("4",))
    assert (reading.name, reading.meter) == (chat.name, chat.meter)
    assert passed_on(reading, None) is None
    query = GroundTruth(ground_truth.problem, "query")
    assert passed_on(reading, query) == query


def test_an_answer_that_is_reviewed_is_a_claim_about_the_step() -> None:
    def claims(answer: str, *steps: Step) -> list[tuple[str | None, float | None]]:
        problem = Problem("q", "math", steps, tuple(range(len(steps))))
        chat = ScriptedChat(lambda request: "4")
        request = ChatRequest(
            [{"role": "user", "content": "Right?"}], ground_truth=GroundTruth(problem, "review", (answer,))
        )
        ReadingModel(chat).complete([request])
        found = chat.requests[-1].ground_truth
        assert found is not None
        return [(step.note, step.trust) for step in found.problem.steps]

    assert claims("5", Step("4")) == [("5", BELIEVED)]
    assert claims("5", Step("4", note="9")) == [("9", None)]  # a note says otherwise already
    assert claims("5, 6", Step("4"), Step("6")) == [("5", BELIEVED), ("6", BELIEVED)]
    assert claims("I do not know", Step("4"), Step("6")) == [(None, None)] * 2
