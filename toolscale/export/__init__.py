"""Domains and tasks for others: figures, cards, and the formats of other libraries.

::

    text_statistics,                 how varied texts are,
    domain_statistics, domain_card   what a domain holds, as figures and as Markdown
    exchange, exchange_rows          the formats of other libraries
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
