"""The forms in which models write tool calls in their text, other than Hermes blocks and bare JSON.

A form is an opening mark and a function that reads what follows it (`_FORMS`). Text from a model is hostile: all here
takes time linear in the text, reads at most `MAX_CALLS` calls, and never raises. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from toolorchestra.agents.messages.json_calls import call_of_json, objects_in
from toolorchestra.agents.messages.model_message import MAX_CALLS
from toolorchestra.agents.messages.written_values import (
    Literals,
    encoded,
    json_end,
    name_in,
    read_arguments,
    untyped_value,
)

_MAX_FAILED = 4  # calls that may be unreadable, each of which may cost a search to the end of the text
_MAX_NAME = 80

Schemas = Mapping[str, Mapping[str, Any]]
"""The JSON schema of each tool's arguments, by the tool's name."""


class WrittenCall(NamedTuple):
    """A call as it stands in a text.

    Attributes:
        start: Where it begins in the text, its marks included. Calls of one list share their place.
        end: Where it ends.
        name: The tool.
        arguments: JSON text of an object.
        error: Why it could not be read; the arguments are then ``{}``.
    """

    start: int
    end: int
    name: str
    arguments: str
    error: str = ""


_Call = tuple[str, str, str]  # name, arguments, error
_Read = tuple[list[_Call], int]  # the calls behind a mark, and where they end


class _UnreadableError(ValueError):
    """What is wrong with a call, and its name as far as it is known."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.name = name


_SPACE = re.compile(r"\s*+")


def _read_object(text: str) -> _Call:
    call = call_of_json(text)
    if call.error is not None:
        return call.name, "{}", call.error
    return call.name, *read_arguments(call.arguments.decode("utf-8", "replace"))


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _json_at(text: str, at: int, name: str = "") -> tuple[str, int]:
    """Return the JSON object or list that stands at a place, and where it ends."""
    at = _skip(text, at)
    end = json_end(text, at) if text[at : at + 1] in ("{", "[") else -1
    if end < 0:
        raise _UnreadableError("The call is cut off, or its JSON is not closed.", name or name_in(text[at : at + 1000]))
    return text[at:end], end


def _typed(values: Mapping[str, str], name: str, schemas: Schemas | None) -> str:
    properties = (schemas or {}).get(name, {}).get("properties", {})
    return encoded({key: untyped_value(text, properties.get(key)) for key, text in values.items()})


_MISTRAL = re.compile(r"([^\s\[\]{}]{1,80}+)(?:\[CALL_ID\][\w-]{0,80}+)?+\s*+\[ARGS\]\s*+")
_PYTHON = re.compile(r"\[?\s*+(?=[^\W\d][\w.-]{0,79}+\s*+\()")


def _listed(text: str, mark: re.Match[str], schemas: Schemas | None) -> _Read:
    """Objects or a list of them, ``name[ARGS]{…}``, or calls as Python writes them."""
    at = _skip(text, mark.end())
    if found := _MISTRAL.match(text, at):
        written, end = _json_at(text, found.end(), found[1])
        return [(found[1], *read_arguments(written))], end
    if found := _PYTHON.match(text, at):
        return _python_calls(text, found.end())
    calls: list[_Call] = []
    while len(calls) <= MAX_CALLS:
        written, at = _json_at(text, at)
        try:
            calls += map(_read_object, objects_in(written)[: MAX_CALLS + 1])
        except ValueError as error:
            raise _UnreadableError(str(error), name_in(written)) from None
        following = _skip(text, at)
        if text[following : following + 1] != ";":  # as Llama separates its calls
            break
        at = following + 1
    return calls, at


def _python_calls(text: str, at: int) -> _Read:
    literals = Literals(text, at)
    calls: list[_Call] = []
    while len(calls) <= MAX_CALLS:
        name = literals.token()[1].removeprefix("default_api.").removesuffix(".call")
        try:
            if not literals.take("("):
                raise ValueError("Expected '(' behind the name.")
            calls.append((name, encoded(literals.pairs(")")), ""))
        except ValueError as error:
            raise _UnreadableError(str(error), name) from None
        if not literals.take(",") and _PYTHON.match(text, _skip(text, literals.at)) is None:
            break
        if literals.take("]"):
            return calls, literals.at
    literals.take("]")
    return calls, literals.at


def _gemma(text: str, mark: re.Match[str], schemas: Schemas | None) -> _Read:
    literals = Literals(text, mark.end())
    return [(mark["name"], encoded(literals.pairs("}")), "")], literals.at


def _harmony(text: str, mark: re.Match[str], schemas: Schemas | None) -> _Read:
    written, end = _json_at(text, mark.end())
    return [(mark["name"], *read_arguments(written))], end


_DEEPSEEK = re.compile(
    r"\s*+([^\s<]{1,80}+)<｜tool▁sep｜>"
    r"(?:([^\s`{][^\n`{]{0,79}+)\s*+)?+(?:```(?:json)?+\s*+)?+"
)


def _deepseek(text: str, mark: re.Match[str], schemas: Schemas | None) -> _Read:
    found = _DEEPSEEK.match(text, mark.end())
    if found is None:
        raise _UnreadableError("Behind the mark stands no name with a JSON object.")
    name = (found[2] or found[1]).strip()
    written, end = _json_at(text, found.end(), name)
    return [(name, *read_arguments(written))], end


_TAG = r"(?:\w{1,20}+:|｜DSML｜)?+"
_PARAMETER = re.compile(r"\s*+<parameter=([^>\n]{1,80}+)>")
_FUNCTION_END = re.compile(r"\s*+(?:</function>|(?=</tool_call>))")
_INVOKE_PARAMETER = re.compile(rf'\s*+<{_TAG}parameter name="([^"\n]{{1,80}}+)"[^>\n]{{0,80}}+>')
_INVOKE_END = re.compile(rf"\s*+</{_TAG}invoke>")
_ARGUMENT = re.compile(r"\s*+<arg_key>([^<\n]{1,80}+)</arg_key>\s*+<arg_value>")
_GLM_END = re.compile(r"\s*+(?=</tool_call>)")


def _tagged(
    text: str, at: int, opening: re.Pattern[str], closing: str, end: re.Pattern[str]
) -> tuple[dict[str, str], int]:
    """Return values that stand between tags, and where the call ends that they belong to."""
    values = {}
    while found := opening.match(text, at):
        close = text.find(closing, found.end())
        if close < 0:
            raise _UnreadableError(f"The argument {found[1]!r} is not closed by {closing}.")
        values[found[1]], at = text[found.end() : close], close + len(closing)
    ended = end.match(text, at)
    if ended is None:
        raise _UnreadableError("The call is not closed, or other text stands in it.")
    return values, ended.end()


def _function(text: str, mark: re.Match[str], schemas: Schemas | None) -> _Read:
    at = _skip(text, mark.end())
    if text[at : at + 1] == "{":  # as Llama writes it
        written, at = _json_at(text, at)
        ended = _FUNCTION_END.match(text, at)
        return [(mark["name"], *read_arguments(written))], ended.end() if ended else at
    values, end = _tagged(text, at, _PARAMETER, "</parameter>", _FUNCTION_END)
    values = {key: value.removeprefix("\n").removesuffix("\n") for key, value in values.items()}
    return [(mark["name"], _typed(values, mark["name"], schemas), "")], end


def _invoke(text: str, mark: re.Match[str], schemas: Schemas | None) -> _Read:
    values, end = _tagged(text, mark.end(), _INVOKE_PARAMETER, f"</{mark['prefix']}parameter>", _INVOKE_END)
    return [(mark["name"], _typed(values, mark["name"], schemas), "")], end


def _glm(text: str, mark: re.Match[str], schemas: Schemas | None) -> _Read:
    values, end = _tagged(text, mark.end(), _ARGUMENT, "</arg_value>", _GLM_END)
    return [(mark["name"], _typed(values, mark["name"], schemas), "")], end


class _Form(NamedTuple):
    mark: str
    read: Callable[[str, re.Match[str], Schemas | None], _Read]


_NAME = rf"(?P<name>[^\s<>{{}}\[\]()\"]{{1,{_MAX_NAME}}}+)"
_FORMS = {
    "gpt-oss": _Form(
        rf"to=functions\.{_NAME}[^<\n{{]{{0,80}}+(?:<\|(?:channel|constrain)\|>[^<\n{{]{{0,80}}+){{0,3}}+(?:<\|message\|>|(?=\{{))",
        _harmony,
    ),
    "gemma": _Form(rf"(?:<\|tool_call>|<start_function_call>)\s*+call:{_NAME}\s*+\{{", _gemma),
    "function": _Form(rf"(?:<tool_call>\s*+)?+<function={_NAME}>", _function),
    "invoke": _Form(
        rf"(?:<{_TAG}function_calls>\s*+)?+<(?P<prefix>{_TAG})invoke name=\"{_NAME}\"[^>\n]{{0,80}}+>", _invoke
    ),
    "glm": _Form(rf"<tool_call>\s*+{_NAME}\s*+(?=<arg_key>|</tool_call>|\Z)", _glm),
    "deepseek": _Form(r"<｜tool▁calls▁begin｜>(?:\s*+<｜tool▁call▁begin｜>)?+|<｜tool▁call▁begin｜>", _deepseek),
    "mistral": _Form(r"\[TOOL_CALLS\]", _listed),
    "llama": _Form(r"<\|python_tag\|>", _listed),
    "lfm2": _Form(r"<\|tool_call_start\|>", _listed),
    "tool_code": _Form(r"```tool_code\s*+(?:print\()?+", _listed),
    "cohere": _Form(r"<\|START_ACTION\|>", _listed),
    "list": _Form(r"<\|tool_call\|>|<TOOLCALL>|<tool_call>\s*+(?=\[)|functools(?=\[)", _listed),
}
_MARKS = {name: re.compile(form.mark) for name, form in _FORMS.items()}
_ANY = re.compile("|".join(re.sub(r"\(\?P<\w+>", "(?:", form.mark) for form in _FORMS.values()))
_HINTS = ("<", "[TOOL_CALLS]", "```tool_code", "to=functions.", "functools[")
_CLOSING = re.compile(
    r"(?:\s*+(?:\)?+\s*+```(?!\w)|<\|/tool_call\|>|<tool_call\|>|</tool_call>|</TOOLCALL>|<\|tool_call_end\|>"
    r"|<end_function_call>|<\|END_ACTION\|>|<｜tool▁calls?▁end｜>|<\|(?:call|end|eom|eom_id)\|>"
    rf"|</{_TAG}function_calls>))++"
)
_HEADER = re.compile(r"(?:<\|start\|>assistant)?+ ?+(?:<\|channel\|>\w{1,20} ?+)?(?:to=[\w.-]{1,80}+<\|message\|>)?+\Z")


def find_calls(text: str, schemas: Schemas | None = None) -> tuple[str, list[WrittenCall]] | None:
    """Return a form's name and its calls, if the marks of one stand in a text without thoughts; else None.

    In forms that do not tell a string from a number, `schemas` say what a parameter is; without them, what can be read
    as JSON is.

    >>> find_calls('[TOOL_CALLS]get_dish[ARGS]{"dish_id": "D07"}')
    ('mistral', [WrittenCall(start=0, end=44, name='get_dish', arguments='{"dish_id": "D07"}', error='')])
    >>> find_calls("That will be $12.50.")
    """
    if not any(hint in text for hint in _HINTS) or (first := _ANY.search(text)) is None:
        return None
    form = next(name for name, mark in _MARKS.items() if mark.match(text, first.start()))
    found: list[WrittenCall] = []
    failed = at = 0
    for mark in _MARKS[form].finditer(text, first.start()):
        if mark.start() < at:  # in the arguments of the call before
            continue
        start = _start(text, mark.start(), at) if form in ("gpt-oss", "invoke") else mark.start()
        try:
            calls, end = _FORMS[form].read(text, mark, schemas)
            closing = _CLOSING.match(text, end)
            at = closing.end() if closing else end
        except ValueError as error:
            failed += 1
            following = _MARKS[form].search(text, mark.end())
            at = following.start() if following else len(text)
            calls = [(getattr(error, "name", "") or mark.groupdict().get("name", ""), "{}", str(error))]
        found += [WrittenCall(start, at, name[:_MAX_NAME], *rest) for name, *rest in calls]
        if len(found) > MAX_CALLS or failed == _MAX_FAILED:
            if len(found) > MAX_CALLS or at < len(text):
                too_many = f"The message holds more calls than are read: {min(len(found), MAX_CALLS)} were."
                found = [*found[:MAX_CALLS], WrittenCall(at, len(text), "", "{}", too_many)]
            break
    return form, found


def _start(text: str, at: int, floor: int) -> int:
    """Return where a call begins whose mark is at a place: the header of its message belongs to it."""
    header = _HEADER.search(text, max(floor, at - 200), at)
    return header.start() if header else at
