"""Numbers in words and other digits: read where they are numbers, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.answers.numerals import number_of_words, plain_digits


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("zero", 0),
        ("nineteen", 19),
        ("twenty-one", 21),
        ("Ninety nine", 99),
        ("one hundred and five", 105),
        ("two thousand three hundred and forty-five", 2345),
        ("one hundred thousand", 100_000),
        ("three million two hundred thousand and one", 3_200_001),
        ("minus five", -5),
    ],
)
def test_number_words_say_one_number(words: str, number: int) -> None:
    assert number_of_words(words) == number


@pytest.mark.parametrize(
    "words",
    ["", "and", "five and", "and five", "one two", "twenty twenty", "zero five", "hundred", "thousand two million",
     "five or six", "5", "fifth", "minus", "one " * 50],
)  # fmt: skip
def test_other_words_say_none(words: str) -> None:
    assert number_of_words(words) is None


def test_digits_of_all_scripts_become_ascii() -> None:
    assert plain_digits("٠١٢ ５０ ५ x²³ 2⁻¹ 3½ 12") == r"012 50 5 x^{23} 2^{-1} 3\frac{1}{2} 12"


@given(st.text())
def test_any_text_has_plain_digits(text: str) -> None:
    assert plain_digits(plain_digits(text)) == plain_digits(text)
    number_of_words(text)
