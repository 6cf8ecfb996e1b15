from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.common.errors import TaskError
from toolorchestra.toolscale.tools.expressions import FORMATS, FORMATS_BY_TODAY, evaluate, fill, lookup

SCOPE = {
    "name": "Ada",
    "day": "2025-07-05",
    "at": "07:30",
    "price": 1234.5,
    "count": 4.0,
    "one": 1,
    "off": ["2025-07-05", "2025-07-11"],
    "later": "2025-07-11",
    "today": "2025-07-04",
    "none": None,
    "dishes": [{"name": "soup", "price": 4.0}, {"name": "pie", "price": 5.5}],
    "empty": [],
    "owed": -3415,
    "cents": -0.5,
    "rounded": -0.001,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$name", "Ada"),
        ("$dishes.0.price", 4.0),
        ("$dishes.*.price", [4.0, 5.5]),
        ("$dishes.*", SCOPE["dishes"]),
        ("$none", None),
        ("!$none", True),
        ("!$name", False),
        ("!$empty", True),
        (["$name", {"a": "$price"}, 3], ["Ada", {"a": 1234.5}, 3]),
        ("Hi {name}", "Hi Ada"),
        ("{count} of {price}", "4 of 1234.5"),
        ("costs $5", "costs $5"),
        (True, True),
        (None, None),
    ],
)
def test_expressions_name_values_of_any_type(expression: Any, value: Any) -> None:
    assert evaluate(expression, SCOPE) == value


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{day:date}", "July 5, 2025"),
        ("{day:weekday}", "Saturday"),
        ("{at:time}", "7:30 AM"),
        ("{price:money}", "$1,234.50"),
        ("{price:number}", "1,234.5"),
        ("{dishes.*.name:and}", "soup and pie"),
        ("{dishes.*.name:or}", "soup or pie"),
        ("{dishes.*.price:plus}", "4 + 5.5"),
        ("{empty:and}", ""),
        ("{day:day}", "July 5"),
        ("{off:days}, {off:ordays}", "July 5 and July 11, July 5 or July 11"),
        ("{at:clock}", "7:30 am"),
        ("{price:dollars} and {count:dollars}", "$1,234.50 and $4"),
        ("{price:euros} and {count:euros}", "€1,234.50 and €4"),
        ("{owed:dollars}, {owed:money}, {owed:euros}, {cents:money}", "-$3,415, -$3,415.00, -€3,415, -$0.50"),
        ("{rounded:money}", "$0.00"),
        ("{count:words}", "four"),
        ("{name:a}, {day:a}", "an Ada, a 2025-07-05"),
        ("{day:near} or {day:on}", "tomorrow or tomorrow"),
        ("{later:near} or {later:on}", "Friday, July 11 or on Friday, July 11"),
        ("{count guest|guests}, {one:words guest|guests}", "4 guests, one guest"),
        ("there {one|is|are} and {dishes|is|are}", "there is and are"),
        ("{dishes dish|dishes}", "2 dishes"),
    ],
)
def test_placeholders_have_formats(template: str, text: str) -> None:
    assert fill(template, SCOPE) == text


def test_every_format_is_tested() -> None:
    plain = {"date", "weekday", "time", "money", "number", "and", "or", "plus"}
    assert set(FORMATS) == plain | {"day", "days", "ordays", "clock", "dollars", "euros", "words", "a"}
    assert set(FORMATS_BY_TODAY) == {"near", "on"}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("$nobody", "Nothing at 'nobody': 'nobody' is not there; expected one of name, day"),
        ("$dishes.7", "Nothing at 'dishes.7': '7' is not there; expected list"),
        ("$dishes.name", "'name' is not there"),
        ("$name.first", "'first' is not there; expected str"),
        ("$dishes.*.weight", "expected one of name, price"),
        ("{name:colour}", "Unknown format 'colour' in {name:colour}; expected one of date"),
        ("{name:date}", "{name:date} cannot format 'Ada'"),
        ("{none:money}", "{none:money} cannot format None"),
        ("{name:on}", "{name:on} cannot format 'Ada'"),
        ("{name guest|guests}", "expects a number or a list, found 'Ada'"),
    ],
)
def test_what_is_not_there_is_a_task_error_that_says_what_is(expression: str, message: str) -> None:
    with pytest.raises(TaskError) as error:
        evaluate(expression, SCOPE)
    assert message in str(error.value)


@given(
    st.text(),
    st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)),
)
def test_a_look_up_raises_nothing_but_task_errors(path: str, value: Any) -> None:
    with contextlib.suppress(TaskError):
        lookup(path, {"a": value, "": value})
