"""The audit of an environment, of this library or of others, by the checks of OpenEnv's RFC 008.

- `report`: `audit_environment`, and its report as JSON and Markdown.
- `subject`: the environment under audit, and how its episodes are played.
- `panel`: the adversaries; `evidence`: what they play; `graders`: what is judged by it.
- `host_calls`: connections, processes and written files of this process.
- ``rfc008.yaml``: the checks.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
