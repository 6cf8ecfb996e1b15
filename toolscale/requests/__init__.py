"""How a domain's intents become tasks, and how their requests are worded.

::

    entities, lookups                what requests name, and how it is found
    naming                           words for the names of tables and columns
    wording, wording_checks          wording requests, and checking how they read
    intents                          making the tasks of an intent
    filters, sense_checks            leaving out tasks that cannot be verified, are too easy or make no sense
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
