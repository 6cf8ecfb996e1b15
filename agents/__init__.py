"""Minds: chat models, simulated experts, sub-agents and policies.

Only the light parts are imported here; `toolorchestra.agents.chat.openai_chat` and
`toolorchestra.agents.chat.transformers_chat` bring their libraries along and are imported by name.
"""

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

__all__ = [
    "BatchError",
    "ChatModel",
    "ChatRequest",
    "Completion",
    "Meter",
    "Price",
    "ScriptedChat",
    "ToolCall",
    "Usage",
]
