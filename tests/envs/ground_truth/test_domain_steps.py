"""What an expert says in a domain follows from what it is given: the next step, a step by name, or what is lacking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from answering import right

from toolorchestra.agents.experts.specialties import HARDER_OUTSIDE, MISTAKES
from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.agents.policies.scripted_questions import UNINFORMED, named as named_call
from toolorchestra.agents.problems import Step
from toolorchestra.envs.ground_truth.domain_steps import GUESSED, NAMED, step_asked
from toolorchestra.envs.ground_truth.given import UNCLEAR, UNKNOWN, UNTOLD, Given
from toolorchestra.envs.tools.experts import shown_results
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import ToolContext


class Desk:
    """An episode of the mini domain, and what an expert would be asked at its present point."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def begin(self, intent: str, number: int = 0) -> Task:
        tasks = [task for task in self.env.unwrapped.source.tasks("all") if task.intent == intent]
        self.env.reset(seed=0, options={"task_id": tasks[number].id})
        return tasks[number]

    def make(self, *calls: Call) -> None:
        self.env.step([{"name": call.name, "arguments": call.arguments} for call in calls])

    def ask(self, question: str = "", role: Role | None = None, *, request: bool = False, results: str = "") -> Step:
        """Ask a question, with or without the request and `results`: ids of calls, or "all"."""
        play = self.env.unwrapped.play
        scene = ToolContext(
            play.session, play.task, play.world, play.episode, play.messages, play.tools, typed=play.typed
        )
        shown = shown_results(scene)
        named = shown if results == "all" else results.split()
        given = Given(question, play.task.instruction if request else "", {name: shown[name] for name in named})
        (step,) = step_asked(play.world, scene, given, role).steps
        return step

    def all(self, question: str = "", role: Role | None = None) -> Step:
        """Ask a question and show the whole conversation."""
        return self.ask(question, role, request=True, results="all")


def make_by_name(desk: Desk, call: Call) -> None:
    """Ask for the step that is due by its name, which must be easier than finding it in the conversation; make it."""
    whole = desk.all()
    step = desk.ask(f"I need this now. {named_call(desk.env.unwrapped.play.tools[call.name], call)}")
    assert step.answer == write_calls([call])
    assert step.difficulty == pytest.approx(whole.difficulty - NAMED)
    desk.make(call)


@pytest.fixture
def desk(make_env: Callable[..., Any]) -> Desk:
    return Desk(make_env())


@pytest.mark.parametrize("text", [*UNINFORMED[:-2], "", "Continue."])
def test_whoever_is_shown_everything_says_what_comes_next_whatever_the_words(desk: Desk, text: str) -> None:
    task = desk.begin("order_twice")
    assert desk.all(text).answer == write_calls(task.reference_calls[:1])
    desk.make(task.reference_calls[0])
    assert desk.all(text).answer == write_calls([task.reference_calls[1]])


@pytest.mark.parametrize("text", [*UNINFORMED, ""])
def test_whoever_is_told_nothing_says_nothing_of_the_work(desk: Desk, text: str) -> None:
    task = desk.begin("order_twice")
    for call in (None, *task.reference_calls):
        if call is not None:
            desk.make(call)
        step = desk.ask(text)
        for said in (step.answer, *step.wrong):
            assert "<tool_call>" not in said
            assert said != right(desk.env)


def test_the_request_alone_is_enough_for_a_step_that_it_names(desk: Desk) -> None:
    task = desk.begin("order_twice")
    first, second = task.reference_calls[:2]
    assert desk.ask(request=True).answer == write_calls([first]) == desk.ask(task.instruction).answer
    desk.make(first)
    lacking = desk.ask(request=True)
    assert lacking.answer == "I was not told customer_id."
    assert write_calls([second]) not in lacking.wrong, "what it was not told it cannot even guess"
    assert desk.ask(request=True, results="call_1").answer == write_calls([second])


def test_values_without_a_purpose_leave_it_to_be_guessed(desk: Desk) -> None:
    task = desk.begin("order_twice")
    desk.make(task.reference_calls[0])
    call = task.reference_calls[1]
    whole = desk.all()
    values = f"{call.arguments['customer_id']}, soup, pie, 9"
    guessed = desk.ask(values)
    assert guessed.answer == write_calls([call])
    assert guessed.difficulty == pytest.approx(whole.difficulty + GUESSED)
    assert desk.ask("help", results="call_1").answer != write_calls([call]), "the result alone lacks dishes and price"


def test_whoever_lists_all_that_there_is_has_not_said_what_is_meant(desk: Desk, mini: Domain) -> None:
    task = desk.begin("drop_order")
    (call,) = task.reference_calls[:1]
    every = " ".join(str(value) for value in mini.database.values("orders.order_id"))
    for words in (
        f"Cancel the order. {every}",
        f"Look up the order. {every}",
        f"Storniere bitte etwas: {every}",
        every,
    ):
        assert desk.ask(words).answer == UNCLEAR
        assert desk.ask(words, request=True).answer == write_calls([call])
        assert desk.ask(words, request=True).difficulty == desk.all().difficulty, "it is not named either"


def test_a_step_that_is_asked_for_by_name_is_easier_than_one_that_must_be_found(desk: Desk) -> None:
    for intent in ("ask_price", "order_twice", "drop_order"):
        task = desk.begin(intent)
        for call in task.reference_calls:
            make_by_name(desk, call)


@pytest.mark.parametrize(
    "words",
    [
        "Make an order: {0}, soup and pie, price 9.",
        "9 is the price. Dishes: pie and soup. For {0}, mkae an ordr.",
        "Bitte lege eine Bestellung an: Kunde {0}, soup und pie, zu 9 Dollar.",
        "Passe une commande pour {0} : soup et pie, prix 9.",
    ],
)
def test_order_spelling_and_language_do_not_matter_if_the_values_stand_there(desk: Desk, words: str) -> None:
    task = desk.begin("order_twice")
    desk.make(task.reference_calls[0])
    call = task.reference_calls[1]
    whole = desk.all()
    step = desk.ask(words.format(call.arguments["customer_id"]))
    assert step.answer == write_calls([call])
    assert step.difficulty == pytest.approx(whole.difficulty - NAMED)


def test_without_its_values_a_question_does_not_do(desk: Desk) -> None:
    desk.begin("order_twice")
    assert desk.ask("Look up the customer by name.").answer == "I was not told name."
    assert "<tool_call>" not in desk.ask("Mach bitte eine neue Bestellung.").answer


def test_of_several_steps_that_are_due_the_one_that_is_meant_is_posed(desk: Desk) -> None:
    task = desk.begin("order_twice")
    desk.make(task.reference_calls[0])
    first, second = task.reference_calls[1:3]
    assert desk.all().answer == write_calls([first])
    assert desk.all("Make an order of cake for 4.").answer == write_calls([first]), "it does not name all of the second"
    customer = second.arguments["customer_id"]
    assert desk.all(f"Make an order of cake with price 4 for {customer}.").answer == write_calls([second])


def test_a_sum_is_worked_out(desk: Desk) -> None:
    desk.begin("order_twice")
    assert desk.ask("What is 9 + 4?").answer == "13"


def test_the_answer_needs_its_facts_and_the_request(desk: Desk) -> None:
    task = desk.begin("ask_price")
    desk.make(*task.reference_calls)
    assert desk.all("Write the final answer to the user.").answer == right(desk.env) == desk.all().answer
    assert desk.ask("And now?", results="all").answer == right(desk.env)
    assert desk.ask("And now?", results="all").difficulty == pytest.approx(desk.all().difficulty + GUESSED)
    assert desk.ask("And now?").answer == UNCLEAR
    assert desk.ask("And now?", request=True).answer == "I was not told the results."
    assert desk.ask("Write the final answer to the user.").answer == "I was not told the results."


@pytest.mark.parametrize(
    ("role", "intent", "place", "harder"),
    [
        ("generalist", "ask_price", 0, 0.0),
        ("query", "ask_price", 0, 0.0),
        ("code", "ask_price", 0, HARDER_OUTSIDE),
        ("math", "ask_price", 0, HARDER_OUTSIDE),
        ("code", "drop_order", 0, 0.0),
        ("query", "drop_order", 0, HARDER_OUTSIDE),
        ("math", "drop_order", 0, HARDER_OUTSIDE),
    ],
)
def test_work_that_does_not_suit_a_trade_is_harder_and_goes_wrong_in_its_own_way(
    desk: Desk, role: Role, intent: str, place: int, harder: float
) -> None:
    task = desk.begin(intent)
    call = task.reference_calls[place]
    words = f"Go: {named_call(desk.env.unwrapped.play.tools[call.name], call)}"
    for ask, text in ((desk.ask, words), (desk.all, "")):
        step, plain = ask(text, role), ask(text)
        assert step.answer == plain.answer == write_calls([call])
        assert step.difficulty == pytest.approx(plain.difficulty + harder)
        assert (step.wrong[0] == MISTAKES[role]) is bool(harder)


@pytest.mark.parametrize(
    "text",
    ["'; DROP TABLE orders; --", "\ud800", "<tool_call>{}</tool_call>", "O001 " * 1600, "order_id " * 800, "#" * 9],
)
def test_hostile_questions_are_answered_without_a_reference_call(desk: Desk, text: str) -> None:
    task = desk.begin("order_twice")
    assert desk.ask(text).answer not in [write_calls([call]) for call in task.reference_calls]


def test_replies_that_propose_nothing_solve_no_task(make_env: Callable[..., Any], mini: Domain) -> None:
    env = make_env()
    for task in mini.tasks():
        env.reset(options={"task_id": task.id})
        play = env.unwrapped.play
        for text in (UNCLEAR, UNKNOWN, UNTOLD.format("name"), *MISTAKES.values()):
            assert not play.world.verify(task, play.session, text).solved


@pytest.fixture
def asked(make_env: Callable[..., Any], named_folder: Path) -> tuple[Desk, Task]:
    desk = Desk(make_env(domain=named_folder))
    tasks = [task for task in desk.env.unwrapped.source.tasks("all") if task.intent == "ask_price"]
    number = next(number for number, task in enumerate(tasks) if task.lookups)
    return desk, desk.begin("ask_price", number)


def test_a_look_up_is_due_until_the_id_that_it_finds_is_known(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    for call in task.whole_path:
        assert desk.all().answer == write_calls([msgspec.structs.replace(call, stage=0)])
        desk.make(call)
    assert desk.all().answer == right(desk.env)


def test_an_id_that_is_found_in_another_way_needs_no_look_up(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    customer = task.lookups[1].arguments["customer_id"]
    desk.make(Call("list_orders", {"customer_id": customer, "most": 19}))
    assert desk.all().answer == write_calls(task.reference_calls)


def test_a_look_up_that_was_made_is_not_proposed_again(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    desk.make(*task.lookups[:1], *task.lookups[:1])
    assert desk.all().answer == write_calls([task.lookups[1]])


def test_what_an_expert_proposes_shows_no_id(make_env: Callable[..., Any], named_folder: Path) -> None:
    env = make_env(domain=named_folder, tools="full")
    desk = Desk(env)
    tasks = [task for task in env.unwrapped.source.tasks("all") if task.intent == "ask_price"]
    task = desk.begin("ask_price", next(number for number, task in enumerate(tasks) if task.lookups))
    expert = next(name for name in env.unwrapped.play.tools if name.startswith("ask_"))
    words = f"Look up the order {task.bindings['order_id']}."
    env.step([{"name": expert, "arguments": {"question": words}}])
    assert desk.all().answer == write_calls([task.lookups[0]])


def test_a_look_up_can_be_asked_for_by_name(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    for call in task.whole_path:
        make_by_name(desk, call)


def test_a_call_whose_id_is_not_known_is_not_told_before_the_look_up(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    step = desk.all("Look up the order, please.")
    assert step.answer == write_calls([task.lookups[0]])
    order = task.bindings["order_id"]
    assert desk.ask(f"Look up the order {order}.").answer == write_calls(task.reference_calls)
