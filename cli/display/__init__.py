"""What the commands print, with rich.

console      the console, progress bars and tables that all of them use
domains      environments, domains and tasks
episodes     episodes, summaries, comparisons and reports of checks
reverified   what became of recorded episodes that were judged anew
synthesis    progress and results of the `synth` commands
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
