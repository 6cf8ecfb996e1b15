"""Tools and requests that are derived from tables by rule.

::

    templates                        texts of the YAML files beside this folder, filled in
    tool_base, *_tools               tools that read, write and compute
    request_base, *_requests         requests for what the tools do
    derive                           all of them for a set of tables
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
