"""Agents: chat models, simulated experts, sub-agents and policies. Imports `toolorchestra.toolscale` only.

::

    messages     what models write: thoughts, text and calls; what goes back to them
    chat         chat models: OpenAI-compatible servers, local models, recorded and scripted answers
    experts      the catalogue of experts, simulated experts, and fitting them to real answers
    subagents    functions over chat models: chain of thought, self-consistency, debate, search, code …
    policies     policies that play environments: reference policies, baselines, chat models, humans
    builtin      the small built-in model, its renderers, and LoRA adapters (needs torch)
    problems     ground truth that simulated models answer from

The chat model protocol and its types are at hand here; everything else is in the packages.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
