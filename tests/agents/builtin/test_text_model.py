from __future__ import annotations

from pathlib import Path

import pytest

from toolorchestra.agents.builtin.model import TokenPolicy
from toolorchestra.agents.builtin.text_model import build_text_tokenizer, builtin_text_policy
from toolorchestra.envs.msarl.play import is_well_formed, read_block
from toolorchestra.toolscale.answers.answers import final_answer, is_right

CODE = "```python\nd = (5 - 3) // 2\nprint(pow(17, 53, 10) * d ** 2)\n```"
CONVERSATION = [
    {"role": "system", "content": "unspoken rules"},
    {"role": "user", "content": "Find the units digit of $17^{53}$."},
    {"role": "assistant", "content": CODE},
    {"role": "user", "content": "<interpretation>\n-7\n</interpretation>"},
    {"role": "assistant", "content": r"\boxed{-7}"},
]


@pytest.fixture(scope="module")
def policy() -> TokenPolicy:
    return builtin_text_policy([CONVERSATION])


def tokens(policy: TokenPolicy, ids: list[int]) -> list[str]:
    found: list[str] = policy.tokenizer.convert_ids_to_tokens(ids)
    return found


def test_numbers_words_and_marks_are_a_token_each(policy: TokenPolicy) -> None:
    ids = policy.renderer.encode_prompt(CONVERSATION[:2], ())
    assert tokens(policy, ids) == [
        *("<user>", "Find", "the", "units", "digit", "of"),
        *("$", "17", "^", "{", "53", "}", "$", ".", "<assistant>"),
    ]
    assert tokens(policy, policy.renderer.encode_action(CONVERSATION[-1])) == ["\\boxed{", "-", "7", "}", "<end>"]


def test_system_messages_are_left_out(policy: TokenPolicy) -> None:
    assert policy.tokenizer.convert_tokens_to_ids("unspoken") == policy.tokenizer.unk_token_id


def test_code_and_boxes_survive_writing_and_reading(policy: TokenPolicy) -> None:
    text = policy.renderer.decode_action(policy.renderer.encode_action(CONVERSATION[2]), ()).action
    block = read_block(text, {"python": None})  # type: ignore[dict-item]  # only its name matters
    assert block is not None
    assert block.text.replace(" ", "") == CODE[10:-4].replace(" ", "")
    compile(block.text, "block", "exec")
    boxed = policy.renderer.decode_action(policy.renderer.encode_action(CONVERSATION[-1]), ()).action
    assert is_well_formed(boxed)
    assert is_right(boxed, ["-7"]), final_answer(boxed)


@pytest.mark.parametrize("answer", [r"\frac{33}{8}", r"4\sqrt{6}"])
def test_answers_in_latex_are_right_when_written_back(answer: str) -> None:
    messages = [{"role": "assistant", "content": rf"\boxed{{{answer}}}"}]
    renderer = builtin_text_policy([messages]).renderer
    assert is_right(renderer.decode_action(renderer.encode_action(messages[0]), ()).action, [answer])


def test_a_turn_is_appended_and_nothing_is_encoded_again(policy: TokenPolicy) -> None:
    renderer = policy.renderer
    written = renderer.encode_action(CONVERSATION[2])
    observation = renderer.encode_results(CONVERSATION[3:4], written)
    whole = renderer.encode_prompt(CONVERSATION[:4], ())
    assert renderer.encode_prompt(CONVERSATION[:2], ()) + written + observation == whole


def test_a_policy_is_read_back_with_its_language(policy: TokenPolicy, tmp_path: Path) -> None:
    policy.save(tmp_path)
    again = TokenPolicy.load(tmp_path)
    for messages in (CONVERSATION[:2], CONVERSATION[:4]):
        assert again.renderer.encode_prompt(messages, ()) == policy.renderer.encode_prompt(messages, ())


def test_words_that_are_not_known_are_one_unknown_token() -> None:
    tokenizer = build_text_tokenizer(["known words"])
    assert tokenizer("known xyzzy 42 4242")["input_ids"].count(tokenizer.unk_token_id) == 2
