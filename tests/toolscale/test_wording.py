from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolorchestra.toolscale.answers.mentions import tokens
from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.format import IntentSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.wording import FRAMES, REGISTERS, WordScope, worded
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.expressions import placeholders

Broken = Callable[..., Domain]
Many = list[Task]

GIVEN = yaml.safe_load((Path(__file__).parents[1] / "data" / "named.yaml").read_text())
NAMES: dict[str, Any] = GIVEN["names"]
PRICE: dict[str, Any] = GIVEN["intents"]["ask_price"]


@pytest.fixture
def domain(named: Domain) -> Domain:
    return named


@pytest.fixture
def asked(domain: Domain) -> Many:
    return [task for task in domain.tasks() if task.intent == "ask_price"]


def without(**changes: Any) -> dict[str, Any]:
    return {**PRICE, **changes}


def test_requests_come_in_every_register_and_begin_with_a_capital(asked: Many) -> None:
    text = "\n".join(task.instruction for task in asked)
    for part in ("how much was it?", "Price of O", "Could you tell me", "y purse has a hole", "I need a receipt"):
        assert part in text
    assert all(task.instruction[0].isupper() for task in asked)


def test_what_is_tested_is_never_trained_on(asked: Many) -> None:
    for task in asked:
        assert ("How much did I pay for" in task.instruction) == (task.split == "test")


@pytest.mark.parametrize("register", REGISTERS)
def test_openings_and_closings_of_test_do_not_occur_in_train(register: Any) -> None:
    frames = FRAMES[register]
    for kind in ("openings", "closings", "introductions", "signatures"):
        train, test = (set(getattr(part, kind)) - {""} for part in (frames.train, frames.test))
        assert not train & test
        assert bool(train) == bool(test) == (register != "note" and (kind, register) != ("introductions", "email"))


def test_openings_and_closings_hold_nothing_that_could_be_taken_for_a_fact() -> None:
    for frames in FRAMES.values():
        for part in (frames.train, frames.test):
            for text in (*part.openings, *part.closings, *part.introductions, *part.signatures):
                assert set(placeholders(text)) <= {"speaker"}
                assert not [token for token in tokens(text) if token[0] in "#@~"], text


def test_a_note_stands_alone(asked: Many) -> None:
    notes = [task for task in asked if re.search(r"^Order O\d+, how much\?", task.instruction)]
    assert notes
    assert all(re.fullmatch(r"Order O\d+, how much\?", task.instruction) for task in notes)


def test_who_says_i_is_named_around_the_request(asked: Many, domain: Domain) -> None:
    sql = "SELECT name FROM customers JOIN orders USING (customer_id) WHERE order_id = ?"
    spoken = [task for task in asked if re.search(r"\bI (?:paid|pay|need)", task.instruction)]
    assert spoken
    for task in spoken:
        name = domain.database.base.execute(sql, [task.bindings["order_id"]]).fetchone()[0]
        assert task.instruction.count(name) == 1


def test_a_name_is_used_only_if_tools_lead_from_it_to_the_entry_alone(asked: Many, domain: Domain) -> None:
    session = domain.session()
    named = [task for task in asked if task.lookups]
    assert named
    for task in named:
        assert task.bindings["order_id"] not in task.instruction
        assert [call.name for call in task.lookups] == ["get_customer", "list_orders"]
        session.reset()
        rows = [domain.call(call, session).value for call in task.lookups][-1]
        assert task.bindings["order_id"] in [row["order_id"] for row in rows]
    session.close()


def test_an_entry_that_cannot_be_told_apart_is_called_by_its_id(asked: Many, domain: Domain) -> None:
    twins = "SELECT min(order_id), count(*) FROM orders GROUP BY customer_id, day HAVING count(*) > 1"
    found = [row[0] for row in domain.database.base.execute(twins)]
    assert found
    assert all(task.bindings["order_id"] in task.instruction for task in asked if task.bindings["order_id"] in found)


def test_lookups_do_not_spoil_the_task(asked: Many, domain: Domain) -> None:
    session = domain.session()
    for task in asked:
        assert domain.replay(task, task.whole_path, task.answer, session).solved
        stages = [call.stage for call in task.whole_path]
        assert stages == sorted(stages)
        assert len(set(stages[: len(task.lookups) + 1])) == len(task.lookups) + 1
    session.close()


def test_terms_follow_the_value_and_only_the_chosen_one_is_read(asked: Many) -> None:
    assert {task.answer.split(". ")[1].split()[2].rstrip(".,") for task in asked} == {"dear", "cheap"}
    assert all(task.answer.startswith("It was $") for task in asked)


def test_the_same_bindings_give_the_same_wording(domain: Domain, asked: Many) -> None:
    from toolorchestra.toolscale.domain_folder import make_domain

    assert [task for task in make_domain(domain.spec).tasks() if task.intent == "ask_price"] == asked


def test_a_request_must_state_what_the_look_up_takes(domain: Domain, asked: Many) -> None:
    from toolorchestra.toolscale.requests.wording import named_entries

    task = next(task for task in asked if task.lookups)
    intent, session = domain.spec.intents["ask_price"], domain.session()
    names = named_entries(domain, intent, task.bindings, session)
    session.close()
    found = worded(intent, task.bindings, names, "note", "{meal.price:money}?", "train", random.Random(0))
    assert "meal is found by" in str(found)
    assert "does not state" in str(found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terms": {"judged": {"dear": {"maybe": "."}}}}, "terms.judged: no text for"),
        ({"terms": {"judged": {"dear": {"else": "{judged}"}}}}, "terms.judged stands in its own text"),
        ({"instructions": {"terse": ["{meal.price:money}?"], "test": {"terse": ["x"]}}}, "no phrasing can be used"),
        ({"instructions": {"terse": ["How much?"]}}, "Expected a phrasing for the split test"),
        ({"instructions": {"shouted": ["HOW MUCH"]}}, "instructions"),
        ({"names": {"meal": {"order_by_smell": "$order_id"}}}, "Unknown way of naming 'order_by_smell'"),
        ({"names": {"meal": {"guest": "$a", "order_of": "$b"}}}, "Expected one entry, found 2"),
    ],
)
def test_mistakes_are_named(edited: Callable[..., Any], changes: dict[str, Any], message: str) -> None:
    from toolorchestra.toolscale.domain_folder import make_domain, read_spec

    edited("names", NAMES)
    folder = edited("intents.ask_price", without(**changes))
    try:
        found = "; ".join(make_domain(read_spec(folder), file=folder / "domain.yaml").dropped)
    except DomainError as error:
        found = str(error)
    assert message in found


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ({"table": "tables"}, "Unknown table 'tables'"),
        ({"table": "orders", "find": [{"call": "look_around"}]}, "Unknown tool 'look_around'"),
        ({"table": "orders", "find": [{"call": "cancel_order"}]}, "cancel_order writes; expected a tool that looks up"),
        ({"table": "orders", "phrase": "{name}'s order"}, "Unknown column 'name'"),
        (
            {"table": "orders", "says": "SELECT :who AS name", "phrase": "{name}'s order"},
            "A phrase needs `says` to take nothing but `:key` and `:today`",
        ),
    ],
)
def test_ways_of_naming_are_checked(broken: Broken, name: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=re.escape(message)):
        broken("names", {"order_of": name})


def test_names_of_a_list_of_entries_are_a_list() -> None:
    from toolorchestra.toolscale.requests.wording import NamedEntry

    intent = IntentSpec("", "", ["a", "b"], "", names={"guests": {"guest": "$ids"}})
    entries = [NamedEntry(key, {"name": key}, (), ()) for key in ("Ada", "Bo")]
    scope = WordScope({"ids": ["Ada", "Bo"]}, intent, {"guests": entries})
    assert Counter(row["name"] for row in scope["guests"]) == {"Ada": 1, "Bo": 1}
    assert scope.stated.names == {"guests"}


def test_what_a_reference_call_tells_may_be_said_without_looking_it_up(edited: Callable[..., Any]) -> None:
    from toolorchestra.toolscale.domain_folder import make_domain, read_spec

    says = "SELECT day, :dear AS dear FROM orders WHERE order_id = :key"  # with a binding of the task
    edited("names", {"order_told": {"table": "orders", "says": says, "from_call": True}})
    texts = {"terse": ["{meal.day:day}, {meal.dear}?"], "test": {"terse": ["{meal.day:day}, was it {meal.dear}?"]}}
    folder = edited(
        "intents.ask_price",
        without(
            names={"meal": {"order_told": "$order_id"}},
            instructions=texts,
            terms={},
            speaker="Ada",
            answer="It was {order.price:money}.",
        ),
    )
    tasks = [task for task in make_domain(read_spec(folder)).tasks() if task.intent == "ask_price"]
    assert tasks
    assert not any(task.lookups for task in tasks)
    assert all("Ada" in task.instruction and f"{task.bindings['dear']}?" in task.instruction for task in tasks)


def test_an_entry_that_a_result_lists_alone_is_found(edited: Callable[..., Any]) -> None:
    from toolorchestra.toolscale.requests.wording import _holds

    assert _holds({"hotel": "H01", "rooms": ["H01-D"]}, "H01-D")
    assert not _holds({"hotel": "H01", "rooms": ["H01-D", "H01-F"]}, "H01-D")
    assert _holds("H01-D", "H01-D")
