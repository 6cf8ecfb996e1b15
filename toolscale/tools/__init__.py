"""What can be called in a domain: tools in general, tools made of SQL, tools made of Python.

::

    tool                             a tool, its schema, and what a call returns
    expressions                      the expressions of a domain's YAML
    sqltool, functions               tools made of SQL, and of Python
    tool_compiler                    tools checked against the schema of the database
    guess                            plausible arguments for a tool
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
