"""Checks of whole environments: the properties that training on them relies on.

- `environment`: `check_environment`, which runs all checks on any environment of the library.
- `one_agent`: the checks of environments of one agent; `hostile`: hostile actions, and the check that sends them.
- `attacks`: what the checks of the verification of domains report.
- `several_agents`: the checks of environments of several agents.
- `failures`: `check_failures`, for environments of others too: whose failure the end of an episode is.
- `reverification`: `reverify`, which judges recorded episodes anew.
- `report`: what checks report; `other_processes`: work that they give to other processes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
