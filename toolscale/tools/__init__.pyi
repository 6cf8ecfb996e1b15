from .guess import Guesser as Guesser
from .tool import Status as Status, Tool as Tool, ToolContext as ToolContext, ToolResult as ToolResult
