"""Multi-hop questions about a synthetic encyclopaedia, which no model knows by heart.

source                                      the questions, and a check of each
drafts                                      how questions are drawn
encyclopaedia, encyclopaedia_world          the articles, and the facts in them
words                                       what names, sentences and questions are made of
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
