"""What a text states as its answer: every box, tag and naming, and what takes it back."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolorchestra.toolscale.answer_reader import MAX_TEXT, boxes, conclusion, stated, tag_contents, withdrawn


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"\boxed{1} and \boxed{\frac{1}{2}}", ["1", r"\frac{1}{2}"]),
        (r"\boxed{\boxed{11} \boxed{5}}", ["11", "5"]),
        (r"\boxed{5 \boxed{7}}", [r"5 \boxed{7}"]),
        (r"\boxed{…} \boxed{} \boxed{\text{answer}} \boxed{your final answer} \boxed{4}", ["4"]),
        (r"\boxed{1} \boxed{2", ["1"]),
        ("} { \\boxed {3}", ["3"]),
        ("no box", []),
    ],
)
def test_boxes_are_those_that_hold_something(text: str, contents: list[str]) -> None:
    assert [box.content for box in boxes(text)] == contents


def test_boxes_in_boxes_are_read_a_few_deep() -> None:
    assert [box.content for box in boxes(r"\boxed{" * 4 + "1" + "}" * 4)] == ["1"]
    assert len(boxes(r"\boxed{" * 4_000 + "1" + "}" * 4_000)) == 1


def test_all_tags_and_namings_count_and_final_ones_before_others() -> None:
    assert tag_contents("<answer>1</answer> <Answer>2</ANSWER> <answer>3") == ("1", "2")
    assert stated("The answer is 4. No: the answer is 5.") == ("named", ("4.", "5."), False)
    final = stated("The answer is 4 for now.\nFinal answer: 5")
    assert final is not None
    assert final.answers == ("5",)
    assert stated("Just words.") is None


def test_only_the_end_of_a_long_text_is_read() -> None:
    assert stated(r"\boxed{5}" + " " * MAX_TEXT + "x") is None
    assert stated("x" * MAX_TEXT + r"\boxed{5}") is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("It is not true that ", ""),
        ("It is NOT true that: ", ""),
        ("I don't believe that it is ", ""),
        ("The answer is not ", ""),
        ("anything but ", ""),
        ("either ", ""),
        ("maybe ", ""),
        ("", " or 7"),
        ("", ", or maybe 7"),
        ("", ". I do not know."),
        ("", ", but I'm not sure"),
        ("", " is not the answer."),
        ("", " is wrong"),
        ("", ". It could also be 7."),
    ],
)
def test_words_take_an_answer_back(before: str, after: str) -> None:
    assert withdrawn(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Since 4 is not prime, we get ", "."),
        ("It is not 4 but ", "."),
        ("It is wrong that x is 3, so it is ", ""),
        ("I was not sure at first. Now I am: ", ""),
        ("The answer is ", r" or equivalently \frac{10}{2}."),
        ("", ". Note that 1 is not a prime."),
        ("", ". I checked it twice."),
    ],
)
def test_other_words_leave_it(before: str, after: str) -> None:
    assert not withdrawn(before, after)


def test_a_conclusion_is_in_the_last_sentence() -> None:
    assert conclusion("We add them, so it is 5.") == "it is 5."
    assert conclusion("So it is 5. It is odd.") is None
    assert conclusion("It is 5.") is None


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for said in (text, rf"\boxed{{{text}}}", f"<answer>{text}</answer>", f"The answer is {text}"):
        stated(said)
