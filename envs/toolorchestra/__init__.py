"""ToolOrchestra: one orchestrator calls tools, and experts that are tools, until it answers (ToolOrchestra §2, §3).

`env` is the Gymnasium environment, with its tools and tool configurations. Its rules are those of
tool calling in general: `toolorchestra.envs.tool_calling`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
