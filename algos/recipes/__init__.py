"""Recipes: the papers' trainings as YAML files of options, for `toolorchestra train --config NAME`.

Each says under ``about`` where its numbers come from, where it departs from the paper and why, what hardware it needs,
and what has been run of it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
