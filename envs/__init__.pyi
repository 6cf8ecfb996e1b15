from .base import OrchestrationEnv as OrchestrationEnv, OrchestrationOptions as OrchestrationOptions
from .checks import (
    CheckReport as CheckReport,
    Reverified as Reverified,
    check_environment as check_environment,
    reverify as reverify,
)
from .executor import ToolFaultWarning as ToolFaultWarning
from .multiagent.base import MultiAgentEnv as MultiAgentEnv
from .multiagent.views import CurrentAgentEnv as CurrentAgentEnv, SingleAgentEnv as SingleAgentEnv
from .play import EpisodeLimits as EpisodeLimits, Play as Play
from .records.episode import (
    CallRecord as CallRecord,
    Episode as Episode,
    Turn as Turn,
    read_episodes as read_episodes,
    write_episodes as write_episodes,
)
from .records.recording import Recording as Recording
from .records.render import episode_text as episode_text
from .records.unjudged import EvaluationError as EvaluationError
from .registration import (
    environment_ids as environment_ids,
    make_multiagent as make_multiagent,
    multiagent_ids as multiagent_ids,
    view_ids as view_ids,
)
from .rewards import Preference as Preference, preference_rewards as preference_rewards
from .run_episodes import run_all as run_all, run_episodes as run_episodes
from .starts import EpisodeStart as EpisodeStart
from .task_env import EpisodeSetup as EpisodeSetup, TaskEnv as TaskEnv, TaskOptions as TaskOptions
from .tool_calling import ToolCallingPlay as ToolCallingPlay
