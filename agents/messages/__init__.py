"""Messages of models: what goes back to a server of what was said.

Not covered: the servers themselves (`toolorchestra.agents.chat`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
