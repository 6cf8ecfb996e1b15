"""The command `toolorchestra synth`: one module for each of its subcommands."""

from __future__ import annotations

from typing import Annotated

from tyro.conf import subcommand

from toolorchestra.cli.synth_adversarial import SynthAdversarialCommand
from toolorchestra.cli.synth_domain import SynthDomainCommand
from toolorchestra.cli.synth_masbench import SynthMASBenchCommand
from toolorchestra.cli.synth_preferences import SynthPreferencesCommand
from toolorchestra.cli.synth_tasks import SynthTasksCommand

SynthCommand = (
    Annotated[SynthDomainCommand, subcommand("domain")]
    | Annotated[SynthTasksCommand, subcommand("tasks")]
    | Annotated[SynthPreferencesCommand, subcommand("preferences")]
    | Annotated[SynthAdversarialCommand, subcommand("adversarial")]
    | Annotated[SynthMASBenchCommand, subcommand("masbench")]
)
SUBCOMMANDS = ("domain", "tasks", "preferences", "adversarial", "masbench")
"""What `synth` can make; `domain` where none is named."""
