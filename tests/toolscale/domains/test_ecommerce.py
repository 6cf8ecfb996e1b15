"""The online shop: as large as promised, and true to its field's rules, worked out by hand."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.build import check_records
from toolorchestra.toolscale.domain import Domain

CZECH, AUSTRIAN = "C001", "C015"
"""Customers with empty carts; the Czech one has the gift card G7001 with EUR 80."""


def paid_order(domain: Domain, session: Any, customer: str, sku: str, quantity: int = 1, **payment: Any) -> str:
    """Return an order of one line, delivered by Postway and paid by card."""
    session.do("add_to_cart", customer=customer, sku=sku, quantity=quantity)
    order: str = session.do("place_order", customer=customer, carrier="Postway")["order"]
    session.do("pay_order", order=order, method="card", **payment)
    return order


def send(domain: Domain, session: Any, order: str, warehouse: str = "W1") -> None:
    """Pack an order, hand it over and let it arrive."""
    shipment = session.do("create_shipment", order=order, warehouse=warehouse)["shipment"]
    session.do("dispatch_shipment", shipment=shipment)
    session.do("confirm_delivery", shipment=shipment)


def came_back(domain: Domain, session: Any, order: str, quantity: int, condition: str) -> str:
    """Return the id of a return of line 1 that was received."""
    pieces = {"order": order, "line": 1, "quantity": quantity, "reason": "changed mind"}
    sent: str = session.do("open_return", **pieces)["return"]
    session.do("receive_return", **{"return": sent, "condition": condition})
    return sent


@pytest.mark.parametrize(
    ("coupon", "discount"),
    [
        # two vests at EUR 64 are 20 % off, boots at EUR 189 are 15 % off, which does not stack
        (None, 25.6 + 28.35),
        ("EXTRA5", 32 + 28.35),  # 5 %, stacks: the vests get 25 %, the boots stay at 15 %
        ("TRAIL15", 25.6 + 28.35),  # 15 %, does not stack: never more than the promotions
        ("BIG20", 25.6 + 37.8),  # 20 %, does not stack: more than the promotion on the boots
    ],
)
def test_promotions_and_coupons_add_up_only_if_both_stack(
    domain: Domain, session: Any, coupon: str | None, discount: float
) -> None:
    session.do("add_to_cart", customer=AUSTRIAN, sku="P09-BLACK-M", quantity=2)
    session.do("add_to_cart", customer=AUSTRIAN, sku="P11-BROWN-41", quantity=1)

    code = {} if coupon is None else {"coupon": coupon}
    quote = session.do("quote_order", customer=AUSTRIAN, carrier="Postway", **code)
    order = session.do("place_order", customer=AUSTRIAN, carrier="Postway", **code)

    assert quote["discount"] == pytest.approx(discount)
    assert quote["total"] == order["total"] == pytest.approx(317 - discount + 4.9)


def test_one_piece_misses_the_promotion_that_needs_two(domain: Domain, session: Any) -> None:
    session.do("add_to_cart", customer=AUSTRIAN, sku="P09-BLACK-M", quantity=1)

    assert session.do("quote_order", customer=AUSTRIAN, carrier="Postway")["discount"] == 0


def test_a_line_is_reserved_where_all_of_it_is_free(domain: Domain, session: Any) -> None:
    # P08-BLACK-M: none free in W1 and W3, seven in W2
    order = paid_order(domain, session, AUSTRIAN, "P08-BLACK-M", 3)

    assert session.do("get_order", order=order)["lines"][0]["warehouse"] == "W2"
    assert session.do("get_stock", sku="P08-BLACK-M")["warehouses"][1] == {"warehouse": "W2", "free": 4}


def test_refunds_go_back_to_the_card_before_the_gift_card(domain: Domain, session: Any) -> None:
    # two headlamps at EUR 59 and EUR 8.90 for delivery: 80 by gift card, 46.90 by card
    order = paid_order(domain, session, CZECH, "P28-BLACK-ONE", 2, gift_card="G7001")
    send(domain, session, order)
    sent = came_back(domain, session, order, 2, "opened")  # electronics: 15 % of 118 are kept, 100.30 due

    assert "first" in session.refusal("refund_return", **{"return": sent, "other": 40, "gift_card": 60.3})
    assert "due" in session.refusal("refund_return", **{"return": sent, "other": 46.9, "gift_card": 71.1})
    session.do("refund_return", **{"return": sent, "other": 46.9, "gift_card": 53.4})

    assert session.do("get_gift_card", gift_card="G7001")["balance"] == 53.4
    assert [p["net"] for p in session.do("list_payments", order=order)] == [0, 26.6]


def test_opened_hygiene_articles_are_rejected(domain: Domain, session: Any) -> None:
    order = paid_order(domain, session, AUSTRIAN, "P25-BLUE-ONE")
    send(domain, session, order)
    sent = came_back(domain, session, order, 1, "opened")

    assert "rejected" in session.refusal("refund_return", **{"return": sent, "other": 44, "gift_card": 0})
    assert session.do("reject_return", **{"return": sent})


def test_a_price_is_matched_down_to_three_quarters_of_ours(domain: Domain, session: Any) -> None:
    order = paid_order(domain, session, AUSTRIAN, "P28-BLACK-ONE", 2)
    offer = {"order": order, "line": 1, "competitor": "Bergfuchs"}

    assert "75 %" in session.refusal("match_price", **offer, price=44.24)
    assert "not matched" in session.refusal("match_price", **{**offer, "competitor": "Outlet Hut"}, price=50)
    assert session.do("match_price", **offer, price=44.25) == {"refunded": 29.5}
    assert "discount already" in session.refusal("match_price", **offer, price=44.25)


def test_what_is_packed_cannot_be_cancelled_and_what_is_held_cannot_be_packed(domain: Domain, session: Any) -> None:
    order = paid_order(domain, session, AUSTRIAN, "P28-BLACK-ONE")
    session.do("create_shipment", order=order, warehouse="W1")
    held = session.connection.execute("SELECT min(order_id) FROM orders WHERE hold = 1").fetchone()[0]

    assert "packed" in session.refusal("cancel_order", order=order)
    assert "on hold" in session.refusal("create_shipment", order=held, warehouse="W1")


def test_only_those_to_whom_it_was_delivered_review_a_product(domain: Domain, session: Any) -> None:
    review = {"customer": AUSTRIAN, "product": "P28", "stars": 5}
    order = paid_order(domain, session, AUSTRIAN, "P28-BLACK-ONE")

    assert "not delivered" in session.refusal("add_review", **review)
    send(domain, session, order)
    assert session.do("add_review", **review)
    assert "already" in session.refusal("add_review", **review)


def test_stock_reserved_for_nobody_breaks_a_rule(domain: Domain) -> None:
    connection = sqlite3.connect(":memory:")
    connection.deserialize(domain.database.image)
    check_records(connection, domain.spec)
    connection.execute("UPDATE stock SET reserved = reserved + 1 WHERE sku = 'P28-BLACK-ONE' AND warehouse = 'W1'")

    with pytest.raises(DomainError, match="What is reserved in a warehouse"):
        check_records(connection, domain.spec)
    connection.close()
