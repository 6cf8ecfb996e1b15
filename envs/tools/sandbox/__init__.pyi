from .base import Files as Files, InterpreterSession as InterpreterSession, Sandbox as Sandbox
from .bubblewrap import BubblewrapSandbox as BubblewrapSandbox
from .choice import BACKENDS as BACKENDS, make_sandbox as make_sandbox
from .docker import DockerSandbox as DockerSandbox
from .process import ProcessSandbox as ProcessSandbox
from .program import ProgramLimits as ProgramLimits, ProgramResult as ProgramResult, ProgramStatus as ProgramStatus
