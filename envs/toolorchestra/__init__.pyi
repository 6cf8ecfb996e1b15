from .env import ToolOrchestraEnv as ToolOrchestraEnv
