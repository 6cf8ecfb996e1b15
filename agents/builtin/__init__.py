"""The built-in model, a causal language model of about half a million parameters, and its renderers.

::

    TokenPolicy             a model, its tokenizer and its renderer (needs torch; imported on first use)
      └ AdapterPolicy       a LoRA adapter over a base shared with others (needs PEFT)
    Renderer                the protocol between messages and token ids
      ├ CompactRenderer     one token per word, name, id and number: the built-in model's language
      ├ DesignRenderer      its language for designs of multi-agent systems
      └ ChatTemplateRenderer    any Hugging Face tokenizer with a chat template

`builtin_text_policy` makes a built-in model that speaks plain text. Training is in `toolorchestra.algos`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
