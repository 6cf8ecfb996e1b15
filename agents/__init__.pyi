from .chat.base import (
    BatchError as BatchError,
    ChatModel as ChatModel,
    ChatRequest as ChatRequest,
    Completion as Completion,
    Meter as Meter,
    Price as Price,
    ScriptedChat as ScriptedChat,
    ToolCall as ToolCall,
    Usage as Usage,
)
