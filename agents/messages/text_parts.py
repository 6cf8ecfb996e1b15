r"""Parsing the text of a model: its tags, its answer, its code and its queries.

Models forget tags, do not close them, and put code into fences instead. What can be read all the same is returned; else
"" or nothing. No text is ever run or evaluated here.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from toolorchestra.toolscale.answers.answers import answers
from toolorchestra.toolscale.answers.thoughts import split_thoughts

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_PROGRAM = re.compile(r"<code>|```", re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*•#]|\d+[.)])\s+")
_MAX_QUERY = 300


def spoken(text: str) -> str:
    """Return a reply without thoughts; its ``<reasoning>``, which sub-agents are asked for, is a part of it."""
    return split_thoughts(text, own=("reasoning",))[1].strip()


def tag(text: str, name: str) -> str | None:
    """Return the content of the last tag of a name, closed or not; None if there is none.

    >>> tag("<reasoning>Two and two.</reasoning> <answer>4", "answer")
    '4'
    """
    opening, closing = _tags(name)
    starts = [found.end() for found in opening.finditer(text)]
    if not starts:
        return None
    closed = closing.search(text, starts[-1])
    return text[starts[-1] : closed.start() if closed else len(text)].strip()


@functools.cache
def _tags(name: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(f"<{name}>", re.IGNORECASE), re.compile(f"</{name}>", re.IGNORECASE)


def answer_in(text: str) -> str:
    r"""Return the answer that a text marks as one, or the output of its program, or "".

    >>> answer_in(r"So <answer>it is \boxed{4}</answer>"), answer_in("<answer>4"), answer_in("Let me think.")
    ('4', '4', '')
    """
    text = spoken(text)
    if found := answers(text):
        return found[-1]
    return tag(text, "answer") or tag(text, "execution_result") or ""


def code_in(text: str) -> str:
    """Return the program that a text holds, or ""."""
    text = spoken(text)
    code = tag(text, "code")
    fenced = _FENCED.findall(text if code is None else code)
    return str(fenced[-1]).strip("\n") if fenced else code or ""


def before_code(text: str) -> str:
    """Return the text before its program."""
    return _PROGRAM.split(spoken(text), maxsplit=1)[0].strip()


def queries_in(text: str, limit: int) -> list[str]:
    r"""Return at most `limit` of the different queries in a text, which are one a line.

    >>> queries_in("<query>\n1. capital of Elbonia\n- rivers of Elbonia\n\n</query>", 8)
    ['capital of Elbonia', 'rivers of Elbonia']
    """
    lines = (tag(spoken(text), "query") or "").splitlines()
    queries = (_BULLET.sub("", line.strip())[:_MAX_QUERY].strip() for line in lines)
    return list(dict.fromkeys(query for query in queries if query))[:limit]


def as_text(value: Any) -> str:
    """Return a tool's result as text: other values than text as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
