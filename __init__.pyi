from . import testing as testing
from .envs.bridges import trl as trl
from .envs.checks import check_environment as check_environment
from .envs.records.episode import Episode as Episode
from .envs.registration import (
    environment_ids as environment_ids,
    make_multiagent as make_multiagent,
    multiagent_ids as multiagent_ids,
)

__version__: str
