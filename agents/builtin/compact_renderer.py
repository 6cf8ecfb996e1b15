"""The renderer of the built-in model: one token per name, id and number, and no JSON punctuation."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from toolorchestra.agents.builtin.renderer import SPECIAL, Decoded, parameters_of
from toolorchestra.agents.builtin.tool_messages import (
    calls_in,
    conclusion,
    proposed_call,
    proposed_step,
    read_call,
    read_result,
)
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.toolscale.answers.mentions import replace_spoken_dates

FOLLOW = "<follow>"
"""The token by which a policy takes the step that an expert has proposed, without copying it."""
SIGNS = tuple(".,:;!?'\"$€%()[]{}+-*/=<>@#&_")
LETTERS = tuple(f"#{c}" for c in "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + "".join(SIGNS))
"""Tokens that spell words outside the vocabulary; distinct from words, so that "7" the price is a word."""
_PIECE = re.compile(r"\w(?:[\w.:@/'-]*\w)?|[^\w\s]")
_NUMBER = re.compile(r"-?\d+\.\d+$")
_NEGATIVE = re.compile(r"^- (\d[\d.]*)$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d$")
_SENTENCE_ENDS = ("", ".", "!", "?")
_GLUED_LEFT, _GLUED_RIGHT = set(".,:;!?%)]}'"), set("$€([{#@")


def canonical(piece: str) -> str:
    """Return a piece as the vocabulary spells it: decimals without trailing zeros.

    >>> canonical("18.50"), canonical("18.0"), canonical("D07")
    ('18.5', '18', 'D07')
    """
    return piece.rstrip("0").rstrip(".") if _NUMBER.match(piece) else piece


def scalar(value: Any) -> str:
    """Return a JSON scalar as text."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return canonical(repr(value)) if isinstance(value, float) else str(value)


class CompactRenderer:
    """The built-in model's language: one token for each word, name, id and number.

    =========  =================================================================================
    prompt     ``<user>`` words of the instruction ``<assistant>``
    action     ``<call>`` tool, then for each argument ``parameter=`` and its value … ``<end>``; of an object ``<item>``
               name ``<answer>`` value …, those of a list parted by ``<cut>``
    action     ``<answer>`` words ``<end>``
    action     ``<follow>`` ``<end>``: the call, or the answer, that an expert has just proposed
    results    ``<result>`` keys and scalars of each call's result … ``<assistant>``; of an expert's reply, its answer,
               or the call that it proposes as the policy itself would write it
    =========  =================================================================================

    The system prompt and the tools are left out: the model is trained on the domain and knows them. Dates that the
    vocabulary has are one token, however they are written ("Wednesday, July 30"). Of words outside the vocabulary those
    of a request that are no names are left out, since nothing taught the model what they mean; others are spelt by
    characters. The environment still validates every call.

    Args:
        tokens: The vocabulary in id order; begins with `SPECIAL`. A token may contain spaces (a whole name).
        kinds: For tokens that are *values*, the kind of value; values of one kind can replace one another
            (`toolorchestra.algos.sft` shuffles them so that a model learns to copy).
        max_result: Maximum number of ids of one call's result; the rest is cut.
    """

    def __init__(self, tokens: Sequence[str], kinds: Mapping[str, str], *, max_result: int = 160) -> None:
        self.tokens, self.kinds, self.max_result = list(tokens), dict(kinds), max_result
        self.index = {token: i for i, token in enumerate(self.tokens)}
        self.pad_id, self.end_id = self.index["<pad>"], self.index["<end>"]
        self.stop_ids: tuple[int, ...] = (self.end_id,)
        self._max_words = max((len(_PIECE.findall(token)) for token in self.tokens if " " in token), default=1)
        self._openers = {_PIECE.findall(token)[0] for token in self.tokens if " " in token}
        self._dates = {form: date for date in filter(_DATE.match, self.tokens) for form in (date, f"????{date[4:]}")}
        self._words = lru_cache(maxsize=100_000)(self._encode_words)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles begin with an empty cache."""
        return partial(type(self), max_result=self.max_result), (self.tokens, self.kinds)

    # --- building and keeping

    @classmethod
    def build(
        cls,
        tools: Iterable[Mapping[str, Any]],
        texts: Iterable[str],
        values: Mapping[str, Iterable[Any]],
        *,
        max_words: int = 4,
        min_kind: int = 5,
        min_number: int = 1,
        follow: bool = False,
    ) -> CompactRenderer:
        """Make a vocabulary from tool schemas, texts (their words) and values by kind.

        Values longer than `max_words` words are descriptions: their words count as text. Values of kinds with fewer
        than `min_kind` values (a status, a course) are tokens without a kind. Numbers that are in the texts fewer than
        `min_number` times are spelt. With `follow`, experts propose next steps.
        """
        names: set[str] = set()
        for tool in tools:
            names.add(tool["function"]["name"])
            for parameter, schema in parameters_of(tool).items():
                names |= {f"{parameter}=", *map(scalar, schema.get("enum") or ())}
        kinds: dict[str, str] = {}
        known: set[str] = set()
        for kind, members in values.items():
            texts_of_kind = sorted({canonical(scalar(member)) for member in members if member is not None})
            short = [text for text in texts_of_kind if 0 < len(_PIECE.findall(text)) <= max_words]
            if len(short) >= min_kind:
                kinds |= {text: kind for text in short if text not in kinds}
            known.update(short)
            for text in set(texts_of_kind) - set(short):
                known.update(canonical(piece).lower() for piece in _PIECE.findall(text))
        fixed = [*SPECIAL, *LETTERS, *SIGNS]
        probe = cls([*fixed, *sorted(known - set(SIGNS))], {})
        counted = Counter(piece for text in texts for piece in probe.pieces(text))
        words = {
            piece if piece in probe.index else piece.lower()
            for piece, count in counted.items()
            if piece not in known and (count >= min_number or not any(map(str.isdigit, piece)))
        }
        rest = sorted((names | known | words) - set(fixed))
        own = [FOLLOW] if follow else []
        return cls([*fixed, *own, *rest], {text: kind for text, kind in kinds.items() if text not in fixed})

    def save(self, folder: Path) -> None:
        """Write the renderer into a checkpoint folder as ``renderer.json``."""
        data = {"tokens": self.tokens, "kinds": self.kinds, "max_result": self.max_result}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "renderer.json").write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> CompactRenderer:
        """Read a renderer that `save` wrote."""
        data = json.loads((folder / "renderer.json").read_text(encoding="utf-8"))
        return cls(data["tokens"], data["kinds"], max_result=data["max_result"])

    # --- words

    def pieces(self, text: str) -> list[str]:
        """Cut a text into the longest names that the vocabulary knows, numbers, words and signs."""
        if self._dates:
            text = replace_spoken_dates(text, self._dates.get)
        spans = [match.span() for match in _PIECE.finditer(text)]
        found, i = [], 0
        while i < len(spans):
            start, end = spans[i]
            step, piece = 1, text[start:end]
            if piece in self._openers:
                for n in range(min(self._max_words, len(spans) - i), 1, -1):
                    if text[start : spans[i + n - 1][1]] in self.index:
                        step, piece = n, text[start : spans[i + n - 1][1]]
                        break
            found.append(canonical(piece))
            i += step
        return found

    def _encode_words(self, text: str) -> tuple[int, ...]:
        return tuple(self._ids(self.pieces(text)))

    def _ids(self, pieces: Iterable[str]) -> Iterator[int]:
        for piece in pieces:
            token = self.index.get(piece, self.index.get(piece.lower()))
            if token is not None:
                yield token
            elif piece.endswith("'s"):  # a possessive: the name, then the ending
                yield from self._ids([piece[:-2], "'", "s"])
            else:
                yield self.index["<spell>"]
                yield from (self.index.get(f"#{character}", self.index["<unk>"]) for character in piece)
                yield self.index["</spell>"]

    def words(self, text: str) -> list[int]:
        """Return the ids of a text.

        >>> renderer = CompactRenderer.build([], ["How much is the soup?"], {"dish": ["Smoked Duck"]})
        >>> renderer.text(renderer.words("How much is the Smoked Duck?"))
        'how much is the Smoked Duck?'
        """
        return list(self._words(text))

    def text(self, ids: Iterable[int]) -> str:
        """Return ids as text: the inverse of `words` up to case and spacing."""
        parts: list[str] = []
        spelt: str | None = None
        for i in ids:
            token = self.tokens[i]
            if token == "<spell>":
                spelt = ""
            elif token == "</spell>":
                parts.append(spelt or "")
                spelt = None
            elif spelt is not None:
                spelt += token[1:]
            elif token not in ("<pad>", "<end>"):
                parts.append(token)
        if spelt:
            parts.append(spelt)
        text = ""
        for part in parts:
            glue = not text or part in _GLUED_LEFT or text[-1] in _GLUED_RIGHT
            text += part if glue or (part == "s" and text.endswith("'")) else f" {part}"
        return text

    def plain_words(self) -> frozenset[int]:
        """Return the ids of lower-case words that are no values of a kind."""
        return frozenset(
            i for token, i in self.index.items() if token.isalpha() and token.islower() and token not in self.kinds
        )

    # --- turns

    def encode_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return ``<user>`` instruction ``<assistant>``; further user messages follow one another."""
        del tools  # known to the model by training
        ids: list[int] = []
        for message in messages:
            if message["role"] == "user":
                ids += [self.index["<user>"], *self._ids(self._known_pieces(message["content"]))]
        return [*ids, self.index["<assistant>"]]

    def _known_pieces(self, text: str) -> Iterator[str]:
        """Yield the pieces of a request, those left out that are words outside the vocabulary and no names."""
        before = ""
        for piece in self.pieces(text):
            known = piece in self.index or piece.lower() in self.index
            is_word = piece.replace("'", "").replace("-", "").isalpha() and len(piece) > 1
            if known or not is_word or not (piece.islower() or before in _SENTENCE_ENDS):
                yield piece
            before = piece

    def encode_action(self, message: Message, before: Sequence[Message] = ()) -> list[int]:
        """Return the ids of an assistant message: `FOLLOW` for a proposed step, its calls, or its text as answer."""
        calls, answer = calls_in(message), str(message.get("content") or "")
        steps: Sequence[Any] = calls if calls else [answer]
        if FOLLOW in self.index and (step := proposed_step(before)) is not None and [step] == steps:
            return [self.index[FOLLOW], self.end_id]
        if not calls:
            return [self.index["<answer>"], *self.words(answer), self.end_id]
        return [*(i for call in calls for i in self._call(call)), self.end_id]

    def _call(self, call: Mapping[str, Any]) -> list[int]:
        ids = [self.index["<call>"], self._name(call["name"])]
        for name, value in call["arguments"].items():
            ids += [self._name(f"{name}="), *(self._object(value) if isinstance(value, dict) else self._value(value))]
        return ids

    def _object(self, values: Mapping[str, Any]) -> list[int]:
        """Return the ids of an object of scalars and lists of scalars, as the answer of `submit` is."""
        ids: list[int] = []
        for name, value in values.items():
            ids += [self.index["<item>"], *self.words(name), self.index["<answer>"]]
            for number, part in enumerate(value if isinstance(value, list) else [value]):
                ids += [*([self.index["<cut>"]] if number else []), *self._value(part)]
        return ids or [self.index["<none>"]]

    def _name(self, name: str) -> int:
        return self.index.get(name, self.index["<unk>"])

    def _value(self, value: Any) -> list[int]:
        if isinstance(value, list):
            return [i for item in value for i in (self.index["<item>"], *self._value(item))] or [self.index["<none>"]]
        if isinstance(value, dict):
            return [i for key, item in value.items() for i in (*self.words(key.replace("_", " ")), *self._value(item))]
        text = scalar(value)
        exact = self.index.get(canonical(text))
        return [exact] if exact is not None else self.words(text)

    def encode_results(self, messages: Sequence[Message], written: Sequence[int]) -> list[int]:
        """Return ``<result>`` and the keys and scalars of each result, then ``<assistant>``."""
        ids = [] if written and written[-1] == self.end_id else [self.end_id]
        for message in messages:
            if message["role"] != "tool":
                ids += [self.index["<user>"], *self.words(message["content"])]
                continue
            record = read_result(message)
            ids.append(self.index["<result>"])
            status = record.get("status", "OK")
            if status == "OK":
                result = record.get("result")
                proposed = proposed_call(result)
                flat = self._call(read_call(proposed)) if proposed else self._value(conclusion(result))
                flat = flat or [self.index["<none>"]]
            else:
                flat = [self.index.get(status, self.index["<unk>"]), *self.words(str(record.get("error", "")))]
            ids += flat if len(flat) <= self.max_result else [*flat[: self.max_result], self.index["<cut>"]]
        return [*ids, self.index["<assistant>"]]

    def decode_action(
        self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]], before: Sequence[Message] = ()
    ) -> Decoded:
        """Return the calls, or the answer's text; anything else is passed on as text, not well formed."""
        body = [i for i in ids if i != self.pad_id]
        complete = bool(body) and body[-1] == self.end_id
        body = body[:-1] if complete else body
        if body == [self.index.get(FOLLOW)] and (step := proposed_step(before)) is not None:
            return Decoded(step if isinstance(step, str) else [step], complete)
        if not body or self.tokens[body[0]] not in ("<call>", "<answer>"):
            return Decoded(self.text(body), False)
        if self.tokens[body[0]] == "<answer>":
            return Decoded(self.text(body[1:]), complete and self.index["<call>"] not in body)
        schemas = {tool["function"]["name"]: parameters_of(tool) for tool in tools}
        calls, sound = [], complete
        for chunk in _split(body, self.index["<call>"]):
            name = self.tokens[chunk[0]] if chunk else ""
            parameters = schemas.get(name, {})
            groups: list[tuple[str, list[int]]] = []
            for i in chunk[1:]:
                if (key := self.tokens[i][:-1]) in parameters and self.tokens[i].endswith("="):
                    groups.append((key, []))
                elif groups:
                    groups[-1][1].append(i)
                else:
                    sound = False
            sound = sound and name in schemas and all(values for _, values in groups)
            arguments = {key: self._argument(values, parameters[key]) for key, values in groups}
            calls.append({"name": name, "arguments": arguments})
        return Decoded(calls, sound)

    def _argument(self, ids: Sequence[int], schema: Mapping[str, Any]) -> Any:
        if schema.get("type") == "array":
            items = schema.get("items") or {}
            values = [item for item in _split(ids, self.index["<item>"]) if item and item != [self.index["<none>"]]]
            return [self._argument(item, items) for item in values]
        if schema.get("type") == "object" and ids and ids[0] in (self.index["<item>"], self.index["<none>"]):
            slots = [slot for slot in _split(ids, self.index["<item>"]) if slot != [self.index["<none>"]]]
            return {self.text(name): value for name, value in map(self._slot, slots)}
        text = self.text(ids)
        if schema.get("type") in ("integer", "number", "boolean", "object"):
            try:
                return json.loads(text if schema["type"] == "object" else text.replace(" ", ""))  # "- 3" is -3
            except (ValueError, RecursionError):
                return text  # the environment says what is wrong with it
        return text

    def _slot(self, ids: Sequence[int]) -> tuple[Sequence[int], Any]:
        """Return the ids of the name in an object, and the value, whose type the environment reads."""
        mark = self.index["<answer>"]
        place = ids.index(mark) if mark in ids else len(ids)
        parts = [_signed(self.text(part)) for part in _split(ids[place + 1 :], self.index["<cut>"])]
        values = [None if part == "null" else part for part in parts]
        return ids[:place], values if len(values) > 1 else values[0] if values else None


def _signed(text: str) -> str:
    """Return a text in which a number and its sign are not apart."""
    return _NEGATIVE.sub(r"-\1", text)


def _split(ids: Sequence[int], mark: int) -> list[list[int]]:
    """Split ids at `mark`; an empty part before the first mark is left out."""
    parts: list[list[int]] = [[]]
    for i in ids:
        if i == mark:
            parts.append([])
        else:
            parts[-1].append(i)
    return parts[1:] if not parts[0] else parts
