"""The renderer of any Hugging Face tokenizer with a chat template."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolorchestra.agents.builtin.renderer import Decoded, Message
from toolorchestra.toolscale.errors import OptionError

_OPTIONS = "template_options.json"
"""File of the template's options, beside a tokenizer's."""


class ChatTemplateRenderer:
    """Renderer of any Hugging Face tokenizer whose chat template is prefix-preserving.

    The template renders the opening once; after each turn only the text that it adds for the new messages is tokenised
    and appended.

    Args:
        tokenizer: A tokenizer with a chat template that supports tools.
        template_options: Passed to the template (e.g. ``{"enable_thinking": False}``).
        end_ids: Further ids that end a turn, such as those of the model's generation config (`end_ids_of`).

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
        ends = {tokenizer.eos_token_id, *end_ids, *map(tokenizer.convert_tokens_to_ids, ("<|im_end|>", "<|eot_id|>"))}
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

    def save_options(self, folder: Path) -> None:
        """Write the template's options into a folder, if there are any."""
        if self.options:
            (folder / _OPTIONS).write_text(json.dumps(self.options, indent=2) + "\n", encoding="utf-8")

    def _render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], more: bool) -> str:
        text: str = self.tokenizer.apply_chat_template(
            list(messages), tools=list(tools) or None, add_generation_prompt=more, tokenize=False, **self.options
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
        """Return the ids that the template adds after an assistant turn for these messages."""
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


def saved_options(folder: Path) -> dict[str, Any]:
    """Return the options of a chat template that were saved in a folder; empty if there are none."""
    file = folder / _OPTIONS
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def end_ids_of(model: Any) -> list[int]:
    """Return the ids that end what a model writes by its generation config, which may be several."""
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return [] if found is None else [found] if isinstance(found, int) else list(found)
