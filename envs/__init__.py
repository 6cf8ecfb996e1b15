"""Environments: orchestration as Gymnasium and PettingZoo environments.

The kernel is the files of this folder::

    world          what is asked of a world          episode        the record of an episode
    play           rules, with no environment        tool_calling   the rules of tool calling by one agent
    executor       runs the calls of a message       parsing        from text to calls
    task_env       what all environments share       base           Gymnasium's interface
    rewards        M(τ), preferences                 registration   every id

Around it: `multiagent` (PettingZoo's interface), `tools` (sandboxes, search, experts as tools), `ground_truth` (what
simulated models answer from), `sources` (where tasks come from), `checks`, and a package for each protocol:
`toolorchestra`, `paramanager`, `masorchestra`, `msarl`, `tmatr`, `dialogue`.
"""

from toolorchestra.envs.registration import environment_ids, make_multiagent, multiagent_ids, view_ids
from toolorchestra.toolscale.faces import lazy_face

_MODULES = {
    "base": ("OrchestrationEnv", "OrchestrationOptions"),
    "checks": ("CheckReport", "check_environment"),
    "episode": ("CallRecord", "Episode", "Turn", "read_episodes", "write_episodes"),
    "multiagent.base": ("MultiAgentEnv",),
    "multiagent.views": ("CurrentAgentEnv", "SingleAgentEnv"),
    "play": ("EpisodeLimits", "Play"),
    "recording": ("Recording", "play_many"),
    "render": ("episode_text",),
    "rewards": ("Preference", "preference_rewards"),
    "task_env": ("EpisodeSetup", "TaskEnv", "TaskOptions"),
    "tool_calling": ("ToolCallingPlay",),
}

__all__ = [
    "CallRecord",
    "CheckReport",
    "CurrentAgentEnv",
    "Episode",
    "EpisodeLimits",
    "EpisodeSetup",
    "MultiAgentEnv",
    "OrchestrationEnv",
    "OrchestrationOptions",
    "Play",
    "Preference",
    "Recording",
    "SingleAgentEnv",
    "TaskEnv",
    "TaskOptions",
    "ToolCallingPlay",
    "Turn",
    "check_environment",
    "environment_ids",
    "episode_text",
    "make_multiagent",
    "multiagent_ids",
    "play_many",
    "preference_rewards",
    "read_episodes",
    "view_ids",
    "write_episodes",
]

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
