from .base import (
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
from .openai_chat import OpenAIChat as OpenAIChat
from .replay import RecordingChat as RecordingChat, ReplayChat as ReplayChat
from .shared import SharedChat as SharedChat
from .transformers_chat import TransformersChat as TransformersChat
