from __future__ import annotations

from typing import Any

import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task


def test_a_refused_task_moves_no_cent(domain: Domain, tasks: list[Task]) -> None:
    refused = [task for task in tasks if task.refuses]

    assert not [t.id for t in refused if any(domain.tools[call.name].effect == "write" for call in t.reference_calls)]


def test_the_first_instalment_pays_a_months_interest_and_the_rest_of_the_payment(domain: Domain) -> None:
    # 18,000 at 6.90 % a year: 18,000 * 0.069 / 12 = 103.50; the payment is 805.09, so 701.59 go to the principal
    assert domain.database.base.execute(
        "SELECT principal_cents, interest_cents FROM instalments WHERE loan_id = 'L801' AND number = 1"
    ).fetchone() == (70159, 10350)


def test_an_overdue_instalment_costs_the_late_fee_as_well(domain: Domain, session: Any) -> None:
    # L802: instalment 10 was due on September 10: 387.09, and 25.00 late
    before = session.do("get_account", account="A4113")["ledger"]

    assert session.do("pay_instalment", loan="L802") == {"loan": "L802", "number": 10, "paid": 412.09}
    assert round(before - session.do("get_account", account="A4113")["ledger"], 2) == 412.09


def test_early_repayment_costs_one_percent_of_the_principal_left(domain: Domain, session: Any) -> None:
    loan = session.do(
        "get_loan", loan="L803"
    )  # 12,000 at 7.50 %, 540.00 a month: after 19 of 24 months 2,650.00 are left

    repaid = session.do("repay_loan", loan="L803")

    assert (loan["overdue_total"], loan["principal_then"]) == (0, loan["remaining"])
    assert (repaid["principal"], repaid["fee"]) == (2650.00, 26.50)
    assert "no running loan" in str(session.call(domain.tools["pay_instalment"], {"loan": "L803"}).error)


def test_a_payment_abroad_costs_half_a_percent_and_8_dollars_at_least(domain: Domain, session: Any) -> None:
    # 1,000 * 1.1742 = 1,174.20, of which 0.5 % are 5.87; 12,500 * 0.7236 = 9,045.00, of which they are 45.23
    few = session.do("convert_currency", currency="EUR", amount=1000)
    many = session.do("convert_currency", currency="CAD", amount=12500)

    assert (few["dollars"], few["fee"], few["total"]) == (1174.20, 8.00, 1182.20)
    assert (many["dollars"], many["fee"], many["total"]) == (9045.00, 45.23, 9090.23)


def test_the_proceeds_of_a_sale_are_held_until_it_settles(domain: Domain, session: Any) -> None:
    # 10 WRLD at 118.90: 1,189.00 less the least commission, 5.00; Tuesday, October 14 + 2 business days: Thursday
    before = session.do("get_account", account="A4168")
    traded = session.do("place_trade", account="A4168", symbol="WRLD", side="sell", quantity=10)
    after = session.do("get_account", account="A4168")

    assert (traded["commission"], traded["settles"]) == (5.00, "2025-10-16")
    assert round(after["ledger"] - before["ledger"], 2) == 1184.00
    assert after["available"] == before["available"]


def test_a_transfer_keeps_every_cent(domain: Domain, session: Any) -> None:
    total = "SELECT sum(balance_cents) FROM accounts"
    before = session.connection.execute(total).fetchone()

    for _ in range(10):
        session.do("transfer", customer="C105", account="A4113", to="A4149", amount=0.1)

    assert session.connection.execute(total).fetchone() == before
    assert round(12067.74 - session.do("get_account", account="A4113")["ledger"], 2) == 1.00


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("pay_payee", {"account": "A4113", "payee": "P762", "amount": 500.01}, "less than 3 days ago"),
        ("pay_payee", {"account": "A4113", "payee": "P762", "amount": 10.005}, "more than two decimals"),
        ("open_dispute", {"transaction": "T2139", "reason": "fraud"}, "too late"),  # of June 12, 124 days ago
        ("open_dispute", {"transaction": "T2150", "reason": "duplicate"}, "too late"),  # of June 27, 109 days ago
        ("withdraw_notice", {"notice": "N919", "to": "A4101"}, "not run yet"),  # runs until tomorrow
        ("transfer", {"customer": "C101", "account": "A4113", "to": "A4149", "amount": 1}, "may not give orders"),
        ("set_card_limit", {"card": "D501", "limit": 9000}, "does not allow a limit of 9000"),
        ("set_account_status", {"account": "A4156", "status": "active"}, "open or confirmed"),
        ("repay_loan", {"loan": "L802"}, "must be paid first"),
    ],
)
def test_what_the_rules_forbid_is_refused_and_changes_nothing(
    domain: Domain, session: Any, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    assert reason in session.refusal(tool, **arguments)


def test_a_fraud_is_contested_for_120_days_and_credited_at_once(domain: Domain, session: Any) -> None:
    found = session.do("open_dispute", transaction="T2150", reason="fraud")  # of June 27, 109 days ago

    assert found["credited"] == 677.03


def test_the_other_source_of_a_transfer_is_right_too(domain: Domain, tasks: list[Task], session: Any) -> None:
    task = next(task for task in tasks if task.intent == "top_up_brokerage")

    assert domain.replay(task, task.alternatives[0], task.answer, session).solved
    assert not domain.replay(task, [*task.reference_calls, task.alternatives[0][-1]], task.answer, session).solved


@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ("UPDATE accounts SET balance_cents = balance_cents + 1 WHERE account_id = 'A4113'", "add up"),
        (
            "UPDATE instalments SET principal_cents = principal_cents + 1 WHERE loan_id = 'L801' AND number = 3",
            "exactly",
        ),
        ("UPDATE trades SET settles = '2025-12-31' WHERE trade_id = 'X601'", "second business day"),
        ("UPDATE disputes SET opened = '2025-12-31' WHERE dispute_id = 'Q401'", "in time"),
    ],
)
def test_a_planted_error_breaks_a_rule(domain: Domain, session: Any, planted: str, rule: str) -> None:
    assert not session.broken_rules()
    session.connection.execute(planted)
    assert any(rule in name for name in session.broken_rules())


def test_records_keep_their_rules_whatever_is_written(session: Any) -> None:
    assert session.write_at_random(6000) > 300
    assert not session.broken_rules()
