"""Values as models write them: JSON with stray backslashes, literals of Python and Gemma, and texts without a type.

All here takes time linear in the text. What cannot be read raises `ValueError` with the reason; nothing is evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

_MAX_DEPTH = 32
_LATEX = {
    "b": "bar begin beta bf big bigcap bigcup bigg bigl bigr binom bmod bot boldsymbol boxed bullet",
    "f": "fbox flat floor forall frac frown",
    # without \ne, \nu, \tan, \to and the like, which are white space and a word in programs and lists
    "n": "nabla nearrow neq newline nexists ngeq nleq nmid nonumber not notin nparallel nsubseteq",
    "r": "rangle rbrace rceil rfloor rho right rightarrow rightleftharpoons rm root rvert",
    "t": "tanh tau text textbf textit textrm textsf texttt tfrac theta therefore tilde times triangle",
}
_WORDS = frozenset(word for words in _LATEX.values() for word in words.split())
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|([A-Za-z]++)|(['\"\\/]?))")


def repair_json(text: str) -> str:
    r"""Return JSON text in which backslashes that JSON would refuse or misread are doubled; else unchanged.

    Those are the backslashes of LaTeX commands, of which ``\f``, ``\t``, ``\n``, ``\b`` and ``\r`` would become control
    characters, and of other letters that JSON has no escape for. An escaped apostrophe becomes one.

    >>> print(repair_json(r'{"x": "\frac{1}{2}\n\sqrt{2} \\times"}'))
    {"x": "\\frac{1}{2}\n\\sqrt{2} \\times"}
    """
    return _ESCAPE.sub(_repaired, text) if "\\" in text else text


def _repaired(found: re.Match[str]) -> str:
    if word := found[1]:
        return found[0] if word[0] in _LATEX and word not in _WORDS else "\\" + found[0]
    if found[2] is None:  # four hexadecimal digits
        return found[0]
    return {"'": "'", "": "\\\\"}.get(found[2], found[0])


_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?+|[\[{]++|[\]}]++', re.DOTALL)  # a string may be cut off


def json_end(text: str, at: int) -> int:
    """Return where the JSON object or list that begins at a place ends; -1 if it is not closed."""
    depth = 0
    for found in _BRACKETS.finditer(text, at):
        start, end = found.span()
        if text[start] in "[{":
            depth += end - start
        elif text[start] in "]}":
            if depth <= end - start:
                return start + depth
            depth -= end - start
    return -1


_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_string = msgspec.json.Decoder(str)


def read_arguments(text: str) -> tuple[str, str]:
    """Return the JSON text of an object, which may be written as a string that holds it, and what is wrong with it."""
    try:
        if text.lstrip()[:1] == '"':
            text = _string.decode(repair_json(text)) or "{}"
        repaired = repair_json(text)
        _object.decode(repaired)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        return "{}", f"The call is not valid: {reason(error)}."
    return repaired, ""


def is_json(text: str) -> bool:
    """Return whether a text is valid JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return True


def reason(error: Exception) -> str:
    """Return what a decoder says is wrong."""
    return "it is nested too deep" if isinstance(error, RecursionError) else str(error)[:200]


def name_in(text: str) -> str:
    """Return the name in the JSON of a call that cannot be read; empty if none is seen."""
    found = re.search(r'"(?:tool_)?name"\s*+:\s*+"([\w.-]{1,80})"', text[:1000])
    return found[1] if found else ""


_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


def untyped_value(text: str, schema: Mapping[str, Any] | None = None) -> Any:
    """Return the value that a form without types means: JSON if it is that, else the text, as for a string parameter.

    A JSON string in quotes stays as it is: these forms write none.

    >>> untyped_value("12"), untyped_value("12", {"type": "string"}), untyped_value("twelve")
    (12, '12', 'twelve')
    """
    bare = text.strip()
    kinds = _kinds(schema or {})
    if "string" in kinds and kinds <= {"string", "null"}:
        return None if "null" in kinds and bare in ("null", "None") else text
    if bare in _CONSTANTS:
        return _CONSTANTS[bare]
    try:
        value = json.loads(repair_json(bare), parse_constant=_refused)
        encoded({"": value})  # of which infinity is no JSON
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, str) else value


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    if kind is not None:
        return {kind} if isinstance(kind, str) else set(kind)
    if options := schema.get("enum"):
        return {"string"} if all(isinstance(option, str) for option in options) else set()
    return {one for option in schema.get("anyOf") or schema.get("oneOf") or () for one in _kinds(option) or {"any"}}


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def encoded(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON text."""
    return json.dumps(arguments, ensure_ascii=False, allow_nan=False)


_TOKEN = re.compile(
    r"""\s*+(?:(?P<quoted>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')|(?P<number>-?\d++(?:\.\d*+)?+(?:[eE][+-]?+\d++)?+)
    |(?P<word>[^\W\d][\w.-]*+)|(?P<mark><\|"\|>|<escape>)|(?P<sign>[\[\](){}:=,]))""",
    re.DOTALL | re.VERBOSE,
)
_PYTHON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([A-Za-z]++|.))", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


class Literals:
    """A reader of literals as Python, JSON and Gemma write them, from a place of a text on.

    Attributes:
        at: Up to where it has read.
    """

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def token(self) -> tuple[str, str]:
        """Return the kind and text of what comes next, which is then read."""
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise ValueError(f"It is not closed, or wrong at {self.text[self.at : self.at + 20]!r}.")
        self.at = found.end()
        kind = found.lastgroup or ""
        return kind, found[kind]

    def take(self, sign: str) -> bool:
        """Whether this sign comes next, which is then read."""
        found = _TOKEN.match(self.text, self.at)
        if found is None or found["sign"] != sign:
            return False
        self.at = found.end()
        return True

    def pairs(self, close: str, depth: int = 0) -> dict[str, Any]:
        """Return names and values up to a closing sign; the opening one is read already."""
        found: dict[str, Any] = {}
        while not self.take(close):
            kind, token = self.token()
            key = token if kind == "word" else self._quoted(kind, token)
            if key is None or not (self.take(":") or self.take("=")):
                raise ValueError(f"Expected a name and a value at {token[:20]!r}.")
            found[key] = self._value(depth + 1)
            if not self.take(",") and not self._closes(close):
                raise ValueError(f"It is not closed by {close!r}.")
        return found

    def _closes(self, close: str) -> bool:
        found = _TOKEN.match(self.text, self.at)
        return found is not None and found["sign"] == close

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise ValueError("It is nested too deep.")
        kind, token = self.token()
        if kind == "word" and token in _CONSTANTS:
            return _CONSTANTS[token]
        if kind == "number":
            return int(token) if token.lstrip("-").isdigit() else float(token)
        if (text := self._quoted(kind, token)) is not None:
            return text
        if token == "{":
            return self.pairs("}", depth)
        if token != "[":
            raise ValueError(f"{token[:20]!r} is not a value.")
        items: list[Any] = []
        while not self.take("]"):
            items.append(self._value(depth + 1))
            if not self.take(",") and not self._closes("]"):
                raise ValueError("A list is not closed by ']'.")
        return items

    def _quoted(self, kind: str, token: str) -> str | None:
        if kind == "quoted":
            plain = _PYTHON_ESCAPE.sub(_character, token[1:-1])
            return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if kind != "mark":
            return None
        start = self.at  # Gemma's strings are raw text between two marks
        end = self.text.find(token, start)
        if end < 0:
            raise ValueError("A text is not closed.")
        self.at = end + len(token)
        return self.text[start:end]


def _character(found: re.Match[str]) -> str:
    if code := found[1] or found[2]:
        return chr(int(code, 16))
    word = found[3]
    if word in "\\'\"/":
        return word
    plain = _CHARACTERS.get(word[0])
    return found[0] if plain is None or word in _WORDS else plain + word[1:]
