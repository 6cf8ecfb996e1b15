"""ToolOrchestra: one orchestrator calls tools, and experts that are tools, until it answers (ToolOrchestra §2, §3).

- `env`: the Gymnasium environment, its tools and tool configurations.
- `prompts`: the orchestrator's prompt.

Its rules are those of tool calling in general: `toolorchestra.envs.tool_calling`.
"""

from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv

__all__ = ["ToolOrchestraEnv"]


def __dir__() -> list[str]:
    return __all__
