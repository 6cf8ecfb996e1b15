from __future__ import annotations

import datetime

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.answers.mentions import mentions, tokens


def mentioned(text: str, fact: str) -> bool:
    return mentions(tokens(text), fact)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("It costs $1,234.50.", "1234.5"),
        ("It costs 1234.5 dollars", "$1,234.50"),
        ("€ 12.00 in all", "12"),
        ("12 €", "12.00"),
        ("Half: .50", "0.5"),
        ("- 12 soups\n- 3 pies", "12"),
        ("* 3 pies", "three"),
        ("The balance is -$5.00", "-5"),
        ("The balance is −5", "-5.0"),
        ("10-12 people", "12"),
        ("007", "7"),
        ("two tables", "2"),
        ("2025-07-30", "July 30, 2025"),
        ("30 July 2025", "2025-07-30"),
        ("on the 30th of July, 2025", "2025-07-30"),
        ("Jul. 30th, 2025", "2025-07-30"),
        ("07/30/2025", "2025-07-30"),
        ("30/07/2025", "2025-07-30"),
        ("2025/07/30", "2025-07-30"),
        ("on July 30", "2025-07-30"),
        ("Wednesday, July 30, 2025 at 7 pm", "2025-07-30"),
        ("2025-07-30T19:00:00", "19:00"),
        ("2025-07-30T19:00:00", "2025-07-30"),
        ("at 7 pm", "19:00"),
        ("at 7 p.m.", "19:00"),
        ("at 7:00 PM", "19:00"),
        ("at 07:05 am", "7:05"),
        ("12 am", "00:00"),
        ("12:30 pm", "12:30"),
        ("Ada Lovelace's table", "ada lovelace"),
        ("We chose Domino's pizza", "Domino's"),
        ("CRÈME brûlée", "creme brulee"),
        ("Crème-brûlée!", "crème brûlée"),
        ("the O’Brien party", "O'Brien"),
        ("Table T12 is free", "t12"),
    ],
)
def test_a_fact_is_found_however_it_is_written(text: str, fact: str) -> None:
    assert mentioned(text, fact)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("in 2012", "12"),
        ("for $12.50", "12"),
        ("dish D12", "12"),
        ("at 12:30", "12"),
        ("on 2025-07-12", "12"),
        ("12,500 guests", "12"),
        (".12", "12"),
        ("-12", "12"),
        ("12 pm", "12"),
        ("on July 30, 2024", "2025-07-30"),
        ("on July 31", "2025-07-30"),
        ("at 7 am", "19:00"),
        ("pine apple", "apple pie"),
        ("C010", "C01"),
        ("soupy", "soup"),
        ("", "12"),
        ("12", ""),
        ("12", "…"),
    ],
)
def test_a_fact_is_not_found_inside_something_else(text: str, fact: str) -> None:
    assert not mentioned(text, fact)


@given(st.integers(0, 10**9), st.integers(0, 99))
def test_any_amount_is_found_in_any_format(dollars: int, cents: int) -> None:
    amount = f"{dollars}.{cents:02d}"
    short = amount.rstrip("0").rstrip(".")
    ways = [amount, short, f"${amount}", f"$ {amount}", f"{dollars:,}.{cents:02d}", f"${dollars:,}.{cents:02d}"]
    for way in ways:
        for fact in ways:
            assert mentioned(f"The bill: {way}, please.", fact), (way, fact)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_amounts_are_found_exactly_when_they_are_equal(one: int, other: int) -> None:
    assert mentioned(f"It is ${one / 100:,.2f}!", f"{other / 100}") == (one == other)


@given(st.dates(datetime.date(1000, 1, 1)))
def test_any_date_is_found_in_any_format(day: datetime.date) -> None:
    ways = [
        day.isoformat(),
        f"{day:%B} {day.day}, {day.year}",
        f"{day.day} {day:%b} {day.year}",
        f"{day:%b} {day.day} {day.year}",
        f"{day.month}/{day.day}/{day.year}",
    ]
    for way in ways:
        assert mentioned(f"See you on {way}.", day.isoformat()), way
        assert mentioned(f"See you on {way}.", f"{day:%B} {day.day}"), way
        assert not mentioned(f"See you on {way}.", str(day.day)), way


@given(st.times())
def test_any_time_is_found_in_any_format(time: datetime.time) -> None:
    for way in (f"{time:%H:%M}", f"{time:%I:%M %p}", f"{time:%I:%M%p}".lower(), f"{time:%H:%M:%S}"):
        assert mentioned(f"Be there at {way}, please", f"{time:%H:%M}"), way


@given(st.text(), st.text())
def test_any_text_can_be_read_and_mentions_itself(text: str, around: str) -> None:
    assert mentions(tokens(text), text) == bool(tokens(text))
    assert isinstance(mentioned(around, text), bool)
