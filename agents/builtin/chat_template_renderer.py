"""The renderer of any Hugging Face tokenizer with a chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolorchestra.agents.builtin.renderer import Decoded
from toolorchestra.agents.builtin.template_probe import PROBE, USER, LostError, probe
from toolorchestra.agents.builtin.tool_messages import calls_in
from toolorchestra.agents.messages.content import tool_call
from toolorchestra.agents.messages.model_message import Message, ModelMessage
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.messages.template_forms import TemplateForm, candidates
from toolorchestra.toolscale.common.errors import OptionError

_OPTIONS = "template_options.json"
"""File of the template's options, beside a tokenizer's."""
_THINKING = re.compile(r"<think>\s*\Z")


class ChatTemplateRenderer:
    """Renderer of any Hugging Face tokenizer whose chat template is prefix-preserving.

    The template renders the opening once; after each turn only the text that it adds for the new messages is tokenised
    and appended. In which form the template is given tools, calls and results is tried out, so that what it renders is
    read back as the same calls: see `TemplateForm`.

    Args:
        tokenizer: A tokenizer with a chat template.
        template_options: Passed to the template (e.g. ``{"enable_thinking": False}``); ``call_format`` is ours: with
            ``native`` the template writes calls, with ``hermes`` they are text; by default the first that works.
        end_ids: Further ids that end a turn, such as those of the model's generation config (`end_ids_of`).

    Attributes:
        form: What the template renders itself.
        lost: Why it cannot show tools and calls, in any form; empty if it can. Then it is for text only.
        note: Why calls are not as the template writes them; empty if they are.

    Raises:
        OptionError: The template rewrites earlier turns when a conversation grows.
    """

    def __init__(
        self, tokenizer: Any, *, template_options: Mapping[str, Any] | None = None, end_ids: Iterable[int] = ()
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise OptionError(
                f"Tokenizer {getattr(tokenizer, 'name_or_path', tokenizer)!r} has no chat template, which turns "
                "messages into ids. Set tokenizer.chat_template, or use the built-in model (no --model)."
            )
        self.tokenizer, self.options = tokenizer, dict(template_options or {})
        self._marks = {*tokenizer.added_tokens_decoder, *tokenizer.all_special_ids}
        ends = {tokenizer.eos_token_id, *end_ids, *map(tokenizer.convert_tokens_to_ids, ("<|im_end|>", "<|eot_id|>"))}
        self._given_ends = {i for i in ends if i is not None and i != tokenizer.unk_token_id}
        self.stop_ids: tuple[int, ...] = tuple(sorted(self._given_ends))
        self.pad_id = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.lost = self._own = ""  # while forms are tried
        self.form, self.lost, self.note = self._choose()
        self._own = (
            "" if self.lost or self.form.calls == "text" else self.read_ids(self.encode_action(_calls("?"))).repaired
        )

    def _choose(self) -> tuple[TemplateForm, str, str]:
        """Return the first form that is read back, with why there is none, and why it is not the template's own."""
        wanted, lost, raised = self.options.get("call_format"), "", ""
        if wanted not in (None, "native", "hermes"):
            raise OptionError(f"`call_format` must be native or hermes, got {wanted!r}.")
        for form in candidates(wanted):
            try:
                self._use(form)
                probe(self)
            except OptionError:
                raise
            except LostError as error:
                lost = lost or str(error)
            except Exception as error:  # templates raise what they want, and so do Jinja and Python
                raised = raised or f"it raises {type(error).__name__}: {str(error)[:200]}"
            else:
                return form, "", (lost or raised) if form.format == "hermes" and wanted is None else ""
        for form in (TemplateForm("text"), TemplateForm("text", parts=True), TemplateForm("text", system=False)):
            try:
                self._use(form)
            except OptionError:
                raise
            except Exception as error:
                raised = raised or str(error)
            else:
                break
        return self.form, lost or raised, ""

    def _use(self, form: TemplateForm) -> None:
        self.form = form
        self.check_prefix()
        self._ends: dict[bool, int | None] = {}
        self.stop_ids = tuple(sorted(self._given_ends))
        self._ends[False] = self._end_mark([{"role": "assistant", "content": PROBE}], USER, set())
        if form.calls != "text":
            two, result = [_calls(PROBE)], [_result("")]
            between = self._after(self._render([USER, _calls(PROBE, PROBE)], (), False), first=True)
            self._ends[True] = self._end_mark(two, result[0], set(between))
        ends = self._given_ends | {end for end in self._ends.values() if end is not None}
        self.stop_ids = tuple(sorted(ends))

    def _end_mark(self, turn: Sequence[Message], following: Message, inside: set[int]) -> int | None:
        """Return the id that ends a turn: the last mark that it always has, or the mark of what follows it."""
        alone = self._after(self._render([USER, *turn], (), False))
        followed = self._after(self._render([USER, *turn, following], (), True))
        common = next((n for n, (a, b) in enumerate(zip(alone, followed, strict=False)) if a != b), len(alone))
        for ids in (reversed(alone[:common]), reversed(alone), followed):
            for found in ids:
                if found in self._marks and found not in inside:
                    return found
        return None

    def _after(self, text: str, *, first: bool = False) -> list[int]:
        """Return the ids of what stands behind the last (or first) probe in a text."""
        at = text.find(PROBE) if first else text.rfind(PROBE)
        if at < 0:
            raise LostError("it leaves out what an assistant says" if not self._ends else "it leaves out calls")
        end = text.rfind(PROBE) if first else len(text)
        return self._tokenize(text[at + len(PROBE) : end])

    def check_prefix(self) -> None:
        """Raise an `OptionError` if the template renders a turn differently once others follow."""
        said: Message = {"role": "assistant", "content": PROBE}
        turns: list[list[Message]] = [[USER, said]]
        if self.form.calls != "text":
            turns.append([USER, _calls(PROBE), _result(PROBE), said])
        for turn in turns:
            alone = self._render(turn, (), False)
            if self._render([*turn, USER], (), True).startswith(alone[: alone.rindex(PROBE) + len(PROBE)]):
                continue
            raise OptionError(
                "The chat template is not prefix-preserving: it renders earlier turns differently once later ones "
                "follow, so training on appended ids would not match what the model sees. Use a training template "
                "(TRL's get_training_chat_template) that keeps earlier turns unchanged."
            )

    def save_options(self, folder: Path) -> None:
        """Write the template's options into a folder, if there are any."""
        if self.options:
            (folder / _OPTIONS).write_text(json.dumps(self.options, indent=2) + "\n", encoding="utf-8")

    def _render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], more: bool) -> str:
        options = {name: value for name, value in self.options.items() if name != "call_format"}
        text: str = self.tokenizer.apply_chat_template(
            self.form.messages(messages, tools),
            tools=list(tools) if tools and self.form.tools else None,
            add_generation_prompt=more,
            tokenize=False,
            **options,
        )
        return text

    def _tokenize(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def encode_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the opening as the template renders it, generation prompt included.

        Raises:
            OptionError: There are tools, and the template cannot show them and their calls.
        """
        if tools and self.lost:
            raise OptionError(
                f"The chat template cannot be used with tools: {self.lost}. Give the model another template, such as "
                "one of TRL (trl.chat_template_utils.get_training_chat_template), or leave out `call_format`."
            )
        return self._tokenize(self._render(messages, tools, True))

    def encode_action(self, message: Message, before: Sequence[Message] = ()) -> list[int]:
        """Return the assistant turn as the template renders it, up to its end-of-turn token."""
        opening: list[Message] = [USER]
        if before and before[-1]["role"] == "tool":
            opening += [_calls("?"), _result("?")]
        prompt, text = self._render(opening, (), True), self._render([*opening, message], (), False)
        ids = self._tokenize(_added(prompt, text))
        last = next((n for n, i in enumerate(ids) if i in self.stop_ids), None)
        if last is not None:
            return ids[: last + 1]
        end = self._ends.get(bool(message.get("tool_calls")), self._ends.get(False))
        return ids if end is None else [*ids, end]

    def encode_results(self, messages: Sequence[Message], written: Sequence[int]) -> list[int]:
        """Return the ids that the template adds after an assistant turn for these messages."""
        answered = [message for message in messages if message["role"] == "tool"]
        native = bool(answered) and self.form.calls != "text"
        turn: Message = {"role": "assistant", "content": PROBE}
        if native:
            names = [call.name for call in self.read_ids(written).calls]
            names += [""] * len(answered)
            turn = _calls(
                *[PROBE] * len(answered),
                names=[message.get("name") or name or "tool" for message, name in zip(answered, names, strict=False)],
                ids=[message.get("tool_call_id") for message in answered],
            )
        alone = self._render([USER, turn], (), False)
        whole = self._render([USER, turn, *messages], (), True)
        start = alone.rindex(PROBE) + len(PROBE)
        following, closing = self._tokenize(whole[start:]), self._tokenize(alone[start:])
        common = next((n for n, (a, b) in enumerate(zip(following, closing, strict=False)) if a != b), len(closing))
        end = self._ends.get(native)
        cut = following.index(end) if end in following[: common + 1] else common if native else 0
        ids = following[cut:]
        if not (ids and written and written[-1] in self.stop_ids):
            return ids
        other = closing[:1] == [end] and ids[0] in self._marks  # a turn that others follow may have an end of its own
        return ids[1:] if other or ids[0] in self.stop_ids else ids

    def read_ids(self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]] = ()) -> ModelMessage:
        """Return what the ids say and ask for, without end-of-turn marks."""
        kept = [i for i in ids if i not in self.stop_ids and i != self.pad_id]
        text: str = self.tokenizer.decode(kept, skip_special_tokens=False)
        return read_message(text, {tool["function"]["name"]: tool for tool in tools})

    def decode_action(
        self, ids: Sequence[int], tools: Sequence[Mapping[str, Any]], before: Sequence[Message] = ()
    ) -> Decoded:
        """Return what the ids say and ask for: the text, or a message whose calls are in the template's own form."""
        del before
        found = self.read_ids(ids, tools)
        action: Any = found.raw
        if found.repaired and found.repaired == self._own:  # as the prompt asks for
            calls = [
                {"name": c.name, "arguments": c.raw or c.arguments.decode("utf-8", "replace")} for c in found.calls
            ]
            action = found.with_calls(calls)
        readable = all(call.error is None for call in found.calls)
        return Decoded(action, bool(ids) and ids[-1] in self.stop_ids and readable)

    def check_action(self, message: Message, written: Sequence[int], tools: Sequence[Mapping[str, Any]]) -> None:
        """Raise an `OptionError` if the ids that `encode_action` made of a message ask for other calls than it does."""
        wanted = [(call["name"], call["arguments"]) for call in calls_in(message)]
        if wanted and wanted != (found := self.read_ids(written, tools).asked):
            raise OptionError(
                f"What the chat template makes of {str(wanted)[:200]} is read back as {str(found)[:200]}: the policy "
                "would learn calls that are not made. Give `call_format` hermes, or the model another template."
            )


def _calls(*values: str, names: Sequence[str] = (), ids: Sequence[str | None] = ()) -> dict[str, Any]:
    """Return an assistant message with a call for each value."""
    calls = [
        tool_call(
            (ids[n] if n < len(ids) else None) or f"call_{n + 1}", names[n] if n < len(names) else "look", {"x": value}
        )
        for n, value in enumerate(values)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _result(content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "call_1", "name": "look", "content": content}


def _added(prompt: str, text: str) -> str:
    """Return what an assistant adds to a prompt, which may have begun its thought."""
    if text.startswith(prompt):
        return text[len(prompt) :]
    if (found := _THINKING.search(prompt)) and text.startswith(prompt[: found.start()]):
        rest = text[found.start() :]
        return rest.removeprefix("<think>") if rest.startswith("<think>") else f"\n</think>\n\n{rest}"
    if text.startswith(prompt.rstrip()):
        return text[len(prompt.rstrip()) :].lstrip()
    raise LostError("its generation prompt is not how it renders an assistant turn")


def saved_options(folder: Path) -> dict[str, Any]:
    """Return the options of a chat template that were saved in a folder; empty if there are none."""
    file = folder / _OPTIONS
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def end_ids_of(model: Any) -> list[int]:
    """Return the ids that end what a model writes by its generation config, which may be several."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return [] if found is None else [found] if isinstance(found, int) else list(found)
