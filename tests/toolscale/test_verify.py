from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.database.format import DomainSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks import verify as verification
from toolorchestra.toolscale.tasks.net_changes import net_changes
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tasks.verify import Verdict, Verifier
from toolorchestra.toolscale.tools.tool import Status

Step = tuple[str, dict[str, Any]]
Judge = Callable[..., Verdict]

AN_ORDER = "make_order", {"customer_id": "C02", "dishes": ["soup", "pie"], "price": 9}
ANOTHER = "make_order", {"customer_id": "C03", "dishes": ["cake"], "price": 4}


def note(body: str, order_id: str = "O001", **reply: int) -> Step:
    return "write_note", {"order_id": order_id, "body": body, **reply}


@pytest.fixture(scope="module")
def judge(mini: Domain) -> Judge:
    """Judge calls, and an answer, against reference calls."""

    def judged(
        reference_calls: list[Step],
        made: list[Step],
        *,
        say: str = "",
        communicate: Any = (),
        alternatives: Any = (),
        request: str = "",
    ) -> Verdict:
        task = Task(
            id=f"mini/test/{reference_calls}{alternatives}{communicate}{request}",
            domain="mini",
            intent="test",
            split="train",
            difficulty=1,
            instruction=request,
            reference_calls=tuple(Call(*step) for step in reference_calls),
            alternatives=tuple(tuple(Call(*step) for step in path) for path in alternatives),
            communicate=communicate,
            answer="",
        )
        session = mini.session()
        for name, arguments in made:
            tool = mini.tools[name]
            assert session.call(tool, tool.decode(msgspec.json.encode(arguments))).status is Status.OK
        verdict = mini.verify(task, session, say)
        session.close()
        return verdict

    return judged


def criteria(verdict: Verdict) -> set[str]:
    return {failure.criterion for failure in verdict.failures}


def test_the_reference_trajectory_is_right(judge: Judge) -> None:
    verdict = judge([AN_ORDER, ANOTHER], [AN_ORDER, ANOTHER])
    assert verdict.solved
    assert str(verdict) == "solved"


def test_independent_inserts_may_come_in_another_order(judge: Judge) -> None:
    assert judge([AN_ORDER, ANOTHER], [ANOTHER, AN_ORDER]).solved


def test_swapped_references_are_wrong(judge: Judge) -> None:
    swapped = [
        (AN_ORDER[0], {**AN_ORDER[1], "dishes": ["cake"]}),
        (ANOTHER[0], {**ANOTHER[1], "dishes": ["soup", "pie"]}),
    ]
    assert criteria(judge([AN_ORDER, ANOTHER], swapped)) == {"execution"}


def test_replies_to_new_notes_are_compared_by_what_they_reply_to(judge: Judge) -> None:
    first, second = note("Salt?", "O002"), note("Pepper?", "O003")
    reference_calls = [first, second, note("No.", "O005", reply_to=5), note("Yes.", "O006", reply_to=6)]
    renamed = [second, first, note("Yes.", "O006", reply_to=5), note("No.", "O005", reply_to=6)]
    swapped = [second, first, note("Yes.", "O006", reply_to=6), note("No.", "O005", reply_to=5)]
    assert judge(reference_calls, renamed).solved
    assert criteria(judge(reference_calls, swapped)) == {"execution"}


def test_a_chain_of_new_rows_is_compared_whole(judge: Judge) -> None:
    chain = [note("a"), *(note("a", reply_to=5 + i) for i in range(4))]
    star = [note("a"), *(note("a", reply_to=5) for _ in range(4))]
    assert judge(chain, chain).solved
    assert judge(star, star).solved
    assert criteria(judge(chain, star)) == {"execution"}
    assert criteria(judge(star, chain)) == {"execution"}


@pytest.mark.parametrize(
    "made",
    [
        [],
        [AN_ORDER],
        [AN_ORDER, AN_ORDER],
        [AN_ORDER, ANOTHER, ANOTHER],
        [AN_ORDER, (ANOTHER[0], {**ANOTHER[1], "price": 4.01})],
        [AN_ORDER, ANOTHER, ("cancel_order", {"order_id": "O030"})],
        [AN_ORDER, ANOTHER, ("move_order", {"order_id": "O030", "customer_id": "C00"})],
    ],
)
def test_any_other_net_change_is_wrong(judge: Judge, made: list[Step]) -> None:
    assert criteria(judge([AN_ORDER, ANOTHER], made)) == {"execution"}


def test_a_verdict_names_the_row(judge: Judge) -> None:
    move = "move_order", {"order_id": "O001", "customer_id": "C05"}
    other = "move_order", {"order_id": "O001", "customer_id": "C06"}
    stray = "move_order", {"order_id": "O002", "customer_id": "C06"}
    cancel = "cancel_order", {"order_id": "O001"}
    wanted = "should be (order_id='O001', customer_id='C05'"
    assert f"orders['O001'] was left as it was, and {wanted}" in str(judge([move], []))
    assert "orders['O001'] is (order_id='O001', customer_id='C06'" in str(judge([move], [other]))
    assert wanted in str(judge([move], [other]))
    assert "orders['O002'] should not have become: (order_id='O002'" in str(judge([move], [move, stray]))
    assert [failure.entry for failure in judge([move], [move, stray]).failures] == [("orders", "O002")]
    assert "a new row of orders is missing: (customer_id='C02'" in str(judge([AN_ORDER], []))
    assert "a new row of orders should not be there" in str(judge([], [AN_ORDER]))
    assert "orders['O001'] was left as it was, and should be deleted" in str(judge([cancel], []))


def test_changes_that_were_taken_back_do_not_count(judge: Judge, mini: Domain) -> None:
    home = mini.database.row("orders", "O001")
    assert home is not None
    back = [("move_order", {"order_id": "O001", "customer_id": customer}) for customer in ("C09", home[1])]
    made_and_cancelled = [AN_ORDER, ("cancel_order", {"order_id": "O041"})]
    assert judge([AN_ORDER], [*made_and_cancelled, *back, AN_ORDER]).solved


def test_free_text_is_compared_as_words_and_ignored_columns_not_at_all(judge: Judge) -> None:
    reference_calls = [note("No salt, and 12 EUR.")]
    assert judge(reference_calls, [note("no salt and 12.00 eur")]).solved
    assert judge([note("a", "O001"), note("b", "O002")], [note("b", "O002"), note("a", "O001")]).solved
    assert criteria(judge(reference_calls, [note("no salt and 13 eur")])) == {"execution"}
    assert criteria(judge(reference_calls, [note("No salt, and 12 EUR.", "O002")])) == {"execution"}


def test_any_of_several_reference_trajectories_is_right(judge: Judge) -> None:
    cancel, move = ("cancel_order", {"order_id": "O001"}), ("move_order", {"order_id": "O001", "customer_id": "C00"})
    for made, solved in (([cancel], True), ([move], True), ([], False), ([move, cancel], True), ([AN_ORDER], False)):
        assert judge([cancel], made, alternatives=[[move]]).solved == solved


def test_the_answer_must_mention_all_information(judge: Judge) -> None:
    facts = (("$1,234.50",), ("soup", "broth"))
    for say, solved in (
        ("It is 1234.5 for the broth", True),
        ("It is 1234.5 for the pie", False),
        ("Soup!", False),
        ("", False),
    ):
        verdict = judge([AN_ORDER], [AN_ORDER], say=say, communicate=facts)
        assert verdict.solved == solved
        assert solved or criteria(verdict) == {"fidelity"}
    assert "the user was not told 'soup' or 'broth'" in str(verdict)


def test_every_entry_of_the_reference_trajectory_must_be_operated_on(judge: Judge) -> None:
    look, other = ("get_order", {"order_id": "O001"}), ("get_order", {"order_id": "O002"})
    assert judge([look], [look, other]).solved
    assert criteria(judge([look], [other])) == {"completeness"}
    assert criteria(judge([look], [])) == {"completeness"}
    assert "orders['O001'] was not looked up, and no result shows anything of it" in str(judge([look], []))
    assert "no call was for orders['O030']" in str(judge([("cancel_order", {"order_id": "O030"})], []))


TO_KEITH = "move_order", {"order_id": "O002", "customer_id": "C17"}
WORK_OUT = "calculator", {"expression": "17.5 + 1"}


@pytest.mark.parametrize(
    ("later", "communicate", "made", "not_seen"),
    [
        # what the answer tells, or a later call takes, must be shown
        ([], (("$17.50",),), ("list_orders", {}), None),
        ([], (("$17.50",),), ("list_orders", {"day": "2025-07-10"}), "it with its price"),
        ([], (("soup",),), ("list_orders", {}), "it with its dishes"),
        ([TO_KEITH], (), ("list_orders", {}), "it with its customer_id"),
        # a search by customer need not repeat the customer
        ([TO_KEITH], (), ("list_orders", {"customer_id": "C17"}), None),
        ([TO_KEITH], (), ("list_orders", {"customer_id": "C05"}), "it with its customer_id"),
        ([WORK_OUT], (("18.50",),), ("list_orders", {}), None),
        ([WORK_OUT], (("18.50",),), ("list_orders", {"day": "2025-07-10"}), "it with its price"),
        # where something is derived, anything of it is enough, but not its id alone
        ([], (("expensive",),), ("list_orders", {}), None),
        ([], (("expensive",),), ("list_orders", {"day": "2025-07-10"}), "anything of it"),
        ([], (("expensive",),), ("count_orders", {}), "anything of it"),
    ],
)
def test_what_a_search_shows_counts_as_looked_up(
    judge: Judge, later: list[Step], communicate: Any, made: Step, not_seen: str | None
) -> None:
    look = "get_order", {"order_id": "O001"}
    say = " ".join(phrase for (phrase,) in communicate)
    verdict = judge([look, *later], [made, *later], communicate=communicate, say=say)
    message = f"completeness: orders['O001'] was not looked up, and no result shows {not_seen}"
    assert str(verdict) == (message if not_seen else "solved")


def test_an_id_in_the_arguments_alone_shows_nothing_of_its_entry(judge: Judge) -> None:
    look = "get_customer", {"name": "Keith"}
    verdict = judge([look], [("list_orders", {"customer_id": "C17"})])
    assert str(verdict) == "completeness: customers['C17'] was not looked up, and no result shows anything of it"


def test_what_the_request_or_an_earlier_result_gives_need_not_be_shown_again(judge: Judge) -> None:
    look, search, known = ("get_order", {"order_id": "O001"}), ("list_orders", {}), ("get_customer", {"name": "Keith"})
    assert criteria(judge([look, TO_KEITH], [search, TO_KEITH])) == {"completeness"}
    assert judge([look, TO_KEITH], [search, TO_KEITH], request="Give O002 to C17.").solved
    assert judge([known, look, TO_KEITH], [known, search, TO_KEITH]).solved


def test_an_entry_that_was_to_be_written_is_not_met_by_seeing_it(judge: Judge) -> None:
    move = "move_order", {"order_id": "O001", "customer_id": "C05"}
    assert criteria(judge([move], [("get_order", {"order_id": "O001"})])) == {"execution"}
    verdict = judge([move], [("list_orders", {})])
    assert criteria(verdict) == {"execution", "completeness"}
    assert "completeness: no call was for orders['O001']" in str(verdict)


def test_an_entry_written_is_operated_on(judge: Judge) -> None:
    look, move = ("get_order", {"order_id": "O001"}), ("move_order", {"order_id": "O001", "customer_id": "C00"})
    assert judge([look, move], [move]).solved


def test_all_criteria_that_fail_are_named(judge: Judge) -> None:
    look = "get_order", {"order_id": "O001"}
    verdict = judge([look, AN_ORDER], [], communicate=(("12",),))
    assert criteria(verdict) == {"execution", "fidelity", "completeness"}


@given(
    st.permutations([AN_ORDER, ANOTHER, note("x", "O002"), note("y", "O003"), ("cancel_order", {"order_id": "O030"})])
)
def test_any_order_of_independent_calls_is_right(judge: Judge, made: list[Step]) -> None:
    reference_calls = [AN_ORDER, ANOTHER, note("x", "O002"), note("y", "O003"), ("cancel_order", {"order_id": "O030"})]
    assert judge(reference_calls, made).solved


def test_verifying_changes_nothing(mini: Domain) -> None:
    session = mini.session()
    task = mini.tasks()[0]
    assert mini.verify(task, session, "") == mini.verify(task, session, "")
    assert session.touched() == {}
    session.close()


def test_a_reference_trajectory_that_errs_is_a_task_error(judge: Judge) -> None:
    with pytest.raises(TaskError, match=r"The reference call get_order.*errs: No order O999"):
        judge([("get_order", {"order_id": "O999"})], [])


@pytest.mark.parametrize("refuses", [True, False])
def test_being_refused_by_a_guard_counts_where_the_right_answer_is_a_refusal(mini: Domain, refuses: bool) -> None:
    task = Task(
        id=f"mini/refused/{refuses}",
        domain="mini",
        intent="refused",
        split="train",
        difficulty=1,
        instruction="",
        reference_calls=(Call("get_customer", {"name": "Garrett"}),),
        answer="",
        refuses=refuses,
    )
    session = mini.session()
    assert criteria(mini.verify(task, session, "")) == {"completeness"}
    order = mini.tools["make_order"]
    raw = msgspec.json.encode({"customer_id": "C02", "dishes": [], "price": 9})
    assert session.call(order, order.decode(raw)).status is Status.EXEC_ERR
    assert (session.operated, session.refused) == (set(), {("customers", "C02")})
    assert mini.verify(task, session, "").solved is refuses
    again = mini.session()
    again.restore(session.snapshot())
    assert mini.verify(task, again, "").solved is refuses
    session.reset()
    assert session.refused == set()
    session.close()
    again.close()


def test_an_answer_is_read_once_and_as_prose_and_typed_apart(mini: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(task for task in mini.tasks() if task.intent == "ask_price")
    typed, reference = mini.slots.of(task), Verifier(mini.database, mini.tools).reference(task)
    right = typed.written()
    read: list[str] = []
    judge = verification.judge_typed
    monkeypatch.setattr(verification, "judge_typed", lambda text, slots: read.append(text) or judge(text, slots))
    assert [reference.fidelity(right, typed) for _ in range(3)] == [()] * 3
    assert read == [right]
    assert reference.fidelity("{}", None) != ()  # as prose
    assert "expected an object" in reference.fidelity("{}", typed)[0].message
    for number in range(20):
        reference.fidelity(f"{number}", typed)
    assert len(reference.judged) == 8
    assert reference.fidelity(right + " " * 3_000, typed) == ()


def test_json_is_compared_as_the_value_that_it_holds() -> None:
    columns = {"k": {"type": "TEXT"}, "v": {"type": "TEXT", "compare": "json"}}
    table = {"columns": columns, "primary_key": "k", "rows": [{"k": "a", "v": '{"x":1,"y":[2,0.5]}'}]}
    spec = {"name": "json", "title": "JSON", "description": "", "today": "2025-07-23", "tables": {"t": table}}
    domain = Domain(msgspec.convert({**spec, "tools": {}}, DomainSpec))

    def changes(text: str) -> bool:
        return bool(net_changes(domain.database, {"t": {"a": ("a", text)}}))

    assert not changes('{"y": [2.0, 0.5], "x": 1.0}')
    assert changes('{"x":1,"y":[0.5,2]}')
    assert changes('{"x":"1","y":[2,0.5]}')
