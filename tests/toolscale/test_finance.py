from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.session import Session
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Status


@pytest.fixture(scope="module")
def domain() -> Domain:
    return load_domain("finance")


@pytest.fixture(scope="module")
def tasks(domain: Domain) -> list[Task]:
    return domain.tasks()


@pytest.fixture
def session(domain: Domain) -> Iterator[Session]:
    session = domain.session()
    yield session
    session.close()


def do(domain: Domain, session: Session, name: str, **arguments: Any) -> Any:
    result = session.call(domain.tools[name], arguments_of(domain, name, arguments))
    assert result.status is Status.OK, result.error
    return result.value


def refusal(domain: Domain, session: Session, name: str, **arguments: Any) -> str:
    result = session.call(domain.tools[name], arguments_of(domain, name, arguments))
    assert result.status is Status.EXEC_ERR
    assert not session.touched()
    return str(result.error)


def arguments_of(domain: Domain, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return domain.tools[name].decode(msgspec.json.encode(arguments))


def broken(domain: Domain, session: Session) -> list[str]:
    today = {"today": domain.spec.today}
    return [rule.rule for rule in domain.spec.consistency if session.connection.execute(rule.sql, today).fetchall()]


def test_it_is_larger_than_the_papers(domain: Domain, tasks: list[Task]) -> None:
    assert len(domain.tools) >= 40
    assert domain.database.entries() >= 1700
    assert len(domain.spec.tables) >= 20
    assert len(domain.spec.consistency) >= 15
    assert len(domain.spec.intents) >= 50
    assert len(tasks) >= 1000


def test_tasks_are_of_all_levels_and_many_shapes(domain: Domain, tasks: list[Task]) -> None:
    levels = Counter(task.difficulty for task in tasks)

    assert min(levels[level] for level in range(1, 6)) >= 120
    assert sum(len(task.reference_calls) >= 8 for task in tasks) >= 0.12 * len(tasks)
    assert len({tuple(call.name for call in task.reference_calls) for task in tasks}) >= 100
    assert {call.name for task in tasks for call in task.reference_calls} == set(domain.tools)
    assert len({task.intent for task in tasks if task.split == "test_intents"}) >= 5


def test_what_is_right_often_depends_on_the_records_and_is_sometimes_a_refusal(tasks: list[Task]) -> None:
    assert sum(task.branches for task in tasks) >= 0.5 * len(tasks)
    assert sum(task.refuses for task in tasks) >= 0.15 * len(tasks)


def test_a_refused_task_moves_no_cent(domain: Domain, tasks: list[Task]) -> None:
    refused = [task for task in tasks if task.refuses]

    assert not [t.id for t in refused if any(domain.tools[call.name].effect == "write" for call in t.reference_calls)]


def test_the_first_instalment_pays_a_months_interest_and_the_rest_of_the_payment(domain: Domain) -> None:
    # 18,000 at 6.90 % a year: 18,000 * 0.069 / 12 = 103.50; the payment is 805.09, so 701.59 go to the principal
    assert domain.database.base.execute(
        "SELECT principal_cents, interest_cents FROM instalments WHERE loan_id = 'L801' AND number = 1"
    ).fetchone() == (70159, 10350)


def test_an_overdue_instalment_costs_the_late_fee_as_well(domain: Domain, session: Session) -> None:
    # L802: instalment 10 was due on September 10: 387.09, and 25.00 late
    before = do(domain, session, "get_account", account="A4113")["ledger"]

    assert do(domain, session, "pay_instalment", loan="L802") == {"loan": "L802", "number": 10, "paid": 412.09}
    assert round(before - do(domain, session, "get_account", account="A4113")["ledger"], 2) == 412.09


def test_early_repayment_costs_one_percent_of_the_principal_left(domain: Domain, session: Session) -> None:
    loan = do(
        domain, session, "get_loan", loan="L803"
    )  # 12,000 at 7.50 %, 540.00 a month: after 19 of 24 months 2,650.00 are left

    repaid = do(domain, session, "repay_loan", loan="L803")

    assert (loan["overdue_total"], loan["principal_then"]) == (0, loan["remaining"])
    assert (repaid["principal"], repaid["fee"]) == (2650.00, 26.50)
    assert "no running loan" in str(session.call(domain.tools["pay_instalment"], {"loan": "L803"}).error)


def test_a_payment_abroad_costs_half_a_percent_and_8_dollars_at_least(domain: Domain, session: Session) -> None:
    # 1,000 * 1.1742 = 1,174.20, of which 0.5 % are 5.87; 12,500 * 0.7236 = 9,045.00, of which they are 45.23
    few = do(domain, session, "convert_currency", currency="EUR", amount=1000)
    many = do(domain, session, "convert_currency", currency="CAD", amount=12500)

    assert (few["dollars"], few["fee"], few["total"]) == (1174.20, 8.00, 1182.20)
    assert (many["dollars"], many["fee"], many["total"]) == (9045.00, 45.23, 9090.23)


def test_the_proceeds_of_a_sale_are_held_until_it_settles(domain: Domain, session: Session) -> None:
    # 10 WRLD at 118.90: 1,189.00 less the least commission, 5.00; Tuesday, October 14 + 2 business days: Thursday
    before = do(domain, session, "get_account", account="A4168")
    traded = do(domain, session, "place_trade", account="A4168", symbol="WRLD", side="sell", quantity=10)
    after = do(domain, session, "get_account", account="A4168")

    assert (traded["commission"], traded["settles"]) == (5.00, "2025-10-16")
    assert round(after["ledger"] - before["ledger"], 2) == 1184.00
    assert after["available"] == before["available"]


def test_a_transfer_keeps_every_cent(domain: Domain, session: Session) -> None:
    total = "SELECT sum(balance_cents) FROM accounts"
    before = session.connection.execute(total).fetchone()

    for _ in range(10):
        do(domain, session, "transfer", customer="C105", account="A4113", to="A4149", amount=0.1)

    assert session.connection.execute(total).fetchone() == before
    assert round(12067.74 - do(domain, session, "get_account", account="A4113")["ledger"], 2) == 1.00


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
    domain: Domain, session: Session, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    assert reason in refusal(domain, session, tool, **arguments)


def test_a_fraud_is_contested_for_120_days_and_credited_at_once(domain: Domain, session: Session) -> None:
    found = do(domain, session, "open_dispute", transaction="T2150", reason="fraud")  # of June 27, 109 days ago

    assert found["credited"] == 677.03


def test_the_other_source_of_a_transfer_is_right_too(domain: Domain, tasks: list[Task], session: Session) -> None:
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
def test_a_planted_error_breaks_a_rule(domain: Domain, session: Session, planted: str, rule: str) -> None:
    assert not broken(domain, session)
    session.connection.execute(planted)
    assert any(rule in name for name in broken(domain, session))


def test_records_keep_their_rules_whatever_is_written(domain: Domain, session: Session) -> None:
    guesser = Guesser(domain.database, random.Random(0))
    writers = [tool for tool in domain.tools.values() if tool.effect == "write"]
    done: Counter[str] = Counter()
    for _ in range(6000):
        tool = guesser.rng.choice(writers)
        arguments = tool.decode(msgspec.json.encode(guesser.arguments(tool)))
        done[tool.name] += session.call(tool, arguments).status is Status.OK

    assert sum(done.values()) > 300
    assert not broken(domain, session)
