"""Calls in the forms of many models, whole and cut off, and texts that are written to break a reader."""

import json

import pytest

from toolorchestra.agents.messages.call_forms import find_calls
from toolorchestra.agents.messages.model_message import MAX_CALLS
from toolorchestra.agents.messages.written_values import json_end, repair_json, untyped_value

MEAL = {"dish": "crème brûlée", "n": 3, "sides": ["ham", {"hot": True, "cost": None}]}
OBJECT = json.dumps(MEAL, ensure_ascii=False)
SIDES = json.dumps(MEAL["sides"])

XML = (
    "<function=order>\n<parameter=dish>\ncrème brûlée\n</parameter>\n<parameter=n>\n3\n</parameter>\n"
    f"<parameter=sides>\n{SIDES}\n</parameter>\n</function>"
)
GLM = (
    "<tool_call>order\n<arg_key>dish</arg_key>\n<arg_value>crème brûlée</arg_value>\n<arg_key>n</arg_key>\n"
    f"<arg_value>3</arg_value>\n<arg_key>sides</arg_key>\n<arg_value>{SIDES}</arg_value>\n</tool_call>"
)
GEMMA = '{dish:<|"|>crème brûlée<|"|>,n:3,sides:[<|"|>ham<|"|>,{hot:true,cost:None}]}'


def invoke(prefix: str = "", attribute: str = "") -> str:
    return (
        f'<{prefix}invoke name="order">\n<{prefix}parameter name="dish"{attribute}>crème brûlée</{prefix}parameter>\n'
        f'<{prefix}parameter name="n">3</{prefix}parameter>'
        f'<{prefix}parameter name="sides">{SIDES}</{prefix}parameter>\n</{prefix}invoke>'
    )


STRING = ' string="true"'
PYTHON = "order(dish='crème brûlée', n=3, sides=[\"ham\", {\"hot\": True, 'cost': null}])"

ONE = {
    "function": [
        f"<tool_call>\n{XML}\n</tool_call>",
        XML,
        f"<tool_call>{XML.replace(chr(10), '')}</tool_call>",
        XML.replace("</function>", "</tool_call>"),
        f"<function=order>{OBJECT}</function>",
    ],
    "llama": [
        f'<|python_tag|>{{"name": "order", "parameters": {OBJECT}}}',
        f'<|python_tag|>{{"type": "function", "name": "order", "parameters": {OBJECT}}}<|eom_id|>',
        f'<|python_tag|>{{"type": "function", "function": {{"name": "order", "arguments": {OBJECT}}}}}',
        f"<|python_tag|>{PYTHON.replace('order', 'order.call')}",
        f'<|python_tag|>[{{"name": "order", "parameters": {json.dumps(OBJECT)}}}]',
    ],
    "mistral": [
        f'[TOOL_CALLS] [{{"name": "order", "arguments": {OBJECT}}}]',
        f'[TOOL_CALLS][{{"name": "order", "arguments": {OBJECT}, "id": "123456789"}}]',
        f"[TOOL_CALLS]order[ARGS]{OBJECT}",
        f"[TOOL_CALLS]order[CALL_ID]123456789[ARGS]{OBJECT}",
        f'[TOOL_CALLS]{{"name": "order", "arguments": {OBJECT}}}',
    ],
    "gemma": [
        f"<|tool_call>call:order{GEMMA}<tool_call|>",
        f"<|tool_call>call:order{GEMMA}",
        GEMMA.replace('<|"|>', "<escape>").join(["<start_function_call>call:order", "<end_function_call>"]),
        f"<|tool_call>call:order{OBJECT}<tool_call|>",
        GEMMA.replace("hot", '<|"|>hot<|"|>').join(["<|tool_call> call:order ", "<tool_call|>"]),
    ],
    "glm": [
        GLM,
        GLM.replace("\n", ""),
        GLM.replace("order\n", "order"),
        GLM.replace("<tool_call>", "<tool_call>\n"),
        GLM.replace("null", "None").replace("None}", "null}"),
    ],
    "deepseek": [
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>order\n```json\n{OBJECT}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>order<｜tool▁sep｜>{OBJECT}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁call▁begin｜>order<｜tool▁sep｜>{OBJECT}<｜tool▁call▁end｜>",
        f"<｜tool▁calls▁begin｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>order\n```json\n{OBJECT}\n```",
        f"<｜tool▁call▁begin｜>order<｜tool▁sep｜>{OBJECT}",
    ],
    "gpt-oss": [
        f"<|start|>assistant<|channel|>commentary to=functions.order <|constrain|>json<|message|>{OBJECT}<|call|>",
        f"<|channel|>commentary to=functions.order <|constrain|>json<|message|>{OBJECT}",
        f" to=functions.order<|channel|>commentary json<|message|>{OBJECT}<|call|>",
        f" to=functions.order<|channel|>commentary <|constrain|>json<|message|>{OBJECT}",
        f"<|channel|>commentary to=functions.order<|message|>{OBJECT}",
        f" to=functions.order<|channel|>commentary json{OBJECT}",  # where marks around what is said are cut out
    ],
    "lfm2": [
        f"<|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
        f"<|tool_call_start|>{PYTHON}<|tool_call_end|>",
        f"<|tool_call_start|>[ {PYTHON.replace('=', ' = ')} ]",
        f"<|tool_call_start|>[order(dish='cr\\u00e8me br\\xfbl\\u00e9e', n=3, sides={SIDES},)]<|tool_call_end|>",
        f'<|tool_call_start|>[{{"name": "order", "arguments": {OBJECT}}}]<|tool_call_end|>',
    ],
    "tool_code": [
        f"```tool_code\n{PYTHON}\n```",
        f"```tool_code\nprint({PYTHON})\n```",
        f"```tool_code\n[{PYTHON}]\n```",
        f"```tool_code\nprint(default_api.{PYTHON})\n```",
        f"```tool_code {PYTHON}```",
    ],
    "cohere": [
        f'<|START_ACTION|>[{{"tool_call_id": "0", "tool_name": "order", "parameters": {OBJECT}}}]<|END_ACTION|>',
        f'<|START_ACTION|>[\n    {{"tool_name": "order", "parameters": {OBJECT}}}\n]<|END_ACTION|>',
        f'<|START_ACTION|>[{{"tool_name": "order", "parameters": {OBJECT}}}]',
        f'<|START_ACTION|>{{"tool_name": "order", "parameters": {OBJECT}}}<|END_ACTION|>',
        f'<|START_ACTION|> [{{"parameters": {OBJECT}, "tool_name": "order"}}]<|END_ACTION|>',
    ],
    "list": [
        f'<|tool_call|>[{{"name": "order", "arguments": {OBJECT}}}]',
        f'<|tool_call|>[{{"name": "order", "arguments": {OBJECT}}}]<|/tool_call|>',
        f'<tool_call>[{{"name": "order", "arguments": {OBJECT}}}]</tool_call>',
        f'<TOOLCALL>[{{"name": "order", "arguments": {OBJECT}}}]</TOOLCALL>',
        f'functools[{{"name": "order", "arguments": {OBJECT}}}]',
    ],
    "invoke": [
        invoke(),
        f"<function_calls>\n{invoke()}\n</function_calls>",
        f" to=order<|message|><atem:function_calls>\n{invoke('atem:')}\n</atem:function_calls><|eom|>",
        f"<｜DSML｜function_calls>\n{invoke('｜DSML｜', STRING)}\n</｜DSML｜function_calls>",
        invoke("minimax:"),
    ],
}


@pytest.mark.parametrize(("form", "text"), [(form, text) for form, texts in ONE.items() for text in texts])
def test_a_call_is_read_in_each_form_and_its_place_is_told(form: str, text: str) -> None:
    before, after = "Let me see.\n", "\nThat was it."
    found = find_calls(before + text + after)
    assert found is not None
    assert found[0] == form
    (call,) = found[1]
    assert (call.name, json.loads(call.arguments), call.error) == ("order", MEAL, "")
    assert (before + text + after)[call.start : call.end].strip() == text.strip()


TWO = [
    f"<tool_call>\n{XML}\n</tool_call>\n<tool_call>\n{XML}\n</tool_call>",
    f"<tool_call>\n{XML}\n{XML}\n</tool_call>",
    f'<|python_tag|>{{"name": "order", "parameters": {OBJECT}}}; {{"name": "order", "parameters": {OBJECT}}}',
    f'[TOOL_CALLS] [{{"name": "order", "arguments": {OBJECT}}}, {{"name": "order", "arguments": {OBJECT}}}]',
    f"[TOOL_CALLS]order[ARGS]{OBJECT}[TOOL_CALLS]order[ARGS]{OBJECT}",
    f"<|tool_call>call:order{GEMMA}<tool_call|><|tool_call>call:order{GEMMA}<tool_call|>",
    f"{GLM}\n{GLM}",
    ONE["deepseek"][0].replace("<｜tool▁calls▁end｜>", "\n")
    + ONE["deepseek"][0].removeprefix("<｜tool▁calls▁begin｜>"),
    ONE["deepseek"][2] * 2,
    ONE["gpt-oss"][0] * 2,
    f"<|tool_call_start|>[{PYTHON}, {PYTHON}]<|tool_call_end|>",
    f"```tool_code\n{PYTHON}\n{PYTHON}\n```",
    ONE["cohere"][0].replace("}]<", f'}}, {{"tool_name": "order", "parameters": {OBJECT}}}]<'),
    ONE["list"][1].replace("}]<", f'}}, {{"name": "order", "arguments": {OBJECT}}}]<'),
    f"<function_calls>\n{invoke()}\n{invoke()}\n</function_calls>",
    ONE["invoke"][2] + "<|start|>assistant" + ONE["invoke"][2],
]


@pytest.mark.parametrize("text", TWO)
def test_two_calls_are_read_in_order(text: str) -> None:
    found = find_calls(text)
    assert found is not None
    assert [(call.name, json.loads(call.arguments), call.error) for call in found[1]] == [("order", MEAL, "")] * 2
    assert found[1][0].start == 0
    assert found[1][1].end == len(text)


@pytest.mark.parametrize("text", [texts[0] for texts in ONE.values()])
def test_a_call_that_is_cut_off_is_an_error_and_never_a_call_with_less(text: str) -> None:
    whole = find_calls(text)
    for end in range(1, len(text)):
        found = find_calls(text[:end])
        if found is not None:  # before that, the mark itself is cut off
            (call,) = found[1]
            assert call.end <= end
            assert call.error or (whole and call.arguments == whole[1][0].arguments)


@pytest.mark.parametrize("text", ["That is $12.", "a < b", '<tool_call>\n{"name": "f"}\n</tool_call>', "<b>no</b>", ""])
def test_text_without_the_marks_of_a_form_has_none(text: str) -> None:
    assert find_calls(text) is None


def test_calls_without_arguments_are_calls() -> None:
    texts = ["<function=now></function>", "<tool_call>now</tool_call>", "<|tool_call>call:now{}<tool_call|>"]
    texts += ["<|tool_call_start|>[now()]<|tool_call_end|>", "[TOOL_CALLS]now[ARGS]{}", '<invoke name="now"></invoke>']
    texts += ['<|python_tag|>{"name": "now"}', '[TOOL_CALLS][{"name": "now", "arguments": null}]']
    for text in texts:
        found = find_calls(text)
        assert found is not None
        assert [call[2:] for call in found[1]] == [("now", "{}", "")]


def test_a_broken_call_does_not_take_the_good_ones_with_it() -> None:
    found = find_calls('[TOOL_CALLS]f[ARGS]{"x": [TOOL_CALLS]g[ARGS]{"y": 1}')
    assert found is not None
    assert [(call.name, call.arguments, bool(call.error)) for call in found[1]] == [
        ("f", "{}", True),
        ("g", '{"y": 1}', False),
    ]
    found = find_calls('[TOOL_CALLS][{"name": "f", "arguments": 3}, {"arguments": {}}, {"name": "g"}]')
    assert found is not None
    assert [(call.name, bool(call.error)) for call in found[1]] == [("f", True), ("", True), ("g", False)]


def test_marks_in_the_arguments_of_a_call_begin_no_other() -> None:
    found = find_calls('[TOOL_CALLS]f[ARGS]{"x": "[TOOL_CALLS]g[ARGS]{}"}')
    assert found is not None
    assert [(call.name, call.arguments) for call in found[1]] == [("f", '{"x": "[TOOL_CALLS]g[ARGS]{}"}')]


def test_a_schema_says_whether_a_text_is_a_number() -> None:
    text = "<function=f><parameter=a>007</parameter><parameter=b>12</parameter><parameter=c>12</parameter></function>"
    schemas = {"f": {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": ["string", "integer"]}}}}
    for given, wanted in ((None, {"a": "007", "b": 12, "c": 12}), (schemas, {"a": "007", "b": "12", "c": 12})):
        found = find_calls(text, given)
        assert found is not None
        assert json.loads(found[1][0].arguments) == wanted


def test_values_without_types_are_json_or_the_text_as_it_is() -> None:
    same = ["twelve", ' "quoted" ', "{broken", "NaN", "1e999", "9" * 5000, "[" * 100_000, "01"]
    assert [untyped_value(text) for text in same] == same
    assert [untyped_value(text) for text in ("True", " null", "[1, 2]", "-1.5")] == [True, None, [1, 2], -1.5]
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert [untyped_value(text, nullable) for text in ("12", "null")] == ["12", None]
    assert untyped_value("12", {"enum": ["12", "13"]}) == "12"


def test_latex_in_json_does_not_become_control_characters() -> None:
    written = r"\frac{1}{2} \times \theta \neq \nabla \beta \rho \sqrt{2} \pi \underline{x}"
    assert json.loads(repair_json(f'{{"x": "{written}"}}')) == {"x": written}
    plain = r'{"x": "a\nb\tc\\frac\"\u00e9\/ \now\tif \nu = 1"}'
    assert repair_json(plain) == plain
    assert json.loads(repair_json(r'"it\'s"')) == "it's"
    for text in (r"[TOOL_CALLS]f[ARGS]{%s}", r'[TOOL_CALLS][{"name": "f", "arguments": {%s}}]'):
        found = find_calls(text % r'"x": "\frac{1}{2}"')
        assert found is not None
        assert json.loads(found[1][0].arguments) == {"x": r"\frac{1}{2}"}
    found = find_calls(r"<|tool_call_start|>[f(x='\frac{1}{2} \d')]<|tool_call_end|>")
    assert found is not None
    assert json.loads(found[1][0].arguments) == {"x": r"\frac{1}{2} \d"}


def test_the_end_of_json_is_found_without_reading_it() -> None:
    assert json_end('{"a": "}]", "b": [1, {}]} {}', 0) == 25
    assert [json_end(text, 0) for text in ('{"a', "[" * 10, '{"a": "\\"}')] == [-1, -1, -1]
    assert json_end("[[]]]]", 0) == 4


MARKS = [
    *("<tool_call><function=f>", "<function=f><parameter=x>", "[TOOL_CALLS]", "[TOOL_CALLS][", "[TOOL_CALLS]f[ARGS]{"),
    *(
        "<|tool_call>call:f{",
        '<|tool_call>call:f{a:<|"|>',
        "<tool_call>f<arg_key>a</arg_key><arg_value>",
        "<tool_call>",
    ),
    *("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{", "to=functions.f<|message|>{", '<|tool_call_start|>[f(x="'),
    *("<|tool_call_start|>[f(x=[", '<|python_tag|>{"', '<invoke name="f"><parameter name="a">', "<function_calls>"),
    *("<|START_ACTION|>[{}", "<|tool_call|>[{},", "```tool_code\nf(a=1)\n", "functools[", "<", "<a:"),
]


@pytest.mark.parametrize("mark", MARKS)
def test_hostile_texts_are_read_in_bounds(mark: str) -> None:
    size = 50_000  # of which a reader in quadratic time would not see the end
    for tail in ("{", " ", "[", '"', '\\"', "f(a=[", "a", '{"a":', "<", "-", "\\", "9", "\ud800", "f(),", "\0"):
        for text in (mark + tail * (size // len(tail)), (mark + tail) * (size // len(mark + tail)), mark * 9 + tail):
            found = find_calls(text)
            if found is not None:
                assert 0 < len(found[1]) <= MAX_CALLS + 1
                assert all(0 <= call.start <= call.end <= len(text) for call in found[1])
                assert all(isinstance(json.loads(call.arguments), dict) for call in found[1])
                assert all(call.error for call in found[1][MAX_CALLS:])
