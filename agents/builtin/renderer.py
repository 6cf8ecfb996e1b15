"""Codecs: between an environment that speaks messages and a policy that speaks token ids.

A codec turns a conversation into token ids *once, from left to right*: the prompt, then by turns the policy's
own ids (kept exactly as they were sampled) and the ids of what the environment answered. Nothing is ever
re-tokenised, so the ids on which a policy is trained are the ids it saw and wrote (token-in-token-out).
`CompactRenderer` is the language of the tiny embedded model (`toolorchestra.agents.builtin.model`): one token per
name, id and number, no JSON punctuation. `ChatTemplateRenderer` serves any Hugging Face tokenizer with a chat template.
Sampling and training are elsewhere (`toolorchestra.algos.rollout.engine`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from toolorchestra.agents.subagents.reading import answer_in
from toolorchestra.toolscale.errors import OptionError

Message = Mapping[str, Any]
"""An OpenAI-style message: role, content, and for assistants perhaps `tool_calls`."""


class Decoded(NamedTuple):
    """What a policy's ids mean."""

    action: Any
    """What `env.step` is given: a list of ``{"name", "arguments"}`` or a text."""
    well_formed: bool
    """Whether the ids keep to the codec's format (the *format consistency* filter reads this)."""


class Renderer(Protocol):
    """Translates between messages and token ids.

    The contract that the rollout engine checks: a conversation's ids are ``encode_prompt`` of the opening
    messages, then for each turn the policy's ids followed by ``encode_results`` of the messages that the
    environment added. Each method sees only what is new; none may depend on re-reading earlier ids. A codec
    whose ids point into the conversation is told it by `before`, the messages so far; others need not be.
    """

    pad_id: int
    stop_ids: tuple[int, ...]

    def encode_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the ids of the opening messages, up to where the policy begins to write."""

    def encode_action(self, message: Message, before: Sequence[Message] = ()) -> list[int]:
        """Return the ids by which a policy would write this assistant message, its stop id included."""

    def encode_results(self, messages: Sequence[Message], written: Sequence[int]) -> list[int]:
        """Return the ids to append after the policy's ids `written`, up to where it writes again."""

    def decode_action(
        self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]], before: Sequence[Message] = ()
    ) -> Decoded:
        """Return the action that the policy's ids mean."""


# ------------------------------------------------------------------------------------------ compact language

SPECIAL = (
    "<pad>", "<unk>", "<end>", "<user>", "<assistant>", "<result>", "<call>", "<answer>", "<spell>", "</spell>",
    "<item>", "<none>", "<cut>", "true", "false", "null", "PARSE_ERR", "EXEC_ERR", "TIMEOUT",
)  # fmt: skip
FOLLOW = "<follow>"
"""The token of a policy that can ask minds for the next step: whoever follows need not copy."""
SIGNS = tuple(".,:;!?'\"$€%()[]{}+-*/=<>@#&_")
LETTERS = tuple(f"#{c}" for c in "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + "".join(SIGNS))
"""Tokens by which a word outside the vocabulary is spelt: apart from words, so that "7" the price is a word."""
_PIECE = re.compile(r"\w(?:[\w.:@/'-]*\w)?|[^\w\s]")
_NUMBER = re.compile(r"-?\d+\.\d+$")
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


def parameters_of(tool: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parameter schemas of an OpenAI function schema."""
    properties: dict[str, dict[str, Any]] = tool["function"].get("parameters", {}).get("properties", {})
    return properties


class CompactRenderer:
    """The tiny model's language: one token for each word, name, id and number.

    =========  =================================================================================
    prompt     ``<user>`` words of the instruction ``<assistant>``
    action     ``<call>`` tool, then for each argument ``parameter=`` and its value … ``<end>``
    action     ``<answer>`` words ``<end>``
    action     ``<follow>`` ``<end>``: the call, or the answer, that a mind has just proposed
    results    ``<result>`` keys and scalars of each call's result … ``<assistant>``; of what a mind wrote, its answer,
               or the call that it proposes as the policy itself would write it
    =========  =================================================================================

    Of the system prompt and the tools it says nothing: the tiny model is trained on the domain and knows them.
    Words outside the vocabulary are spelt by characters. The environment still validates every call.

    Args:
        tokens: The vocabulary in id order; begins with `SPECIAL`. A token may contain spaces (a whole name).
        kinds: For tokens that are *values*, the name of the set of values they belong to; values of one kind
            can stand for one another (`toolorchestra.algos.sft` shuffles them so that a model learns to copy).
        max_result: Most ids of one call's result; the rest is cut.
    """

    def __init__(self, tokens: Sequence[str], kinds: Mapping[str, str], *, max_result: int = 160) -> None:
        self.tokens, self.kinds, self.max_result = list(tokens), dict(kinds), max_result
        self.index = {token: i for i, token in enumerate(self.tokens)}
        self.pad_id, self.end_id = self.index["<pad>"], self.index["<end>"]
        self.stop_ids: tuple[int, ...] = (self.end_id,)
        self._longest = max((len(_PIECE.findall(token)) for token in self.tokens if " " in token), default=1)
        self._openers = {_PIECE.findall(token)[0] for token in self.tokens if " " in token}
        self._words = lru_cache(maxsize=100_000)(self._encode_words)

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

        Values longer than `max_words` words are descriptions, not names: their words count as text. Kinds with
        fewer than `min_kind` values (a status, a course) carry meaning: they are tokens, but not of a kind. Numbers
        that stand in the texts fewer than `min_number` times are spelt. With `follow`, minds propose next steps.
        """
        names: dict[str, None] = {}
        for tool in tools:
            names[tool["function"]["name"]] = None
            for parameter, schema in parameters_of(tool).items():
                names[f"{parameter}="] = None
                names.update(dict.fromkeys(scalar(choice) for choice in schema.get("enum") or ()))
        kinds: dict[str, str] = {}
        words: dict[str, None] = {}
        for kind, members in values.items():
            texts_of_kind = sorted({canonical(scalar(member)) for member in members if member is not None})
            short = [text for text in texts_of_kind if 0 < len(_PIECE.findall(text)) <= max_words]
            for text in short:
                if len(short) >= min_kind:
                    kinds.setdefault(text, kind)
                words[text] = None
            for text in set(texts_of_kind) - set(short):
                words.update(dict.fromkeys(canonical(piece).lower() for piece in _PIECE.findall(text)))
        known = set(words)
        probe = cls([*SPECIAL, *LETTERS, *SIGNS, *sorted(known - set(SIGNS))], {})
        counted = Counter(piece for text in texts for piece in probe.pieces(text))
        for piece, count in counted.items():
            if piece not in known and (count >= min_number or not any(map(str.isdigit, piece))):
                words[piece if piece in probe.index else piece.lower()] = None
        fixed = [*SPECIAL, *LETTERS, *SIGNS]
        rest = sorted({*names, *words} - set(fixed))
        own = [FOLLOW] if follow else []
        return cls([*fixed, *own, *rest], {text: kind for text, kind in kinds.items() if text not in fixed})

    def save(self, folder: Path) -> None:
        """Write the codec into a checkpoint folder as ``codec.json``."""
        data = {"tokens": self.tokens, "kinds": self.kinds, "max_result": self.max_result}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "codec.json").write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> CompactRenderer:
        """Read a codec that `save` wrote."""
        data = json.loads((folder / "codec.json").read_text(encoding="utf-8"))
        return cls(data["tokens"], data["kinds"], max_result=data["max_result"])

    # --- words

    def pieces(self, text: str) -> list[str]:
        """Cut a text into the longest names that the vocabulary knows, numbers, words and signs."""
        spans = [match.span() for match in _PIECE.finditer(text)]
        found, i = [], 0
        while i < len(spans):
            start, end = spans[i]
            step, piece = 1, text[start:end]
            if piece in self._openers:
                for n in range(min(self._longest, len(spans) - i), 1, -1):
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

        >>> codec = CompactRenderer.build([], ["How much is the soup?"], {"dish": ["Smoked Duck"]})
        >>> codec.text(codec.words("How much is the Smoked Duck?"))
        'how much is the Smoked Duck?'
        """
        return list(self._words(text))

    def text(self, ids: Iterable[int]) -> str:
        """Return ids as text: the inverse of `words` up to case and spacing."""
        parts: list[str] = []
        spelt: list[str] | None = None
        for i in ids:
            token = self.tokens[i]
            if token == "<spell>":
                spelt = []
            elif token == "</spell>":
                parts.append("".join(spelt or ()))
                spelt = None
            elif spelt is not None:
                spelt.append(token[1:])
            elif token not in ("<pad>", "<end>"):
                parts.append(token)
        if spelt:
            parts.append("".join(spelt))
        text = ""
        for part in parts:
            glue = not text or part in _GLUED_LEFT or text[-1] in _GLUED_RIGHT
            text += part if glue or (part == "s" and text.endswith("'")) else f" {part}"
        return text

    # --- turns

    def encode_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return ``<user>`` instruction ``<assistant>``; further user messages follow one another."""
        del tools  # known to the model by training
        ids: list[int] = []
        for message in messages:
            if message["role"] == "user":
                ids += [self.index["<user>"], *self.words(message["content"])]
        return [*ids, self.index["<assistant>"]]

    def encode_action(self, message: Message, before: Sequence[Message] = ()) -> list[int]:
        """Return the ids of an assistant message: what was proposed, its calls, or else its text as the answer."""
        if FOLLOW in self.index and (step := proposed_step(before)) is not None and step == _step(message):
            return [self.index[FOLLOW], self.end_id]
        ids: list[int] = []
        for call in message.get("tool_calls") or ():
            ids += self._call(call.get("function", call))
        if not ids:
            ids = [self.index["<answer>"], *self.words(message.get("content") or "")]
        return [*ids, self.end_id]

    def _call(self, call: Mapping[str, Any]) -> list[int]:
        arguments = call["arguments"]
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        ids = [self.index["<call>"], self._name(call["name"])]
        for name, value in arguments.items():
            ids += [self._name(f"{name}="), *self._value(value)]
        return ids

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
                flat = self._call(proposed) if proposed else self._value(conclusion(result))
                flat = flat or [self.index["<none>"]]
            else:
                flat = [
                    self.index.get(status, self.index["<unk>"]),
                    *self.words(str(record.get("error", ""))),
                ]
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
        text = self.text(ids)
        if schema.get("type") in ("integer", "number", "boolean", "object"):
            try:
                return json.loads(text if schema["type"] == "object" else text.replace(" ", ""))  # "- 3" is -3
            except ValueError:
                return text  # the environment says what is wrong with it
        return text


def _split(ids: Sequence[int], mark: int) -> list[list[int]]:
    """Split ids at `mark`; what stands before the first mark is its own part only if it is not empty."""
    parts: list[list[int]] = [[]]
    for i in ids:
        if i == mark:
            parts.append([])
        else:
            parts[-1].append(i)
    return parts[1:] if not parts[0] else parts


_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)


def conclusion(result: Any) -> Any:
    """Return the answer of what a mind wrote, any other result as it is: a tiny model is spared the reasoning."""
    if isinstance(result, dict) and list(result) == ["answer"]:
        result = result["answer"]
    return (answer_in(result) or result) if isinstance(result, str) else result


def proposed_call(result: Any) -> Mapping[str, Any] | None:
    """Return the call that a mind proposes as the next step, if it does."""
    call = result.get("call") if isinstance(result, dict) and len(result) == 1 else None
    return call if isinstance(call, dict) and {"name", "arguments"} <= set(call) else None


def proposed_step(messages: Sequence[Message]) -> dict[str, Any] | str | None:
    """Return the call or the answer that a mind proposed last since the policy last wrote; None if none did."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            break
        if message["role"] == "tool" and (record := read_result(message)).get("status", "OK") == "OK":
            result = record.get("result")
            if call := proposed_call(result):
                return {"name": call["name"], "arguments": call["arguments"]}
            if conclusion(result) is not result:
                return str(conclusion(result))
    return None


def _step(message: Message) -> dict[str, Any] | str | None:
    """Return what an assistant message does: its one call, or its answer; None if it makes several calls."""
    calls = [call.get("function", call) for call in message.get("tool_calls") or ()]
    if not calls:
        return str(message.get("content") or "")
    if len(calls) > 1:
        return None
    arguments = calls[0]["arguments"]
    return {
        "name": calls[0]["name"],
        "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments,
    }


def read_result(message: Message) -> dict[str, Any]:
    """Return a tool message's record: a dict with ``status`` and ``result`` or ``error``."""
    content = message.get("content") or ""
    match = _RESPONSE.search(content)
    try:
        record = json.loads(match.group(1) if match else content)
    except ValueError:
        return {"status": "OK", "result": content}
    return record if isinstance(record, dict) and "status" in record else {"status": "OK", "result": record}


# ------------------------------------------------------------------------------------------- chat templates


class ChatTemplateRenderer:
    """Codec of any Hugging Face tokenizer whose chat template is prefix-preserving.

    The opening is rendered once by the template; after each turn only the *difference* that the template makes
    for the new messages is tokenised and appended.

    Args:
        tokenizer: A tokenizer with a chat template that knows tools.
        template_options: Passed to the template (e.g. ``{"enable_thinking": False}``).

    Raises:
        OptionError: The template rewrites earlier turns when a conversation grows.
    """

    def __init__(self, tokenizer: Any, *, template_options: Mapping[str, Any] | None = None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise OptionError(
                f"Tokenizer {getattr(tokenizer, 'name_or_path', tokenizer)!r} has no chat template, which turns "
                "messages into ids. Set tokenizer.chat_template, or use the embedded model (no --model)."
            )
        self.tokenizer, self.options = tokenizer, dict(template_options or {})
        ends = {tokenizer.eos_token_id, *map(tokenizer.convert_tokens_to_ids, ("<|im_end|>", "<|eot_id|>"))}
        self.stop_ids: tuple[int, ...] = tuple(sorted(i for i in ends if i is not None and i != tokenizer.unk_token_id))
        self.pad_id = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self._opening = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
        probe = [*self._opening, {"role": "user", "content": "?"}]
        if not self._render(probe, (), True).startswith(self._render(self._opening, (), False).rstrip()):
            raise OptionError(
                "The chat template is not prefix-preserving: it renders earlier turns differently once later ones "
                "follow, so training on appended ids would not match what the model sees. Use a training template "
                "(TRL's get_training_chat_template) that keeps earlier turns unchanged."
            )

    def _render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], more: bool) -> str:
        text: str = self.tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            add_generation_prompt=more,
            tokenize=False,
            **self.options,
        )
        return text

    def _tokenize(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def encode_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the opening as the template renders it, generation prompt included."""
        return self._tokenize(self._render(messages, tools, True))

    def encode_action(self, message: Message, before: Sequence[Message] = ()) -> list[int]:
        """Return the assistant turn as the template renders it, up to its end-of-turn token."""
        del before
        opening = self._render(self._opening[:1], (), True)
        text = self._render([self._opening[0], message], (), False)
        if not text.startswith(opening):
            raise OptionError("The chat template's generation prompt is not how it renders an assistant turn.")
        ids = self._tokenize(text[len(opening) :])
        last = next((n for n, i in enumerate(ids) if i in self.stop_ids), len(ids) - 1)
        return ids[: last + 1]

    def encode_results(self, messages: Sequence[Message], written: Sequence[int]) -> list[int]:
        """Return what the template adds after an assistant turn for these messages."""
        before = self._render(self._opening, (), False)
        end = before.rindex("!") + 1  # the end-of-turn mark and what follows it belong to the difference
        after = self._render([*self._opening, *messages], (), True)
        ids = self._tokenize(after[end:])
        stopped = bool(written) and written[-1] in self.stop_ids
        return ids[1:] if stopped and ids and ids[0] in self.stop_ids else ids

    def decode_action(
        self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]], before: Sequence[Message] = ()
    ) -> Decoded:
        """Return the text, without end-of-turn marks; the environment parses its tool calls."""
        del tools, before
        kept = [i for i in ids if i not in self.stop_ids and i != self.pad_id]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False)
        opened, closed = text.count("<tool_call>"), text.count("</tool_call>")
        return Decoded(text, bool(ids) and ids[-1] in self.stop_ids and opened == closed)


def check_prefix(earlier: Sequence[int], later: Sequence[int]) -> None:
    """Assert the token-in-token-out invariant: `later` begins with exactly the ids `earlier`."""
    assert list(later[: len(earlier)]) == list(earlier), "a turn's prompt does not begin with all earlier ids"
