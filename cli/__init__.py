"""The command line: `toolorchestra COMMAND`, or ``python -m toolorchestra COMMAND``.

From Python::

    from toolorchestra.cli import main

    status = main.main(["envs", "ToolOrchestra-Restaurant-v0"])

Each command is a dataclass in a module of its name, or in a folder of it:

    look        envs  show  view (viewer/)  compare
    play        play  rollout  serve
    make        build  synth/
    check       validate  reverify
    experts     experts (experts_evaluation)
    learn       train
    extend      init, with its templates/

`main` puts them together. They share `options` (types, bounds, groups of commands), `environments` (environments by
name), `files` (JSON, recorded episodes and files to write) and `display/` (tables and progress bars), which needs rich.
Shells complete them by `completion`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
