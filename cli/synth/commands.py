"""The command `toolorchestra synth`: one module for each of its subcommands."""

from toolorchestra.cli.options import command_names, subcommands
from toolorchestra.cli.synth.adversarial import SynthAdversarialCommand
from toolorchestra.cli.synth.domain import SynthDomainCommand
from toolorchestra.cli.synth.masbench import SynthMASBenchCommand
from toolorchestra.cli.synth.preferences import SynthPreferencesCommand
from toolorchestra.cli.synth.select import SelectCommand
from toolorchestra.cli.synth.tasks import SynthTasksCommand

SynthCommand = subcommands(
    {
        "domain": SynthDomainCommand,
        "tasks": SynthTasksCommand,
        "preferences": SynthPreferencesCommand,
        "adversarial": SynthAdversarialCommand,
        "masbench": SynthMASBenchCommand,
        "select": SelectCommand,
    },
    {"select": "Select what to learn from: demonstrations (`sft`), tasks for reinforcement learning (`rl`, `hard`)."},
)
SUBCOMMANDS = tuple(command_names(SynthCommand))
"""What `synth` can make; `domain` where none is named."""
