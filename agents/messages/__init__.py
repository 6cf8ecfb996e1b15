"""Messages of models: what is thought, said and called in them, and what they count.

Whatever reads what a model wrote, be it an environment, a client, a sub-agent or a renderer, reads it by
`toolorchestra.agents.messages.reading`; what goes back to a server is in `toolorchestra.agents.messages.history`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
