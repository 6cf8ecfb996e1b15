"""Final answers: where they stand in a text, and which are right."""

from __future__ import annotations

import pytest

from toolorchestra.toolscale.answers import final_answer, is_right, math_verify_installed

needs_math_verify = pytest.mark.skipif(not math_verify_installed(), reason="Math-Verify (extra `math`) is missing")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First \boxed{1}, no: \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\text{Ada} \{1\}}", r"\text{Ada} \{1\}"),
        (r"\boxed{3} and then \boxed{4", "3"),
        ("<answer> Brenholm </answer>", "Brenholm"),
        ("I looked.\nThe answer is **Brenholm**", "Brenholm"),
        ("Final answer: 12", "12"),
        (" Brenholm \n", "Brenholm"),
        ("", ""),
    ],
)
def test_the_final_answer_is_found(text: str, answer: str):
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        (r"\boxed{0.50}", [r"\frac{1}{2}"]),
        (r"\boxed{x=\frac{\sqrt{2}}{2}}", [r"\frac{1}{\sqrt{2}}"]),
        ("the lantern theatre", ["The Lantern Theatre"]),
        ("Lantern", ["The Lantern Theatre", "the Lantern"]),
        ("on March 12, 1890", ["on 12 March 1890"]),
        ("(B)", ["B"]),
        ("B.", ["(B)"]),
        ("twelve", ["twelve"]),
        ("1,912", ["1912"]),
        (r"\sin x + 1", [r"\sin{x}+1"]),
        (r"\boxed{\text{B}}", ["B"]),
        ("B. y", ["B"]),
        ("(B) yellow", ["B"]),
        ("Option B", ["B"]),
        ("B, because it is yellow", ["B"]),
        ("87 years", ["87"]),
        (r"\boxed{87\text{ years}}", ["87"]),
        ("87", ["87 km"]),
        ("87 kms", ["87 km"]),
        ("$87", ["87"]),
        ("exactly 87", ["87"]),
        ("٨٧", ["87"]),
        ("twenty-one", ["21"]),
        ("minus 5", ["-5"]),
        ("minus five", ["-5"]),
        ("3,5", ["3.5"]),
        ("none", ["0"]),
        ("Rao, Anita", ["Anita Rao"]),
        (r"\(\frac{3}{4}\)", [r"\frac{3}{4}"]),
        ("5 or 7", ["5, 7"]),
        ("x = 5 or x = 7", ["5,7"]),
        ("So \\boxed{5}, that is \\boxed{5.0}.", ["5"]),
        ("In the form \\boxed{…}: \\boxed{5}", ["5"]),
        ("Since 4 is not prime, we get \\boxed{5}.", ["5"]),
        ("<think>Maybe \\boxed{4}?</think>\\boxed{5}", ["5"]),
    ],
)
def test_right_answers_have_many_forms(message: str, accepted: list[str]):
    assert is_right(message, accepted)


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        ("", ["12"]),
        ("12 or 13", ["12", "13"]),
        ("Brenholm, Aldery", ["Brenholm"]),
        ("Brenholm", ["North Brenholm"]),
        ("x+1", ["x-1"]),
        ("A", ["B"]),
        ("a", ["A"]),
        (r"\sin x - 1", [r"\sin x + 1"]),
        ("1913", ["1912"]),
        (r"\boxed{}", ["1912"]),
        ("9" * 3_000, ["9"]),
        ("anything", []),
        (r"\boxed{5} \boxed{7}", ["5"]),
        (r"\boxed{5} or \boxed{7}", ["5"]),
        (r"\boxed{5}, or maybe 7", ["5"]),
        (r"\boxed{5 or 7}", ["5"]),
        (r"\boxed{5, 7}", ["5"]),
        (r"\boxed{5 \boxed{7}}", ["7"]),
        (r"It is NOT true that: \boxed{5}. I do not know.", ["5"]),
        (r"The answer is \boxed{5}. The answer is 7.", ["5"]),
        ("It is NOT true that: 5. I do not know.", ["5"]),
        ("<answer>5</answer> <answer>7</answer>", ["5"]),
        ("The answer is 5. The answer is 7.", ["5"]),
        ("The answer is 5 or 7", ["5"]),
        ("The answer is not 5", ["5"]),
        ("either 5 or 7", ["5"]),
        ("5, or maybe 7", ["5"]),
        ("- 0\n- -2", ["-2"]),
        ("B or C", ["B"]),
        ("A, B, C, D", ["A"]),
        ("B. C", ["B"]),
        ("87 thousand", ["87"]),
        ("87 miles", ["87 km"]),
        ("1e999", ["5"]),
        ("9^9^9^9", ["5"]),
        ("٨٧", ["88"]),
        ("{" * 1_000_000, ["5"]),
    ],
)
def test_wrong_answers_are_wrong(message: str, accepted: list[str]):
    assert not is_right(message, accepted)


@needs_math_verify
def test_what_only_math_verify_reads_is_left_to_it():
    assert is_right(r"\log_2 8", ["3"])
    assert is_right("y^2 + x^2 = 1", ["x^2 + y^2 = 1"])
    assert not is_right(r"\log_2 8", ["4"])


@needs_math_verify
def test_an_expression_that_keeps_math_verify_too_long_is_wrong():
    assert not is_right(r"\boxed{\log 9^{9^{9^{9^9}}}}", ["3"])
    assert is_right(r"\log_2 8", ["3"])  # and it goes on


def test_boxes_by_the_thousand_are_read_in_no_time() -> None:
    assert final_answer("\\boxed{" * 100_000 + "7}") == "7"
    assert final_answer("\\boxed{" * 100_000).startswith("\\boxed{")


PIECES = [
    "9",
    "\\boxed{",
    "{",
    "\\boxed{5}",
    "<answer>",
    "The answer is ",
    "The answer is 5. ",
    "answer ",
    "so ",
    "or ",
]
PIECES += [
    ". ",
    "\n",
    "5, ",
    "not ",
    "**",
    "one ",
    "1/",
    "- ",
    "I ",
    "Thanks. ",
    "~",
    "\\text{",
    "Problem 1: ",
    "</think>",
]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("right", ["5", "Brenholm", "explorer", r"\{1,2\}"])
def test_an_answer_of_a_million_characters_is_judged(piece: str, right: str):
    text = piece * (1_000_000 // len(piece))
    assert is_right(text, [right], "Which was earlier, Foldford or Saldby, in 4 steps?", ["Ada"]) in (True, False)
