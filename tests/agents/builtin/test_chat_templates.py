"""The oracle plays through the chat templates that the installed TRL ships, as the table in the documents says."""

from __future__ import annotations

import copy
import importlib
import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("torch", reason="needs the extra `train`", exc_type=ImportError)
pytest.importorskip("trl", reason="needs the extra `train`", exc_type=ImportError)

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.model import chat_renderer
from toolorchestra.algos.data.demonstrations import Demonstration, encode
from toolorchestra.algos.options.smoke import tiny_tokenizer
from toolorchestra.toolscale.common.errors import OptionError

ROOT = Path(__file__).parents[3]
RECORD = json.loads((ROOT / "benchmarks" / "results" / "chat_templates.json").read_text(encoding="utf-8"))
SEVERAL = "ParaManager-Restaurant-v0"
"""Where the oracle makes several calls in a message."""


@pytest.fixture(scope="module")
def script() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("chat_templates")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


def play(script: Any, tokenizer: Any, name: str, *ids: str, tasks: int = 1) -> None:
    row, renderer = script.described(script.templates()[name], copy.deepcopy(tokenizer))
    assert row == RECORD["templates"][name], "run benchmarks/chat_templates.py --record and benchmarks/tables.py"
    assert row["works"] or row["why"]
    for env_id in ids if row["works"] else ():
        env = gym.make(env_id)
        for seed in range(tasks):
            assert script.earned(env, seed, renderer) == script.earned(env, seed, None)


@pytest.mark.parametrize("name", RECORD["templates"])
def test_a_template_gives_the_oracle_what_it_earns_or_is_refused(name: str, script: Any, tokenizer: Any) -> None:
    play(script, tokenizer, name, RECORD["environment"])


@pytest.mark.long
@pytest.mark.parametrize("name", RECORD["templates"])
def test_more_tasks_and_several_calls_in_a_message(name: str, script: Any, tokenizer: Any) -> None:
    play(script, tokenizer, name, RECORD["environment"], SEVERAL, tasks=3)


def test_the_record_is_of_the_installed_templates_and_most_work(script: Any) -> None:
    assert list(RECORD["templates"]) == list(script.templates())
    assert sum(row["works"] for row in RECORD["templates"].values()) >= 30
    forms = [row["form"] for row in RECORD["templates"].values() if row["works"]]
    assert sum(form.startswith("native") for form in forms) >= 30


def renderer(tokenizer: Any, name: str, script: Any, **options: Any) -> ChatTemplateRenderer:
    fresh = copy.deepcopy(tokenizer)
    fresh.chat_template = script.templates()[name].read_text(encoding="utf-8")
    fresh.add_tokens(sorted(set(script.MARK.findall(fresh.chat_template))))
    return chat_renderer(fresh, options)


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Order a dish.",
            "parameters": {"type": "object", "properties": {"code": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }
]
ORDER = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "order", "arguments": '{"code": "12", "n": 1}'}}
    ],
}
OPENING = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A soup."}]
RESULT = {"role": "tool", "tool_call_id": "c1", "name": "order", "content": '{"status": "OK"}'}


@pytest.mark.parametrize("name", ["qwen2_5", "glm4moe", "lfm2_v2", "gemma4", "qwen3_vl", "qwen3_6"])
def test_ids_are_those_of_the_whole_conversation(name: str, script: Any, tokenizer: Any) -> None:
    made = renderer(tokenizer, name, script)
    ids, messages = made.encode_prompt(OPENING, TOOLS), list(OPENING)
    for message, answers in ((ORDER, [RESULT]), (ORDER, [RESULT, {"role": "user", "content": "And?"}])):
        written = made.encode_action(message, messages)
        ids += written + made.encode_results(answers, written)
        messages += [message, *answers]
    whole = made.tokenizer.apply_chat_template(
        made.form.messages(messages, TOOLS), tools=TOOLS, tokenize=False, add_generation_prompt=True
    )
    assert made.tokenizer.decode(ids) == whole


def test_types_of_parameters_decide_what_a_text_means(script: Any, tokenizer: Any) -> None:
    for name in ("qwen3_6", "glm4moe"):
        made = renderer(tokenizer, name, script)
        written = made.encode_action(ORDER, OPENING)
        assert made.read_ids(written, TOOLS).asked == [("order", {"code": "12", "n": 1})]
        made.check_action(ORDER, written, TOOLS)
        with pytest.raises(OptionError, match=r"is read back as .*call_format"):
            made.check_action(ORDER, written, ())


@pytest.mark.parametrize("name", ["qwen2_5", "glm4moe", "qwen3_6"])
def test_where_messages_list_the_tools_calls_are_learnt_as_text(name: str, script: Any, tokenizer: Any) -> None:
    made = renderer(tokenizer, name, script)
    ids, mask = encode(made, Demonstration((*OPENING, ORDER, RESULT, ORDER), ()))
    own = made.tokenizer.decode([one for one, is_own in zip(ids, mask, strict=True) if is_own])
    assert own.count('<tool_call>\n{"name": "order", "arguments": {"code": "12", "n": 1}}\n</tool_call>') == 2
    assert "Order a dish." not in made.tokenizer.decode(ids)


def test_calls_may_be_written_as_text_in_any_template(script: Any, tokenizer: Any) -> None:
    made = renderer(tokenizer, "qwen3_6", script, call_format="hermes")
    written = made.encode_action(ORDER, OPENING)
    assert '<tool_call>\n{"name": "order"' in made.tokenizer.decode(written)
    assert '"name": "order"' in made.tokenizer.decode(made.encode_prompt(OPENING, TOOLS))
    assert not made.note
    with pytest.raises(OptionError, match="must be native or hermes"):
        renderer(tokenizer, "qwen3_6", script, call_format="json")


def test_what_a_template_loses_is_said(script: Any, tokenizer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made = renderer(tokenizer, "llama3_2", script)
    assert made.form.format == "hermes"
    assert re.search("note: .*single tool-calls.*<tool_call>", capsys.readouterr().err)
    with pytest.raises(OptionError, match=r"cannot be used with tools: .*single tool-calls"):
        renderer(tokenizer, "llama3_2", script, call_format="native").encode_prompt(OPENING, TOOLS)


def test_demonstrations_through_a_template_that_loses_calls_are_refused(script: Any, tokenizer: Any) -> None:
    made = renderer(tokenizer, "llama3_2", script, call_format="native")
    with pytest.raises(OptionError, match="cannot be used with tools"):
        encode(made, Demonstration((*OPENING, ORDER), tuple(TOOLS)))
    assert made.encode_prompt(OPENING, ())  # without tools it is as good as any


def test_a_broken_call_is_not_well_formed(script: Any, tokenizer: Any) -> None:
    made = renderer(tokenizer, "qwen3_6", script)
    text = "<tool_call>\n<function=order>\n<parameter=code>\n12\n</function>\n</tool_call><|im_end|>"
    action, well_formed = made.decode_action(made._tokenize(text), TOOLS)
    assert not well_formed
    assert "<parameter=code>" in action
