"""The built-in model: a causal language model of about half a million parameters, and what translates for it.

::

    TokenPolicy             a model, its tokenizer and its renderer (needs torch; imported on first use)
      └ AdapterPolicy       a LoRA adapter over a base shared with others (needs PEFT)
    Renderer                the protocol between messages and token ids
      ├ CompactRenderer     one token per word, name, id and number: the built-in model's language
      ├ DesignRenderer      its language for designs of multi-agent systems
      └ ChatTemplateRenderer    any Hugging Face tokenizer with a chat template

`builtin_text_policy` makes a built-in model that speaks plain text. Training is in `toolorchestra.algos`.
"""

from typing import TYPE_CHECKING

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.design_renderer import DesignRenderer
from toolorchestra.agents.builtin.renderer import Decoded, Message, Renderer
from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.agents.builtin.adapters import AdapterPolicy, load_adapters, make_adapters
    from toolorchestra.agents.builtin.model import TokenPolicy, build_model, build_renderer, prepare_torch
    from toolorchestra.agents.builtin.text_model import builtin_text_policy

__all__ = [
    "AdapterPolicy",
    "ChatTemplateRenderer",
    "CompactRenderer",
    "Decoded",
    "DesignRenderer",
    "Message",
    "Renderer",
    "TokenPolicy",
    "build_model",
    "build_renderer",
    "builtin_text_policy",
    "load_adapters",
    "make_adapters",
    "prepare_torch",
]
_NEED_TORCH = {
    "adapters": ("AdapterPolicy", "load_adapters", "make_adapters"),
    "model": ("TokenPolicy", "build_model", "build_renderer", "prepare_torch"),
    "text_model": ("builtin_text_policy",),
}

__getattr__, __dir__ = lazy_face(__name__, __all__, _NEED_TORCH)
