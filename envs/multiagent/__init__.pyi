from .base import MultiAgentEnv as MultiAgentEnv
from .views import AgentView as AgentView, CurrentAgentEnv as CurrentAgentEnv, SingleAgentEnv as SingleAgentEnv
