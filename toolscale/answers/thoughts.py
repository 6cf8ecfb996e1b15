"""The thoughts of a reasoning model: which part of a text is thought, and which is said.

A thought is never a call and never a part of the answer. It begins and ends with a mark, by family of models:

==============================================  =====================================================
``<think>`` … ``</think>``                      Qwen, DeepSeek and most others; also ``<thinking>``, ``<thought>`` and
                                                ``<reasoning>``, in any case and with attributes
``[THINK]`` … ``[/THINK]``                      Mistral
``◁think▷`` … ``◁/think▷``                      Kimi
``<|START_THINKING|>`` … ``<|END_THINKING|>``   Cohere
``<|channel|>analysis<|message|>`` … ``<|end|>``  gpt-oss
``<|channel>thought`` … ``<channel|>``          Gemma
`` to=self<|message|>`` … ``<|eom|>``            Muse
==============================================  =====================================================

All here takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

OPEN, CLOSE = "<tool_call>", "</tool_call>"
"""The tags of a call, as Hermes and Qwen write them."""

_TAGS = "think|thinking|thought|reasoning|seed:think"
_PAIRS = {
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    "<|start_thinking|>": "<|end_thinking|>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|channel>thought": "<channel|>",
    " to=self<|message|>": "<|eom|>",
}
_BARE = frozenset(_PAIRS.values()) - {"<|end|>", "<channel|>", "<|eom|>"}  # these end other parts, too
_CALLS = {
    "<tool_call>": "</tool_call>",
    "<|tool_call>": "<tool_call|>",
    "<start_function_call>": "<end_function_call>",
    "<function=": "</function>",
    "<function_calls>": "</function_calls>",
    "<toolcall>": "</toolcall>",
    "<｜tool▁calls▁begin｜>": "<｜tool▁calls▁end｜>",
    "<|tool_call_start|>": "<|tool_call_end|>",
    "<|start_action|>": "<|end_action|>",
    "<|channel|>commentary to=": "<|call|>",
    "[tool_calls]": "</s>",
    "<|python_tag|>": "<|eom_id|>",
}
"""Marks around calls, in lower case, in which marks of thoughts are part of the arguments."""
_ENDS_OF_CALLS = frozenset(_CALLS.values())
_MARK = re.compile(
    rf"<(?P<closes>/?)(?P<tag>{_TAGS})(?:\s[^<>]{{0,200}})?>|"
    + "|".join(re.escape(mark) for pairs in (_PAIRS, _CALLS) for pair in pairs.items() for mark in pair),
    re.IGNORECASE,
)
_FRAME = re.compile(
    r"\A ?to=user<\|message\|>"
    r"|<\|(?:start\|>assistant(?:<\|channel\|>final<\|message\|>)?|channel\|>final<\|message\|>|message\|>|end\|>"
    r"|return\|>|START_RESPONSE\|>|END_RESPONSE\|>|START_TEXT\|>|END_TEXT\|>)"
)
"""Marks around what is said."""


class Thought(NamedTuple):
    """A thought: its text, the text with its marks, and whether these are tags, which any model can write."""

    text: str
    written: str
    tagged: bool


def split_thoughts(text: str, own: Collection[str] = (), only: Collection[str] = ()) -> tuple[str, str]:
    """Return what is thought in a text, and the text without it.

    A thought ends with its mark or with the text. One may have begun in the prompt: then all before the first mark is
    thought.

    Args:
        text: What a model wrote.
        own: Tags, such as ``reasoning``, that are no thoughts here but part of a protocol's language.
        only: If given, the only tags of thoughts: all other marks are part of the language.

    >>> split_thoughts("<think>2 + 2</think>It is 4.")
    ('2 + 2', 'It is 4.')
    >>> split_thoughts("2 + 2</think>It is 4."), split_thoughts("<Thinking>2 + 2")
    (('2 + 2', 'It is 4.'), ('2 + 2', ''))
    """
    thoughts, said = thoughts_in(text, own, only)
    return "\n".join(thought.text for thought in thoughts), said


def thoughts_in(text: str, own: Collection[str] = (), only: Collection[str] = ()) -> tuple[list[Thought], str]:
    """Return the thoughts in a text, each as it is written, and the text without them; see `split_thoughts`."""
    kept: list[str] = []
    thoughts: list[Thought] = []
    place, opened, ends, calling = 0, 0, "", False  # `ends`: the mark that ends the thought in progress
    for found in _MARK.finditer(text):
        mark, tag = found[0].lower(), found["tag"]
        if mark in _CALLS or mark in _ENDS_OF_CALLS:
            if not ends:
                calling = mark in _CALLS and not only
            continue
        if calling or tag in own or (only and tag not in only):
            continue
        closing = f"/{tag.lower()}" if tag else _PAIRS.get(mark, "")
        if ends:
            if ends != (mark if not tag else closing if found["closes"] else ""):
                continue
            thoughts.append(Thought(text[place : found.start()], text[opened : found.end()], tag is not None))
            ends = ""
        elif (tag and not found["closes"]) or mark in _PAIRS:
            kept.append(text[place : found.start()])
            ends, opened = closing, found.start()
        elif tag or mark in _BARE:
            kept.append(text[place : found.start()])
            if not thoughts:  # it has begun in the prompt; later such a mark ends nothing
                before = "".join(kept)
                thoughts.append(Thought(before, before + found[0], tag is not None))
                kept.clear()
        else:
            continue
        place = found.end()
    if ends:
        thoughts.append(Thought(text[place:], text[opened:], ends[0] == "/"))
    else:
        kept.append(text[place:])
    said = "".join(kept)
    return thoughts, _FRAME.sub("", said) if "<|" in said and not only else said
