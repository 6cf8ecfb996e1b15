"""What is asked in a domain decides what an expert says: the next step, a step by name, another call, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from answering import right

from toolorchestra.agents.experts.specification import Role
from toolorchestra.agents.experts.trades import MISPLACED, MISTAKES
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.agents.policies.scripted_questions import NONSENSE, PLAIN, named as named_call
from toolorchestra.agents.problems import Step
from toolorchestra.envs.ground_truth.domain_steps import NAMED, step_asked
from toolorchestra.envs.ground_truth.parts import level_difficulty
from toolorchestra.envs.ground_truth.wording import BESIDE, UNCLEAR, UNKNOWN
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.task import Call, Task
from toolorchestra.toolscale.tool import ToolContext


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

    def ask(self, text: str | None, role: Role | None = None) -> Step:
        play = self.env.unwrapped.play
        scene = ToolContext(
            play.session, play.task, play.world, play.episode, play.messages, play.tools, typed=play.typed
        )
        (step,) = step_asked(play.world, scene, text, role).steps
        return step


def make_by_name(desk: Desk, call: Call) -> None:
    """Ask for the step that is due by its name, which must be easier than asking for the whole, and make it."""
    whole = desk.ask(None)
    step = desk.ask(f"I need this now. {named_call(desk.env.unwrapped.play.tools[call.name], call)}")
    assert step.answer == write_calls([call])
    assert step.difficulty == pytest.approx(whole.difficulty - NAMED)
    desk.make(call)


@pytest.fixture
def desk(make_env: Callable[..., Any]) -> Desk:
    return Desk(make_env())


@pytest.mark.parametrize("text", [*PLAIN, "Continue.", "Help me with this request, please."])
def test_whoever_asks_what_comes_next_is_told(desk: Desk, text: str) -> None:
    task = desk.begin("order_twice")
    whole = desk.ask(None)
    assert whole.answer == write_calls(task.reference_calls[:1])
    assert desk.ask(text) == whole == desk.ask(task.instruction)


@pytest.mark.parametrize("text", [*NONSENSE, "next", "banana", "   "])
def test_whoever_asks_nonsense_is_told_nothing_of_the_work(desk: Desk, text: str) -> None:
    task = desk.begin("order_twice")
    for call in (None, *task.reference_calls):
        if call is not None:
            desk.make(call)
        step = desk.ask(text)
        for said in (step.answer, *step.wrong):
            assert "<tool_call>" not in said
            assert said != right(desk.env)


def test_a_step_that_is_asked_for_by_name_is_easier_than_one_that_must_be_found(desk: Desk) -> None:
    for intent in ("ask_price", "order_twice", "drop_order"):
        task = desk.begin(intent)
        for call in task.reference_calls:
            make_by_name(desk, call)


def test_without_its_values_it_is_no_easier(desk: Desk) -> None:
    task = desk.begin("order_twice")
    step = desk.ask("Look up the customer by name.")
    assert step.answer == write_calls(task.reference_calls[:1])
    assert step.difficulty == desk.ask(None).difficulty


def test_people_are_known_by_their_names(desk: Desk, mini: Domain) -> None:
    task = desk.begin("order_twice")
    desk.make(task.reference_calls[0])
    first = task.reference_calls[1]
    (name,) = mini.database.base.execute(
        "SELECT name FROM customers WHERE customer_id = ?", (first.arguments["customer_id"],)
    ).fetchone()
    step = desk.ask(f"Make an order for {name}: soup and pie, price 9.")
    assert step.answer == write_calls([first])
    assert step.difficulty < desk.ask(None).difficulty


def test_a_later_step_is_not_told_before_its_values_can_be_known(desk: Desk) -> None:
    task = desk.begin("order_twice")
    step = desk.ask("Make an order of soup and pie with price 9.")
    assert step.answer == write_calls(task.reference_calls[:1])


def test_another_call_is_what_was_asked_for_and_not_what_is_due(desk: Desk) -> None:
    task = desk.begin("ask_price")
    due = str(task.reference_calls[0].arguments["order_id"])
    other = "O001" if due != "O001" else "O002"
    assert desk.ask(f"Look up the order {other}.").answer == write_calls([Call("get_order", {"order_id": other})])
    assert desk.ask(f"Cancel the order {due}.").answer == write_calls([Call("cancel_order", {"order_id": due})])
    assert desk.ask("How many orders are there? Count the number of orders.").answer == write_calls(
        [Call("count_orders", {})]
    )
    assert desk.ask("Give the order a coupon.").answer == UNCLEAR


def test_a_call_that_was_made_is_made_again_if_it_is_asked_for(desk: Desk) -> None:
    task = desk.begin("order_twice")
    desk.make(task.reference_calls[0])
    assert desk.ask("Look up the customer by name.").answer == write_calls(task.reference_calls[:1])


def test_a_sum_is_worked_out(desk: Desk) -> None:
    desk.begin("order_twice")
    assert desk.ask("What is 9 + 4?").answer == "13"


def test_the_final_answer_is_told_once_its_facts_are_known(desk: Desk) -> None:
    task = desk.begin("ask_price")
    assert desk.ask("Write the final answer to the user.").answer == UNKNOWN
    desk.make(*task.reference_calls)
    assert desk.ask("Write the final answer to the user.").answer == right(desk.env)
    assert desk.ask("What comes next?").answer == right(desk.env)


@pytest.mark.parametrize(
    ("role", "intent", "place", "harder"),
    [
        ("generalist", "ask_price", 0, 0.0),
        ("query", "ask_price", 0, 0.0),
        ("code", "ask_price", 0, MISPLACED),
        ("math", "ask_price", 0, MISPLACED),
        ("code", "drop_order", 0, 0.0),
        ("query", "drop_order", 0, MISPLACED),
        ("math", "drop_order", 0, MISPLACED),
    ],
)
def test_work_that_does_not_suit_a_trade_is_harder_and_goes_wrong_in_its_own_way(
    desk: Desk, role: Role, intent: str, place: int, harder: float
) -> None:
    task = desk.begin(intent)
    call = task.reference_calls[place]
    words = f"Go: {named_call(desk.env.unwrapped.play.tools[call.name], call)}"
    step, plain = desk.ask(words, role), desk.ask(words)
    assert step.answer == plain.answer == write_calls([call])
    assert step.difficulty == pytest.approx(plain.difficulty + harder)
    assert (step.wrong[0] == MISTAKES[role]) is bool(harder)


@pytest.mark.parametrize("role", ["code", "math", "query"])
def test_whoever_delegates_the_whole_asks_the_model_and_not_its_trade(desk: Desk, role: Role) -> None:
    desk.begin("order_twice")
    assert desk.ask(None, role) == desk.ask("What should I do next?", role) == desk.ask(None)


@pytest.mark.parametrize(
    "text",
    ["'; DROP TABLE orders; --", "\ud800", "<tool_call>{}</tool_call>", "O001 " * 1600, "order_id " * 800, "#" * 9],
)
def test_hostile_questions_are_answered_without_a_reference_call(desk: Desk, text: str) -> None:
    task = desk.begin("order_twice")
    assert desk.ask(text).answer not in [write_calls([call]) for call in task.reference_calls]


def test_answers_beside_the_subject_solve_no_task(make_env: Callable[..., Any], mini: Domain) -> None:
    env = make_env()
    for task in mini.tasks():
        env.reset(options={"task_id": task.id})
        play = env.unwrapped.play
        for text in (*BESIDE, UNCLEAR, UNKNOWN, *MISTAKES.values()):
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
        assert desk.ask(None).answer == write_calls([msgspec.structs.replace(call, stage=0)])
        desk.make(call)
    assert desk.ask(None).answer == right(desk.env)


def test_an_id_that_is_found_in_another_way_needs_no_look_up(asked: tuple[Desk, Task], named: Domain) -> None:
    desk, task = asked
    customer = task.lookups[1].arguments["customer_id"]
    desk.make(Call("list_orders", {"customer_id": customer, "most": 19}))
    assert desk.ask(None).answer == write_calls(task.reference_calls)
    name = str(task.lookups[0].arguments["name"])
    again = desk.ask(f"{named_call(named.tools['get_customer'], task.lookups[0])} It is {name}.")
    assert again.answer == write_calls([task.lookups[0]]), "whoever asks for it by name still gets it"


def test_a_look_up_that_was_made_is_not_proposed_again(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    desk.make(*task.lookups[:1], *task.lookups[:1])
    assert desk.ask(None).answer == write_calls([task.lookups[1]])


def test_what_an_expert_proposes_shows_no_id(make_env: Callable[..., Any], named_folder: Path) -> None:
    env = make_env(domain=named_folder, tools="full")
    desk = Desk(env)
    tasks = [task for task in env.unwrapped.source.tasks("all") if task.intent == "ask_price"]
    task = desk.begin("ask_price", next(number for number, task in enumerate(tasks) if task.lookups))
    expert = next(name for name in env.unwrapped.play.tools if name.startswith("ask_"))
    words = f"Look up the order {task.bindings['order_id']}."
    env.step([{"name": expert, "arguments": {"question": words}}])
    (call,) = env.unwrapped.episode.calls
    assert call.value == {"call": {"name": "get_order", "arguments": {"order_id": task.bindings["order_id"]}}}
    assert desk.ask(None).answer == write_calls([task.lookups[0]])


def test_a_look_up_can_be_asked_for_by_name(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    for call in task.whole_path:
        make_by_name(desk, call)


def test_a_call_whose_id_is_not_known_is_not_told_before_the_look_up(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    step = desk.ask("Look up the order, please.")
    assert step.answer == write_calls([task.lookups[0]])
    order = task.bindings["order_id"]
    assert desk.ask(f"Look up the order {order}.").answer == write_calls(task.reference_calls)


def test_mistakes_do_not_give_away_what_a_look_up_finds(asked: tuple[Desk, Task]) -> None:
    desk, task = asked
    order = task.bindings["order_id"]
    assert write_calls(task.lookups[1:]) not in desk.ask(None).wrong
    desk.make(task.lookups[0])
    assert write_calls(task.reference_calls) not in desk.ask(None).wrong
    assert order not in desk.ask(None).answer


def test_a_look_up_and_the_same_for_the_next_entry_are_as_hard_as_a_task_of_one_call(
    asked: tuple[Desk, Task], make_env: Callable[..., Any]
) -> None:
    desk, task = asked
    hard = msgspec.structs.replace(task, difficulty=5)
    desk.env.unwrapped.play.task = hard
    assert desk.ask(None).difficulty == 0.0
    desk.make(*task.lookups)
    assert desk.ask(None).difficulty == level_difficulty(hard) > 0
    desk = Desk(make_env())
    task = desk.begin("order_twice")
    desk.env.unwrapped.play.task = msgspec.structs.replace(task, difficulty=5)
    harder = []
    for call in task.reference_calls:
        harder.append(desk.ask(None).difficulty > 0)
        desk.make(call)
    assert [call.name for call in task.reference_calls] == ["get_customer", "make_order", "make_order", "get_order"]
    assert harder == [True, True, False, True]
