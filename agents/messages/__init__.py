"""Messages of models: the forms in which calls are written in their text, and the values in them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
