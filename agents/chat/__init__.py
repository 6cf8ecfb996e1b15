"""Chat models: one protocol for requests to language models.

::

    ChatModel               the protocol: requests in, completions out, usage in `meter`
      ├ OpenAIChat          any OpenAI-compatible server
      ├ TransformersChat    a local Hugging Face model (needs torch; imported on first use)
      ├ ScriptedChat        a fake that follows a script
      ├ RecordingChat       records the answers of another model
      ├ ReplayChat          answers from a record
      └ SharedChat          one model for all workers, so that limits and budgets hold over all of them

Simulated models are in `toolorchestra.agents.experts`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
