"""The database of a domain: its YAML, building it, and the bounds of all SQL.

::

    format                           the content of a domain's YAML
    sql, connection                  the bounds of all SQL, and connections that keep them
    build, database                  making the initial database, and reading it
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
