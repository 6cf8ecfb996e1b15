from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.builtin.adapters import load_adapters, make_adapters
from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.compact_renderer import FOLLOW, CompactRenderer
from toolorchestra.agents.builtin.model import TokenPolicy, build_model, chat_renderer
from toolorchestra.agents.builtin.renderer import Decoded, check_prefix
from toolorchestra.agents.builtin.tool_messages import read_result
from toolorchestra.envs.answer_modes import SUBMIT_TOOL
from toolorchestra.toolscale.common.errors import OptionError

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "make_order",
            "parameters": {
                "type": "object",
                "properties": {
                    "customer": {"type": "string"},
                    "guests": {"type": "integer"},
                    "dishes": {"type": "array", "items": {"type": "string"}},
                    "tip": {"type": "number"},
                },
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "get_dish", "parameters": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
]


@pytest.fixture
def renderer() -> CompactRenderer:
    texts = ["What is the price of dish?", "please order for guests", "price is name dish"]
    values = {"dish": ["Smoked Duck", "Smoked Tofu", "D07"], "customer": ["Jasper", "Mina"], "price": [18.5, 7, 12]}
    return CompactRenderer.build(TOOLS, texts, values, min_kind=2)


def call(tool: str, /, **arguments: object) -> dict[str, object]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


def test_whole_names_and_numbers_are_one_token(renderer: CompactRenderer) -> None:
    ids = renderer.words("What is the price of Smoked Duck? 18.50")
    assert [renderer.tokens[i] for i in ids] == ["what", "is", "the", "price", "of", "Smoked Duck", "?", "18.5"]


def test_a_possessive_is_the_name_and_an_ending(renderer: CompactRenderer) -> None:
    assert renderer.text(renderer.words("Jasper's price")) == "Jasper's price"


@pytest.mark.parametrize("date", ["2025-07-30", "July 30, 2025", "30 July 2025", "Wednesday, July 30", "30th of July"])
def test_a_date_is_one_token_however_it_is_written(date: str) -> None:
    days = {"day": ["2025-07-29", "2025-07-30", "2025-08-30"]}
    renderer = CompactRenderer.build(TOOLS, ["please on"], days, min_kind=2)
    ids = renderer.words(f"on {date} please")
    assert [renderer.tokens[i] for i in ids] == ["on", "2025-07-30", "please"]
    assert renderer.text(ids) == "on 2025-07-30 please"


def test_a_date_that_the_vocabulary_lacks_is_left_as_it_is_written(renderer: CompactRenderer) -> None:
    assert renderer.pieces("on July 30, 2025") == ["on", "July", "30", ",", "2025"]


def test_unknown_words_of_a_request_are_left_out_and_names_and_ids_are_not(renderer: CompactRenderer) -> None:
    request = "Unfortunately the rambling price of Zora dish D99 is well-known. Alas!"
    prompt = renderer.encode_prompt([{"role": "user", "content": request}], TOOLS)
    assert renderer.text(prompt[1:-1]) == "the price of Zora dish D99 is.!"
    assert renderer.text(renderer.words("rambling")) == "rambling"  # in answers and results they are spelt


def test_unknown_words_are_spelt_and_read_back(renderer: CompactRenderer) -> None:
    ids = renderer.words("order Zanzibar-99 please")
    assert "<spell>" in [renderer.tokens[i] for i in ids]
    assert renderer.text(ids) == "order Zanzibar-99 please"


@pytest.mark.parametrize(
    "message",
    [
        call("get_dish", name="Smoked Duck"),
        call("make_order", customer="Mina", guests=7, dishes=["D07", "Smoked Tofu"], tip=18.5),
        call("make_order", customer="Someone Else", guests=123, dishes=[], tip=-0.25),
    ],
)
def test_calls_survive_writing_and_reading(renderer: CompactRenderer, message: dict[str, object]) -> None:
    decoded = renderer.decode_action(renderer.encode_action(message), TOOLS)
    function = message["tool_calls"][0]["function"]  # type: ignore[index]  # as made above
    assert decoded.well_formed
    assert decoded.action == [{"name": function["name"], "arguments": json.loads(function["arguments"])}]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"outcome": "done", "price": "12"},
        {"outcome": "done: refund bill", "paid_on": "2025-07-30", "at": "19:05", "who": None},
        {"dishes": ["Smoked Duck", "D07", "a dish that is unknown"], "customer": "Jasper"},
        {"difference": "-0.16", "item": "P17-SAND-3X3"},
    ],
)
def test_the_values_of_a_typed_answer_survive_writing_and_reading(answer: dict[str, Any]) -> None:
    submit = SUBMIT_TOOL.schema
    renderer = CompactRenderer.build([*TOOLS, submit], ["outcome is done"], {"dish": ["Smoked Duck"]}, min_kind=1)
    ids = renderer.encode_action(call("submit", answer=answer))
    found = renderer.decode_action(ids, [*TOOLS, submit]).action
    assert found == [{"name": "submit", "arguments": {"answer": answer}}]


@pytest.mark.parametrize(
    "tokens", [["<item>"], ["<item>", "<answer>"], ["<none>", "<item>"], ["<item>", "done", "<cut>"]]
)
def test_a_typed_answer_that_is_none_is_one_of_nothing(tokens: list[str]) -> None:
    submit = SUBMIT_TOOL.schema
    renderer = CompactRenderer.build([submit], ["done"], {})
    ids = [renderer.index[token] for token in ("<call>", "submit", "answer=", *tokens, "<end>")]
    (found,) = renderer.decode_action(ids, [submit]).action
    assert all(value is None for value in found["arguments"]["answer"].values())


def test_several_calls_of_one_turn_are_kept_apart(renderer: CompactRenderer) -> None:
    first, second = call("get_dish", name="D07"), call("get_dish", name="Smoked Duck")
    both = {"role": "assistant", "tool_calls": [*first["tool_calls"], *second["tool_calls"]]}  # type: ignore[misc]
    assert [c["arguments"]["name"] for c in renderer.decode_action(renderer.encode_action(both), TOOLS).action] == [
        "D07",
        "Smoked Duck",
    ]


def test_an_answer_is_text(renderer: CompactRenderer) -> None:
    ids = renderer.encode_action({"role": "assistant", "content": "The price is 7."})
    assert renderer.decode_action(ids, TOOLS) == ("the price is 7.", True)


@pytest.mark.parametrize("tokens", [[], ["price"], ["<answer>", "price"], ["<call>", "price", "<end>"], ["<end>"]])
def test_what_is_no_action_is_not_well_formed(renderer: CompactRenderer, tokens: list[str]) -> None:
    assert not renderer.decode_action([renderer.index[token] for token in tokens], TOOLS).well_formed


def test_results_show_keys_and_values_without_punctuation(renderer: CompactRenderer) -> None:
    content = json.dumps({"id": "call_1", "name": "get_dish", "status": "OK", "result": {"name": "D07", "price": 7}})
    ids = renderer.encode_results([{"role": "tool", "content": content}], [renderer.end_id])
    assert [renderer.tokens[i] for i in ids] == ["<result>", "name", "D07", "price", "7", "<assistant>"]


def test_errors_show_their_status(renderer: CompactRenderer) -> None:
    content = json.dumps({"status": "EXEC_ERR", "error": "order"})
    ids = renderer.encode_results([{"role": "tool", "content": content}], [renderer.end_id])
    assert renderer.tokens[ids[1]] == "EXEC_ERR"


def test_a_turn_that_was_cut_short_is_ended_first(renderer: CompactRenderer) -> None:
    assert renderer.encode_results([], [renderer.index["price"]])[0] == renderer.end_id


def test_long_results_are_cut(renderer: CompactRenderer) -> None:
    short = CompactRenderer(renderer.tokens, renderer.kinds, max_result=3)
    content = json.dumps({"status": "OK", "result": ["D07"] * 9})
    assert "<cut>" in [short.tokens[i] for i in short.encode_results([{"role": "tool", "content": content}], [])]


STEP = {"call": {"name": "get_dish", "arguments": {"dish": "Smoked Duck"}}}
ASKED: list[dict[str, Any]] = [
    {"role": "user", "content": "What is the Smoked Duck?"},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "ask_one", "arguments": "{}"}}]},
]


def observed(*results: object) -> list[dict[str, Any]]:
    """Return a conversation in which experts were asked, with their replies."""
    return [*ASKED, *({"role": "tool", "content": json.dumps({"status": "OK", "result": value})} for value in results)]


@pytest.mark.parametrize(
    ("results", "action"),
    [
        ([STEP], [STEP["call"]]),
        ([{"answer": "It is 18.5 dollars."}], "It is 18.5 dollars."),
        ([{"answer": r"\boxed{18.5}"}], r"\boxed{18.5}"),  # to a question
        (["<answer>18.5</answer>"], r"\boxed{18.5}"),
        ([{"answer": "no"}, STEP], [STEP["call"]]),  # of several, the last
    ],
)
def test_following_an_expert_takes_one_token(results: list[object], action: Any) -> None:
    renderer = CompactRenderer.build([], [], {}, follow=True)
    calls = None if isinstance(action, str) else [{"function": call} for call in action]
    message = {"role": "assistant", "content": None if calls else action, "tool_calls": calls}
    ids = renderer.encode_action(message, observed(*results))
    assert [renderer.tokens[i] for i in ids] == [FOLLOW, "<end>"]
    assert renderer.decode_action(ids, (), observed(*results)) == Decoded(action, True)


def test_another_step_than_the_proposed_is_written_in_full() -> None:
    renderer = CompactRenderer.build([], [], {}, follow=True)
    for other in ({"name": "get_dish", "arguments": {"dish": "Bread"}}, {"name": "pay", "arguments": {}}):
        ids = renderer.encode_action({"role": "assistant", "tool_calls": [{"function": other}]}, observed(STEP))
        assert renderer.index[FOLLOW] not in ids


def test_there_is_nothing_to_follow_unless_it_was_just_proposed() -> None:
    renderer = CompactRenderer.build([], [], {}, follow=True)
    ids = [renderer.index[FOLLOW], renderer.end_id]
    acted = {"role": "assistant", "content": "", "tool_calls": [{"function": STEP["call"]}]}
    result = {"role": "tool", "content": json.dumps({"status": "OK", "result": {"price": 7}})}
    failed = {"role": "tool", "content": json.dumps({"status": "TIMEOUT", "error": "…"})}
    for before in (ASKED, [*observed(STEP), acted, result], [*ASKED, failed]):
        assert not renderer.decode_action(ids, (), before).well_formed


def test_a_saved_renderer_is_the_same(renderer: CompactRenderer, tmp_path) -> None:  # type: ignore[no-untyped-def]
    renderer.save(tmp_path)
    again = CompactRenderer.load(tmp_path)
    assert (again.tokens, again.kinds) == (renderer.tokens, renderer.kinds)


def test_results_are_read_from_response_blocks_and_plain_text() -> None:
    block = '<tool_response>\n{"status": "OK", "result": 3}\n</tool_response>'
    assert read_result({"content": block})["result"] == 3
    assert read_result({"content": "plain"}) == {"status": "OK", "result": "plain"}


def test_the_prefix_check_notices_a_rewritten_token() -> None:
    check_prefix([1, 2], [1, 2, 3])
    with pytest.raises(AssertionError, match="does not begin with"):
        check_prefix([1, 2], [1, 9, 3])


# ------------------------------------------------------------------------------------------ chat templates

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}"
    "{% for c in m.tool_calls or [] %}{{ '<tool_call>' + (c.function | tojson) + '</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer(template: str | None):  # type: ignore[no-untyped-def]
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|pad|>", additional_special_tokens=["<|im_start|>"]
    )
    tokenizer.chat_template = template
    return tokenizer


def test_appended_ids_are_those_of_the_template() -> None:
    tokenizer = byte_tokenizer(CHATML)
    renderer = ChatTemplateRenderer(tokenizer)
    opening = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Price?"}]
    answer = {"role": "assistant", "content": "Let me look."}
    answered = [{"role": "tool", "content": "7"}]
    ids = renderer.encode_prompt(opening, [])
    written = renderer.encode_action(answer)
    ids += written
    ids += renderer.encode_results(answered, written)
    whole = tokenizer.apply_chat_template([*opening, answer, *answered], add_generation_prompt=True, tokenize=False)
    assert tokenizer.decode(ids) == whole
    assert renderer.decode_action(written, []) == ("Let me look.", True)


def test_a_turn_cut_short_gets_its_end_mark_from_the_template() -> None:
    renderer = ChatTemplateRenderer(byte_tokenizer(CHATML))
    written = renderer.encode_action({"role": "assistant", "content": "Let me"})[:-1]
    assert renderer.encode_results([{"role": "tool", "content": "7"}], written)[0] in renderer.stop_ids
    assert not renderer.decode_action(written, []).well_formed


def test_a_tokenizer_without_template_is_refused() -> None:
    with pytest.raises(OptionError, match="has no chat template"):
        ChatTemplateRenderer(byte_tokenizer(None))


def test_a_template_that_rewrites_earlier_turns_is_refused() -> None:
    forgetful = "{% for m in messages %}{% if loop.last or m.role != 'assistant' %}" + CHATML.split("%}", 1)[1].replace(
        "{% endfor %}{% if add", "{% endif %}{% endfor %}{% if add"
    )
    with pytest.raises(OptionError, match="not prefix-preserving"):
        ChatTemplateRenderer(byte_tokenizer(forgetful))


def test_a_template_that_trl_knows_is_replaced() -> None:
    folder = files("trl") / "chat_templates"
    tokenizer = byte_tokenizer((folder / "qwen3.jinja").read_text(encoding="utf-8"))
    with pytest.raises(OptionError, match="not prefix-preserving"):
        ChatTemplateRenderer(tokenizer)
    renderer = chat_renderer(tokenizer)
    opening = [{"role": "user", "content": "Price?"}]
    answer = call("get_dish", name="D07")
    answered = [{"role": "tool", "name": "get_dish", "content": "7"}]
    written = renderer.encode_action(answer)
    ids = renderer.encode_prompt(opening, TOOLS) + written + renderer.encode_results(answered, written)
    whole = tokenizer.apply_chat_template(
        [*opening, answer, *answered], tools=TOOLS, add_generation_prompt=True, tokenize=False
    )
    assert tokenizer.decode(ids) == whole


THINKING = CHATML.replace(
    "assistant\n' }}", "assistant\n' }}{% if enable_thinking == false %}{{ '<think></think>' }}{% endif %}"
)


def test_template_options_and_all_end_tokens_are_kept_with_the_policy(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer(THINKING)
    model = build_model(len(tokenizer), hidden=32, heads=2)
    model.generation_config.eos_token_id = [5, 9]
    model.save_pretrained(tmp_path / "given")
    tokenizer.save_pretrained(tmp_path / "given")
    opening = [{"role": "user", "content": "Price?"}]

    def shown(policy: TokenPolicy) -> str:
        text: str = policy.tokenizer.decode(policy.renderer.encode_prompt(opening, []))
        return text

    given = TokenPolicy.load(tmp_path / "given")
    assert set(given.renderer.stop_ids) == {5, 9, tokenizer.eos_token_id}
    assert not shown(given).endswith("<think></think>")
    TokenPolicy.load(tmp_path / "given", template_options={"enable_thinking": False}).save(tmp_path / "saved")
    saved = TokenPolicy.load(tmp_path / "saved")
    assert shown(saved).endswith("<think></think>")
    assert saved.renderer.stop_ids == given.renderer.stop_ids
    make_adapters(["a"], tmp_path / "given", rank=2, template_options={"enable_thinking": False})["a"].save(
        tmp_path / "adapters" / "a"
    )
    assert shown(load_adapters(["a"], tmp_path / "adapters")["a"]).endswith("<think></think>")
