"""Attacks and rephrasings, on the mini domain."""

from __future__ import annotations

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.judging.attacks import Context, attacks
from toolorchestra.toolscale.judging.trial import AttackReport, try_attacks


def test_wrong_answers_are_tried_with_the_reference_calls_and_with_none(mini: Domain) -> None:
    ticks: list[None] = []
    report = try_attacks(mini, mini.tasks(), lambda: ticks.append(None))
    assert len(ticks) == len(mini.tasks())
    for kind in ("denial", "hedge", "parrot", "one word", "answer of another branch", "rivals appended"):
        assert report.tried[kind] == report.tried[f"{kind}, nothing done"] > 0
        assert report.paid[f"{kind}, nothing done"] == 0
    assert {"every write twice", "another entity", "nothing done", "reads only"} <= set(report.tried)
    assert len(report.rephrased) >= 11  # and formats of dates, money, times and number words, where answers have them


def test_a_report_passes_within_its_bounds_and_adds_up() -> None:
    report = AttackReport()
    report.tried["denial"], report.paid["denial"] = 200, 1
    report.rephrased["order"], report.accepted["order"] = 100, 99
    assert report.passed
    other = AttackReport()
    other.tried["denial"], other.paid["denial"] = 10, 5
    report.add(other)
    assert (report.tried["denial"], report.paid["denial"], report.passed) == (210, 6, False)


def test_a_value_as_it_was_before_the_change_is_tried(mini: Domain) -> None:
    task = next(task for task in mini.tasks() if task.intent == "ask_price")
    expected = mini.verifier.reference(task).answer
    price = float(task.communicate[0][0])
    context = Context(task, expected, [], [], [], [(price + 5, price)])
    earlier = [text for kind, text in attacks(context) if kind == "value before the change"]
    assert earlier == [task.answer.replace(task.communicate[0][0], f"{price + 5:.2f}")]
