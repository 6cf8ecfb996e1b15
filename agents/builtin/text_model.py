r"""The language of a built-in model that speaks in text: words, numbers and marks, a token each.

Where a protocol's actions are texts (code blocks, boxes, tags) and not tool calls, the built-in model needs no renderer
of its own: a word-level tokenizer with a chat template is enough, and `ChatTemplateRenderer` does the rest. A
number is one token wherever it stands, which a small model needs to learn to copy; spaces are not kept, line breaks
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.model import TokenPolicy, build_model
from toolorchestra.agents.builtin.renderer import SPECIAL, Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_PIECE = r"```\w+|```|\\boxed\{|\\[a-zA-Z]+|</?\w+>|//|\*\*|\w+|\n|[^\w\s]"
_TEMPLATE = (
    "{% for message in messages %}{% if message.role == 'user' %}<user>{{ message.content }}"
    "{% elif message.role == 'assistant' %}<assistant>{{ message.content }}<end>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)  # what the system says is the same in every episode: the model knows it by training
_NUMBERS = 100


def build_text_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    r"""Return a tokenizer whose vocabulary is the pieces of some texts, and small numbers.

    What is written and read back differs in spaces only; a piece outside the vocabulary is ``<unk>``.

    >>> tokenizer = build_text_tokenizer(["```python\nprint(3 // 2)\n```", r"It is \boxed{1}."])
    >>> tokenizer.decode(tokenizer("```python\nprint(17 // 2)\n```")["input_ids"])
    '```python \n print ( 17 // 2 ) \n ```'

    A command of LaTeX is one piece: torn apart (``\ frac``) it would be no answer that a checker can read.
    """
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    cutter = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("[ \t]+"), "removed"), pre_tokenizers.Split(Regex(_PIECE), "isolated")]
    )
    words = {piece for text in texts for piece, _ in cutter.pre_tokenize_str(text)}
    words |= {str(number) for number in range(_NUMBERS)}
    tokens = [*SPECIAL, *sorted(words - set(SPECIAL))]
    core = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>"))
    core.pre_tokenizer = cutter
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        bos_token="<user>",
        additional_special_tokens=["<assistant>"],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


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
