r"""The built-in model for protocols whose actions are text (code blocks, boxes, tags) instead of tool calls.

Its tokenizer has a token for each word, number and sign, and a chat template for `ChatTemplateRenderer`. A number is
one token everywhere, which a small model needs to learn to copy; line breaks are kept, spaces are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.model import TokenPolicy, build_model, word_level_tokenizer
from toolorchestra.agents.builtin.renderer import SPECIAL
from toolorchestra.agents.messages.model_message import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_PIECE = r"```\w+|```|\\boxed\{|\\[a-zA-Z]+|</?\w+>|//|\*\*|\w+|\n|[^\w\s]"
_TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'user' %}<user>{{ message.content }}"
    "{% elif message.role == 'assistant' %}<assistant>{{ message.content }}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)  # system messages are left out: they are the same in every episode
_NUMBERS = 100


def build_text_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    r"""Return a tokenizer whose vocabulary is the pieces of some texts, and small numbers.

    Decoded text differs in spaces only; a piece outside the vocabulary is ``<unk>``.

    >>> tokenizer = build_text_tokenizer(["```python\nprint(3 // 2)\n```", r"It is \boxed{1}."])
    >>> tokenizer.decode(tokenizer("```python\nprint(17 // 2)\n```")["input_ids"])
    '```python \n print ( 17 // 2 ) \n ```'

    A command of LaTeX is one piece, since checkers could not read one with spaces (``\ frac``).
    """
    from tokenizers import Regex, pre_tokenizers

    cutter = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("[ \t]+"), "removed"), pre_tokenizers.Split(Regex(_PIECE), "isolated")]
    )
    words = {piece for text in texts for piece, _ in cutter.pre_tokenize_str(text)}
    words |= {str(number) for number in range(_NUMBERS)}
    tokens = [*SPECIAL, *sorted(words - set(SPECIAL))]
    tokenizer = word_level_tokenizer(
        {token: i for i, token in enumerate(tokens)},
        cutter,
        additional_special_tokens=["<assistant>"],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def unknown_pieces(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Counter[str]:
    r"""Return the pieces of texts that a tokenizer of `build_text_tokenizer` reads as ``<unk>``, with their number.

    >>> unknown_pieces(build_text_tokenizer(["White to move."]), ["White to move: \u265a, \u265a"])
    Counter({'♚': 2, ':': 1, ',': 1})
    """
    known, cutter = tokenizer.get_vocab(), tokenizer.backend_tokenizer.pre_tokenizer
    return Counter(piece for text in texts for piece, _ in cutter.pre_tokenize_str(text) if piece not in known)


def builtin_text_policy(conversations: Iterable[Sequence[Message]], *, seed: int = 0) -> TokenPolicy:
    """Return an untrained built-in model that knows the words of some conversations (system messages aside)."""
    texts = (
        str(message["content"])
        for conversation in conversations
        for message in conversation
        if message["role"] != "system"
    )
    tokenizer = build_text_tokenizer(texts)
    return TokenPolicy(build_model(len(tokenizer), seed=seed), tokenizer, ChatTemplateRenderer(tokenizer))
