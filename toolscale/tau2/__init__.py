"""The worlds of τ²-bench: retail and airline, as its packages on PyPI have them (extra ``tau2``).

::

    tables     their JSON documents as rows of SQLite, and back
    world      a domain of their documents, functions, policy and tasks
    retail.yaml, airline.yaml     tables and tools, as a domain's YAML has them
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
