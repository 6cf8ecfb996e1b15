r"""Final answers to questions: where they stand in a text, and which are right."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.answers.answers import answers, boxed, count_votes, equal, final_answer, in_form, is_right
from toolorchestra.toolscale.answers.math_verifier import math_verify_installed

needs_math_verify = pytest.mark.skipif(not math_verify_installed(), reason="Math-Verify (extra `math`) is missing")

# --------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (r"First \boxed{1}, no: \boxed{\frac{1}{2}}.", ["1", r"\frac{1}{2}"]),
        (r"\boxed{\text{Ada} \{1\}}", [r"\text{Ada} \{1\}"]),
        (r"\boxed {5}", ["5"]),
        (r"\boxed{3} and then \boxed{4", ["3"]),
        (r"\boxed{4 and then \boxed{3}", ["3"]),
        ("<answer> Brenholm </answer>", ["Brenholm"]),
        (r"<ANSWER>\[ \boxed{7} \]</ANSWER>", ["7"]),
        (r"<answer>it is \boxed{4}, I think</answer>", ["4"]),
        (r"<answer>4</answer> \boxed{5} <answer>6", ["4", "5"]),
        ("<answer>4 <answer>5</answer>", ["5"]),
        (r"\boxed{\boxed{1}, \boxed{2}}", ["1", "2"]),
        (r"\boxed{{\boxed{1}}}", ["1"]),
        (r"\boxed{not \boxed{1}}", [r"not \boxed{1}"]),
        (r"\boxed{-\boxed{1}}", [r"-\boxed{1}"]),
        (r"\boxed{} \boxed{…} \boxed{...} \boxed{answer} \boxed{\text{your answer}} <answer>…</answer>", []),
        (r"<think>Maybe \boxed{4}?</think>\boxed{5}", ["5"]),
        (r"<think>Maybe \boxed{4}?", []),
        (r"\boxed{5} <think>Or \boxed{4}?", ["5"]),
        (r"{ \boxed{5} } }", ["5"]),
        ("The answer is 12.", []),
        ("**Final answer:** 12", []),
        ("12", []),
        ("", []),
    ],
)
def test_answers_stand_in_boxes_and_tags_and_nowhere_else(text: str, given: list[str]):
    assert answers(text) == given
    assert final_answer(text) == (given[-1] if given else text.strip())


def test_the_last_box_is_found_beside_tags():
    assert boxed(r"\boxed{1} <answer>2</answer>") == "1"
    assert boxed("<answer>2</answer>") is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("12", r"\boxed{12}"),
        (r" \frac{1}{2} ", r"\boxed{\frac{1}{2}}"),
        (r"So \boxed{12}.", r"So \boxed{12}."),
        ("So <answer>12</answer>", "So <answer>12</answer>"),
        ("{1", "<answer>{1</answer>"),
        ("1}", "<answer>1}</answer>"),
        (r"\{1, 2\}", r"\boxed{\{1, 2\}}"),
        ("I do not know.", r"\boxed{I do not know.}"),
    ],
)
def test_a_bare_answer_is_put_into_a_box(text: str, written: str):
    assert in_form(text) == written


@given(st.text())
def test_what_is_put_into_a_form_is_in_one(text: str):
    assert in_form(in_form(text)) == in_form(text) or not answers(in_form(text))


# ------------------------------------------------------------------------------------------------- comparing

SAME = [
    ("0.50", r"\frac{1}{2}"),
    (r"\dfrac12", "1/2"),
    (r"-\frac{1}{2}", "-0.5"),
    (r"\frac{-1}{2}", "-0.5"),
    (r"3\frac{1}{2}", "7/2"),
    ("3½", "3.5"),
    ("3 1/2", "3.5"),
    ("1,912", "1912"),
    ("1{,}234{,}567", "1234567"),
    (r"\$1,250.00", "1250"),
    ("+5", "5"),
    ("5.", "5"),
    ("5.0", "5"),
    ("−5", "-5"),
    ("٨٧", "87"),
    (r"50\%", "50"),
    (r"50\%", r"\frac{1}{2}"),
    ("0.5", "50%"),
    (r"90^\circ", "90"),
    ("x = 5", "5"),
    ("87", "87 km"),
    (r"87\text{ km}", "87 km"),
    (r"87.0 \mathrm{km}", "87 km"),
    (r"\text{B}", "B"),
    ("(b)", "B"),
    ("B.", "(B)"),
    (r"2\sqrt3", r"2\sqrt{3}"),
    ("{30/11}", r"\frac{30}{11}"),
    (r"2 \cdot \sqrt{3}", r"2 \times \sqrt{3}"),
    (r"x^{2} + 1", "x^2+1"),
    ("48π", r"48\pi"),
    (r"\sin x + 1", r"\sin{x}+1"),
    (r"\left(1, 2\right]", "(1,2]"),
    (r"\{1, 2\}", r"\left\{1,2\right\}"),
    ("the lantern theatre", "The Lantern Theatre"),
    ("**Lantern Theatre**", "the Lantern Theatre"),
    (r'"Brenholm".', "Brenholm"),
    ("SÃO PAULO", "Sao Paulo"),
    ("March 12, 1890", "12 March 1890"),
    ("$x$", "x"),
]


@pytest.mark.parametrize(("answer", "right"), SAME)
def test_one_answer_has_many_forms(answer: str, right: str):
    assert equal(answer, right)
    assert is_right(rf"\boxed{{{answer}}}", [right])
    assert is_right(f"I found it. <answer>{answer}</answer>", ["another", right])
    assert not is_right(answer, [right])
    assert not is_right(f"The answer is {answer}", [right])


DIFFERENT = [
    ("", "12"),
    ("13", "12"),
    ("-12", "12"),
    ("0.333", r"\frac{1}{3}"),
    (r"\frac{12}{3}", r"\frac{1}{23}"),
    ("1 2", "12"),
    ("1/0", "5"),
    ("12 or 13", "12"),
    ("12, 13", "12"),
    ("12 as well as 13", "12"),
    ("12\n13", "12"),
    ("5?", "5"),
    ("not 5", "5"),
    (r"\text{not } 5", "5"),
    (r"\neg 5", "5"),
    ("at least 5", "5"),
    (r"\geq 5", "5"),
    ("7 = 5", "5"),
    ("x = 7 = 5", "5"),
    ("5 km", "5"),
    ("87 miles", "87 km"),
    ("2", "2x"),
    ("2", "2 x"),
    ("x-1", "x+1"),
    ("[1,2)", "(1,2]"),
    ("5%", "50%"),
    ("A", "B"),
    ("B or C", "B"),
    ("Brenholm?", "Brenholm"),
    ("not Brenholm", "Brenholm"),
    ("Brenholm, Aldery", "Brenholm"),
    ("Brenholm/Aldery", "Brenholm"),
    ("Brenholm", "North Brenholm"),
    ("1e999", "5"),
    ("9^9^9^9", "5"),
    ("9" * 3_000, "9"),
]


@pytest.mark.parametrize(("answer", "right"), DIFFERENT)
def test_another_answer_is_wrong(answer: str, right: str):
    assert not equal(answer, right)
    assert not is_right(rf"\boxed{{{answer}}}", [right])
    assert not is_right(f"<answer>{answer}</answer>", [right])


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (r"\boxed{5}, that is \boxed{5.0}", True),
        (r"\boxed{5} <answer>5</answer>", True),
        (r"\boxed{5 or 7}", False),
        (r"\boxed{5} \boxed{7}", False),
        (r"\boxed{5}. No wait: \boxed{7}", False),
        (r"<answer>5</answer> <answer>7</answer>", False),
        (r"\boxed{5} <answer>7</answer>", False),
        (r"\boxed{\boxed{5}, \boxed{7}}", False),
        (" ".join(rf"\boxed{{5.{'0' * zeros}}}" for zeros in range(20)), False),
        (r"No wait, I do not know. \boxed{5}", True),  # words around the box are not judged
    ],
)
def test_all_answers_that_a_text_gives_must_be_right(text: str, right: bool):
    assert is_right(text, ["5"]) is right
    assert not is_right(text, [])


def test_an_answer_that_is_hedged_is_right_where_it_is_the_reference():
    for answer in ("5 or 7", "at least 5", "not Brenholm", "5?"):
        assert is_right(rf"\boxed{{{answer}}}", [answer])


def test_votes_are_counted_by_value():
    assert count_votes(["5", "", "5.0", "7", r"\frac{10}{2}"]) == [("5", 3), ("7", 1)]
    assert count_votes(["7", "Lantern", "the lantern"]) == [("7", 1), ("Lantern", 2)]


# ---------------------------------------------------------------------------------------------- Math-Verify


@needs_math_verify
@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (r"\frac{1+\sqrt{3}}{2}", r"\frac{1}{2}+\frac{1}{2}\sqrt{3}"),
        (r"\sqrt{12}", r"2\sqrt{3}"),
        (r"\log_2 8", "3"),
        ("1 + x", "x+1"),
        ("y^2 + x^2 = 1", "x^2 + y^2 = 1"),
        ("2, 1", r"\{1, 2\}"),
    ],
)
def test_mathematics_in_another_form_is_left_to_math_verify(answer: str, right: str):
    assert is_right(rf"\boxed{{{answer}}}", [right])
    assert not equal(answer, right)  # which compares candidates, the same with and without it


@needs_math_verify
def test_an_expression_that_keeps_math_verify_too_long_is_wrong():
    assert not is_right(r"\boxed{\log 9^{9^{9^{9^9}}}}", ["3"])
    assert not is_right(r"\boxed{\log 9^{9^9^9}}", ["3"])
    assert is_right(r"\boxed{\log_2 8}", ["3"])  # and it goes on


# -------------------------------------------------------------------------------------------------- hostile

PIECES = (
    "9", r"\boxed{", r"\boxed{a", "{", "}", r"\boxed{5}", r"\boxed{\boxed{5}}", "<answer>", "</answer>",
    "<answer>5</answer>", "The answer is ", ". ", "\n", "5, ", "**", "1/", "~", r"\text{", r"\frac{", r"\{", "</think>",
    "<think>", "^", "=", "one hundred ", "é", "²", r"\sin ",
)  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("right", ["5", "Brenholm", "87 km", r"\{1,2\}"])
def test_an_answer_of_a_million_characters_is_judged(piece: str, right: str):
    text = piece * (1_000_000 // len(piece))
    assert is_right(text, [right]) in (True, False)
    assert is_right(rf"\boxed{{{text[:1_900]}}}", [right]) in (True, False)


def test_deep_braces_are_matched():
    assert answers(r"\boxed{" + "{" * 5_000 + "7" + "}" * 5_000 + "}") == ["{" * 5_000 + "7" + "}" * 5_000]
    assert answers(r"\boxed{" * 2_000 + "7" + "}" * 2_000) == ["7"]
    assert answers(r"\boxed{" * 100_000 + "7}") == ["7"]
    assert answers(r"\boxed{" * 100_000) == []


@given(st.text(), st.text(max_size=30))
def test_no_text_raises(text: str, right: str):
    for written in (text, rf"\boxed{{{text}}}", f"<answer>{text}</answer>"):
        assert is_right(written, [right]) in (True, False)
    assert equal(text, right) == equal(text, right)
