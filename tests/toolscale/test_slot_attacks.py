"""Changed slots and other spellings, of hand-made answers and of the mini domain."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.toolscale.answers.typed_answers import AnswerSlot, TypedAnswer, judge_typed, readings
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks import verify as verification
from toolorchestra.toolscale.validation.slot_attacks import attempts, neighbours_of, slots_of, spellings, wrong_answers
from toolorchestra.toolscale.validation.verifier_attacks import try_attacks


def one(slot: AnswerSlot, right: set[str], value: Any) -> TypedAnswer:
    return TypedAnswer((slot,), ((frozenset(right),),), (value,))


PAID = one(AnswerSlot("paid", ("money",), "USD"), {"#1234.5", "#1234.5 USD"}, 1234.5)
DAY = one(AnswerSlot("day", ("date",)), {"@2025-12-31"}, "2025-12-31")
TIME = one(AnswerSlot("from", ("time",)), {"~19:30"}, "19:30")
WHO = one(AnswerSlot("who", ("name",), nullable=True), {"=anita rao", "=rao, anita"}, "Anita Rao")
TRAINS = TypedAnswer(
    (AnswerSlot("trains", ("id",), several=True),), ((frozenset(("=c83",)), frozenset(("=x46",))),), (["C83", "X46"],)
)
DONE = TypedAnswer(
    (AnswerSlot("outcome", options=("cannot be done", "done")), AnswerSlot("left", ("number",), nullable=True)),
    ((frozenset(("=done",)),), (frozenset(("none",)),)),
    ("done", None),
)
LEFT = one(AnswerSlot("left", ("number",), nullable=True), {"none"}, None)
ANSWERS = [PAID, DAY, TIME, WHO, TRAINS, DONE, LEFT]


def values(typed: TypedAnswer, kind: str, neighbours: Any = None) -> list[Any]:
    """Return what stands in the last slot in the wrong answers of a kind."""
    found = [text for name, text, _ in wrong_answers(typed, neighbours or {}, "key") if name == kind]
    return [json.loads(text)["answer"][typed.slots[-1].name] for text in found]


@pytest.mark.parametrize(
    ("typed", "kind", "expected"),
    [
        (PAID, "number off by one", [1235.5, 1233.5, "1235.5"]),
        (PAID, "sign", [-1234.5]),
        (PAID, "a or b", ["1234.5 or something else", "something else or 1234.5"]),
        (PAID, "not a", ["not 1234.5"]),
        (PAID, "at least a", ["at least 1234.5"]),
        (PAID, "null", [None]),
        (PAID, "list", [[1234.5]]),
        (PAID, "two values", [[1234.5, "something else"]]),
        (PAID, "wrong type", [True, "one"]),
        (DAY, "date off by one", ["2026-01-01", "January 1, 2026", "2025-12-30", "December 30, 2025"]),
        (TIME, "time off", ["19:31", "19:29", "07:30"]),
        (TRAINS, "list cut off", [["C83"]]),
        (TRAINS, "item twice", [["C83", "X46", "C83"]]),
        (LEFT, "null", []),
        (LEFT, "not a", ["not none"]),
        (LEFT, "wrong type", [0, "one"]),
    ],
)
def test_one_slot_is_changed_in_each_wrong_way(typed: TypedAnswer, kind: str, expected: list[Any]) -> None:
    assert values(typed, kind) == expected


def test_values_of_other_tasks_and_all_other_outcomes_are_tried_unless_they_are_right() -> None:
    others = [one(PAID.slots[0], {"#7"}, 7), one(PAID.slots[0], {"#1234.5", "#1234.5 USD"}, "$1,234.50"), PAID]
    neighbours = neighbours_of(others)
    assert neighbours == {"paid": [7, "$1,234.50", 1234.5]}
    assert values(PAID, "value of another task", neighbours) == [7]
    texts = [text for kind, text, _ in wrong_answers(DONE, {}, "key") if kind == "another outcome"]
    assert texts == ['{"answer":{"outcome":"cannot be done","left":null}}']


def test_slots_are_left_out_added_and_repeated() -> None:
    found = {kind: text for kind, text, _ in wrong_answers(PAID, {}, "key")}
    assert found["slot missing"] == '{"answer":{}}'
    assert found["unknown slot"] == '{"answer":{"paid":1234.5,"note":"x"}}'
    assert found["slot twice"] == '{"answer":{"paid":1234.5,"paid":1234.5}}'
    assert found["answer twice"] == '{"answer":{},"answer":{"paid":1234.5}}'
    assert found["slot twice, once wrong"] == '{"answer":{"paid":1234.5,"paid":"x"}}'


@pytest.mark.parametrize(
    ("typed", "spelled"),
    [
        (PAID, ["1234.5", "1,234.50", "$1,234.50", "1234.50 USD"]),
        (DAY, ["December 31, 2025", "31 December 2025", "Wednesday, December 31, 2025"]),
        (TIME, ["7:30 pm"]),
        (WHO, ["ANITA RAO", "anita rao", "  Anita Rao "]),
        (TRAINS, [["X46", "C83"], ["C83", "X46"], ["c83", "x46"], ["  C83 ", "  X46 "]]),
        (DONE, ["none"]),
    ],
)
def test_right_values_are_spelled_in_the_ways_of_their_types(typed: TypedAnswer, spelled: list[Any]) -> None:
    name, value = typed.slots[-1].name, typed.values[-1]
    texts = [text for kind, text in spellings(typed) if kind != "in a block of code"]
    found = [json.loads(text)["answer"][name] for text in texts[3:]]
    assert [other for other in found if other != value or isinstance(value, list)] == spelled


@pytest.mark.parametrize("typed", ANSWERS, ids=lambda typed: typed.slots[-1].name)
def test_attempts_are_judged_as_they_are_labelled(typed: TypedAnswer) -> None:
    tried = list(attempts(typed, {"paid": [7], "who": ["Ben Oh", None], "left": [3]}, "key"))
    assert len(tried) > 20
    assert [attempt for attempt in tried if attempt.right is bool(judge_typed(attempt.text, typed))] == []
    assert tried == list(attempts(typed, {"paid": [7], "who": ["Ben Oh", None], "left": [3]}, "key"))


def test_which_neighbours_are_tried_depends_on_the_key_alone() -> None:
    neighbours = {"paid": list(range(100))}
    first, again, other = (list(wrong_answers(PAID, neighbours, key)) for key in ("a", "a", "b"))
    assert first == again != other


def accepts_everything(text: str, typed: TypedAnswer) -> list[str]:
    return []


def takes_the_first_number(text: str, typed: TypedAnswer) -> list[str]:
    """Judge a value by the words in it that read as right, as one that looks for mentions would."""
    try:
        found = json.loads(text)["answer"]
        words = [[word, *str(word).split()] for word in (found[slot.name] for slot in typed.slots)]
    except (ValueError, KeyError, TypeError):
        return ["no"]
    pairs = zip(words, typed.right, strict=True)
    right = all(not r or any(not r[0].isdisjoint(readings(word)) for word in w) for w, r in pairs)
    return [] if right else ["no"]


def takes_the_last_of_two(text: str, typed: TypedAnswer) -> list[str]:
    """Judge what a plain JSON parser makes of keys that stand there twice."""
    try:
        return judge_typed(json.dumps(json.loads(text)), typed)
    except ValueError:
        return judge_typed(text, typed)


@pytest.mark.parametrize(
    ("broken", "kinds"),
    [
        (accepts_everything, {"null", "slot missing", "value of another task", "unknown slot", "a or b"}),
        (takes_the_first_number, {"a or b", "not a", "at least a", "maybe a"}),
        (takes_the_last_of_two, {"slot twice", "answer twice"}),
    ],
)
def test_a_comparison_that_is_too_loose_is_found_out(
    mini: Domain, judge_by: Callable[..., None], broken: Callable[..., Any], kinds: set[str]
) -> None:
    judge_by(broken)
    report = try_attacks(mini, mini.tasks())
    assert not report.passed
    assert kinds <= {kind for kind, paid in report.paid.items() if paid}
    assert all(report.examples[kind] for kind in kinds)


@pytest.mark.parametrize("strict", ["1,234.50 is text", "capitals"])
def test_a_comparison_that_is_too_strict_is_found_out(mini: Domain, judge_by: Callable[..., None], strict: str) -> None:
    def exact(text: str, typed: TypedAnswer) -> list[str]:
        plain = {typed.written(), json.dumps(json.loads(typed.written()), indent=2)}
        return [] if text in plain else [strict]

    judge_by(exact)
    report = try_attacks(mini, mini.tasks())
    assert not report.passed
    assert report.accepted["as it is"] == report.rephrased["as it is"]
    assert report.accepted["number as text"] < report.rephrased["number as text"]


def test_a_sound_comparison_passes_and_nothing_done_is_never_paid(mini: Domain) -> None:
    report = try_attacks(mini, mini.tasks())
    assert report.passed
    assert report.paid.total() == 0
    assert report.accepted == report.rephrased
    assert report.tried["as it is, nothing done"] > 30
    assert report.examples == {}


def test_a_verifier_that_overlooks_the_effects_is_found_out(mini: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_completeness", lambda *_: ())
    monkeypatch.setattr(verification.Verifier, "_execution", lambda *_: ())
    report = try_attacks(mini, mini.tasks())
    assert report.paid["as it is, nothing done"] == report.tried["as it is, nothing done"]
    assert not report.passed


def test_tasks_that_are_not_the_domains_own_have_slots_too(mini: Domain) -> None:
    slots = slots_of(mini.with_tasks([], {}), mini.tasks())
    assert slots.of(mini.tasks()[0]) == slots_of(mini, ()).of(mini.tasks()[0])
