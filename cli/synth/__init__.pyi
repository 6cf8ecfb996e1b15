from .commands import SynthCommand as SynthCommand
