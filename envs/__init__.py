"""Environments: orchestration as Gymnasium and PettingZoo environments.

The kernel is the files of this folder::

    world          the interface of a world          play           rules, with no environment
    tool_calling   the rules of tool calling         executor       runs the calls of a message
    task_env       what all environments share       base           Gymnasium's interface
    rewards        M(τ), preferences                 registration   every id

Around it: `records` (episodes as data, shown and compared), `judge` (models that judge answers), `multiagent`
(PettingZoo's interface), `tools` (sandboxes, search, experts as tools), `ground_truth` (what simulated models answer
from), `sources` (where tasks come from; `encyclopaedia` is a world of theirs), `checks`, `bridges` to other libraries,
and a package for each protocol: `toolorchestra`, `paramanager`, `masorchestra`, `msarl`, `tmatr`, `dialogue`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
