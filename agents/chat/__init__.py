"""Chat models: one protocol for asking a model something.

::

    ChatModel               the protocol: requests in, completions out, usage in `meter`
      ├ OpenAIChat          any OpenAI-compatible server (needs the `openai` client)
      ├ TransformersChat    a local Hugging Face model (needs torch; imported on first use)
      ├ ScriptedChat        a fake that follows a script
      ├ RecordingChat       records the answers of another model
      ├ ReplayChat          answers from a record
      └ RateLimitedChat     keeps another model within requests and tokens per minute

Simulated models are in `toolorchestra.agents.experts`.
"""

from typing import TYPE_CHECKING, Any

from toolorchestra.agents.chat.base import (
    BatchError,
    ChatModel,
    ChatRequest,
    Completion,
    Meter,
    Price,
    ScriptedChat,
    ToolCall,
    Usage,
)
from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.agents.chat.rate_limits import RateLimitedChat
from toolorchestra.agents.chat.replay import RecordingChat, ReplayChat

if TYPE_CHECKING:
    from toolorchestra.agents.chat.transformers_chat import TransformersChat

__all__ = [
    "BatchError",
    "ChatModel",
    "ChatRequest",
    "Completion",
    "Meter",
    "OpenAIChat",
    "Price",
    "RateLimitedChat",
    "RecordingChat",
    "ReplayChat",
    "ScriptedChat",
    "ToolCall",
    "TransformersChat",
    "Usage",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch on first use."""
    if name == "TransformersChat":
        from toolorchestra.agents.chat.transformers_chat import TransformersChat

        return TransformersChat
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
