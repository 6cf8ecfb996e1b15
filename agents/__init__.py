"""Minds: chat models, simulated experts, sub-agents and policies.

Only the light parts are imported here; `toolorchestra.agents.openai_chat` and
`toolorchestra.agents.transformers_chat` bring their libraries along and are imported by name.
"""

from toolorchestra.agents.chat import (
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
