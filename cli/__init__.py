"""The command line: `toolorchestra COMMAND`, or ``python -m toolorchestra.cli COMMAND``.

From Python::

    from toolorchestra.cli import main

    status = main.main(["envs", "ToolOrchestra-Restaurant-v0"])

Each command is a dataclass in a module of its name:

    look        envs  show  view (viewer/)  compare
    play        play  rollout
    make        build  synth (synth_domain, synth_tasks, synth_preferences, synth_adversarial, synth_masbench,
                synth_select)
    check       validate
    experts     experts (experts_evaluation)
    learn       train
    extend      init, with its templates/

`main` puts them together. They share `options` (types, bounds, groups of commands), `environments` (environments by
name), `files` (JSON, recorded episodes and files to write), `synth_options`, `solvers` (who plays tasks that are
filtered), and `display` with `display_domains`, `display_episodes` and `display_synth`, which need rich.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
