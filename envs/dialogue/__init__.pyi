from .env import (
    DialogueEnv as DialogueEnv,
    env as env,
    parallel_env as parallel_env,
    random_message as random_message,
    raw_env as raw_env,
    single_env as single_env,
)
from .user import ChatUser as ChatUser, ScriptedUser as ScriptedUser
