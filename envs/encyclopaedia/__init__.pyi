from .encyclopaedia import Encyclopaedia as Encyclopaedia
