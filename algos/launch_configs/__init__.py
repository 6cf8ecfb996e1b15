"""Files that start a training in several processes: configurations for `accelerate launch`, and a script for Slurm.

``python -m toolorchestra.algos.launch_configs NAME`` prints the path of one, and without a name all names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
