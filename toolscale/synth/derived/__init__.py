"""Tools and requests that are derived from tables by rule.

::

    templates                              texts of the YAML files beside this folder, filled in
    toolbox                                the tools by purpose; when a row is open, and how it ends
    tool_base, read_tools, write_tools     tools that read, write and compute
    request_parts, read_requests, write_requests    requests for what the tools do
    derive                                 all of them for a set of tables
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
