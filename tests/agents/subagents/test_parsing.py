"""Reading what models write, well formed or not."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.messages.text_parts import answer_in, before_code, code_in, queries_in, spoken, tag


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<reasoning>2 + 2</reasoning>\n<answer>\\boxed{4}</answer>", "4"),
        ("<answer>4</answer>", "4"),
        ("<answer>4", "4"),
        ("<ANSWER> 4 </ANSWER>", "4"),
        ("So \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("<answer>First \\boxed{3}, no, \\boxed{4}</answer>", "4"),
        ("<think>Perhaps \\boxed{3}?</think>It is <answer>4", "4"),
        ("The answer is 4", ""),
        ("<think>Perhaps \\boxed{3}?</think>I do not know.", ""),
        ("I do not know.", ""),
        ("<answer></answer>", ""),
        ("\\boxed{}", ""),
        ("\\boxed{4", ""),
        ("", ""),
    ],
)
def test_an_answer_is_what_is_marked_as_one(text: str, answer: str) -> None:
    assert answer_in(text) == answer


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<code>\nprint(4)\n</code>", "print(4)"),
        ("<code>\n```python\nprint(4)\n```\n</code>", "print(4)"),
        ("```python\nprint(4)\n```", "print(4)"),
        ("```py\nif 1:\n    print(4)\n```", "if 1:\n    print(4)"),
        ("I write in <code> tags: <code>print(4)", "print(4)"),
        ("<think><code>print(3)</code></think>\n<code>print(4)</code>", "print(4)"),
        ("print(4)", ""),
        ("<code></code>", ""),
    ],
)
def test_a_program_is_what_stands_in_its_tag_or_in_a_fence(text: str, code: str) -> None:
    assert code_in(text) == code


def test_what_comes_before_a_program_is_its_reasoning() -> None:
    assert before_code("<reasoning>Add.</reasoning>\n<code>print(4)</code>") == "<reasoning>Add.</reasoning>"
    assert before_code("Add.\n```python\nprint(4)\n```") == "Add."


def test_queries_are_lines_without_their_bullets_each_once() -> None:
    text = "<query>\n1. Ada Lovelace\n- Ada Lovelace\n\n  * 1815 births\n3.14 circle\n</query>"
    assert queries_in(text, 8) == ["Ada Lovelace", "1815 births", "3.14 circle"]
    assert queries_in(text, 1) == ["Ada Lovelace"]
    assert queries_in("<query>\n\n</query>", 8) == queries_in("Ada Lovelace", 8) == []
    assert len(queries_in(f"<query>{'x' * 5000}", 8)[0]) == 300


@given(st.text(alphabet=st.sampled_from("<>/answercodequery\\boxed{}`\n İß x1"), max_size=200))
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    for read in (answer_in, code_in, before_code, spoken):
        assert isinstance(read(text), str)
    queries_in(text, 3)
    tag(text, "answer")
