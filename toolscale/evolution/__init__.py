"""Harder tasks out of those that there are (ToolScale's evolution), and tasks under attack.

::

    evolution, operators             evolving tasks, and the operators that do it
    requests, templates              evolved requests, and their words
    impossible_requests,             requests that cannot be met,
    indirect_requests,               that name things indirectly,
    referring_expressions            and the expressions that do so
    adversarial                      tasks with attacks in their results
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
