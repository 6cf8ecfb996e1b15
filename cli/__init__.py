"""The command line: `toolorchestra COMMAND`, or ``python -m toolorchestra.cli COMMAND``.

From Python::

    from toolorchestra.cli import main

    status = main.main(["tasks", "ToolOrchestra-Restaurant-v0"])

Each command is a dataclass in a module of its name:

    look        envs  tasks  show  card  stats  schema
    play        play  rollout
    make        build  synth (synth_domain, synth_tasks, synth_preferences, synth_adversarial)  exchange  masbench
    check       validate  robustness
    experts     experts (experts_evaluation, experts_fit)
    designs     mas
    learn       select  train  study

`main` puts them together. They share `options` (types and bounds), `environments` (environments by name), `recorded`
(files of episodes), `output` (JSON and files), `experts_options`, `synth_options`, and `display` with
`display_tasks`, `display_episodes`, `display_domains`, `display_checks` and `display_synth`, which need rich.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "build",
    "card",
    "display",
    "environments",
    "envs",
    "exchange",
    "experts",
    "main",
    "mas",
    "masbench",
    "options",
    "output",
    "play",
    "recorded",
    "robustness",
    "rollout",
    "schema",
    "select",
    "show",
    "stats",
    "study",
    "synth",
    "tasks",
    "train",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Import a module when it is first used."""
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
