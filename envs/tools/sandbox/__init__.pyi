from .base import (
    Files as Files,
    InterpreterSession as InterpreterSession,
    ProgramResult as ProgramResult,
    ProgramStatus as ProgramStatus,
    Sandbox as Sandbox,
)
from .bubblewrap import BubblewrapSandbox as BubblewrapSandbox
from .choice import BACKENDS as BACKENDS, make_sandbox as make_sandbox
from .docker import DockerSandbox as DockerSandbox
from .limits import ProgramLimits as ProgramLimits
from .process import ProcessSandbox as ProcessSandbox
