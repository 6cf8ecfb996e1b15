from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.judging.statements import denials, first_clause, holds_data, read_statements, state_of


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("31 + 14 = $45 for the two.", "$45 for the two."),
        ("Total: $31.50 * 2 = 63", "Total: 63"),
        ("(3 + 4) × 2 = 14, so 14.", "14, so 14."),
        ("The price = 21", "The price = 21"),
        ("12 = 12", "12 = 12"),
        ("It was $45. 2 + 2 = 4", "It was $45. 4"),
        ("It is 22 1 + 20 = 21", "It is 22 21"),
    ],
)
def test_a_sum_is_read_as_what_it_comes_to(text: str, read: str):
    assert read_statements(text).tokens == read_statements(read).tokens


def state(text: str, token: str) -> str:
    found = read_statements(text)
    return state_of(found, found.tokens.index(token), 1)


@pytest.mark.parametrize(
    ("text", "token", "expected"),
    [
        ("It costs 21 dollars.", "#21", "asserted"),
        ("It does not cost 21 dollars.", "#21", "denied"),
        ("It isn't 21 dollars.", "#21", "denied"),
        ("The price, 21 dollars, is not right.", "#21", "asserted"),  # a denial of the whole, see `denials`
        ("21 is not the price.", "#21", "denied"),
        ("D15 cannot be booked.", "d15", "denied"),
        ("No, it costs 21 dollars.", "#21", "asserted"),
        ("It is not 12 but 21 dollars.", "#21", "asserted"),
        ("No table is free, so I booked lunch at 12:30.", "~12:30", "asserted"),
        ("I would never in all my life say it was 21.", "#21", "neither"),
        ("Nothing was booked: the chef K01 is ill.", "k01", "asserted"),
        ("It is not: 21.", "#21", "denied"),
        ("It is not untrue and not false; the room is WES-110.", "#110", "asserted"),
    ],
)
def test_how_a_text_has_a_value(text: str, token: str, expected: str):
    assert state(text, token) == expected


def test_two_negators_cancel_each_other():
    found = read_statements("Nothing was not booked.")
    assert found.negated[found.tokens.index("booked")] is False
    assert read_statements("Nothing was booked.").negated[-1] is True


def test_a_negator_reaches_eight_tokens_and_no_other_sentence():
    far = read_statements("No a1 a2 a3 a4 a5 a6 a7 a8 a9")
    assert far.negated == [False, *[True] * 8, False]
    assert read_statements("It is not free. T07 is.").negated[-2:] == [False, False]


def test_questions_and_conditions_state_nothing():
    found = read_statements("Is it 21? If it is 22, say so. It is 23.")
    assert found.open == {0, 1}
    assert found.words[2] == {"it", "is", "#23"}


def test_abbreviations_decimals_and_list_marks_end_no_sentence():
    found = read_statements("1. Dr. Nils sees you at No. 5 on 29.10.2025 for 12.50.\n2. That is all.")
    assert found.tokens[:4] == ["dr", "nils", "sees", "you"]
    assert found.sentences[found.tokens.index("#12.5")] == 0
    assert (found.sentences[0], found.sentences[-1]) == (0, 2)
    assert not {"#1", "#2"} & set(found.tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is NOT true that the dish costs $21. I do not know.", ["not true", "do not know"]),
        ("The following is false: it costs $21.", ["the following is false"]),
        ("False: it costs $21.", ["false:"]),
        ("None of this is true.", ["none of this is true"]),
        ("Either D15 or D17.", ["either"]),
        ("It is D15, or maybe D17.", ["or maybe"]),
        ("It might be D15; I am not sure.", ["not sure", "might be "]),
        ("It costs $21. Please let me know if I can help with anything else.", []),
        ("You may return it until Friday.", []),
    ],
)
def test_denials_and_doubts_of_the_whole(text: str, expected: list[str]):
    assert sorted(denials(text)) == sorted(expected)


@pytest.mark.parametrize(
    "text", ['[{"dish": "D15", "price": 21}]', "{'price': 21}", '{"a": 1, "b": [1]}', '[["a", 1]]']
)
def test_data_is_no_statement(text: str):
    assert holds_data(text)


@pytest.mark.parametrize("text", ["D15 [vegan] costs $21.", "Note: it is closed.", 'He said: "fine".', "a: 1, b: 2"])
def test_brackets_and_colons_are_no_data(text: str):
    assert not holds_data(text)


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str):
    found = read_statements(text)
    assert len(found.tokens) == len(found.sentences) == len(found.negated)
    assert found.sentences == sorted(found.sentences)
    assert frozenset(found.tokens) == frozenset().union(*found.words)


def test_sentences_make_few_sets_since_the_garbage_collector_visits_each_again_and_again() -> None:
    found = read_statements("Paid. " * 50 + "; " * 50)
    assert len(found.words) == 101
    assert len({id(words) for words in (*found.words, *found.clause_words)}) == 2  # with the empty one


def test_only_the_first_clause_of_a_long_text_is_read() -> None:
    assert first_clause("well, I booked nothing, but paid." * 1000, 6) == {"i", "booked", "nothing"}
    assert first_clause("...") == frozenset()
