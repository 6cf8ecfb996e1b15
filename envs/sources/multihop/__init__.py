"""Multi-hop questions about a synthetic encyclopaedia, which no model knows by heart.

source                                      the questions, and a check of each
drafts, question_words                      how questions are drawn, and how they are worded
encyclopaedia, encyclopaedia_world          the articles, and the facts in them
encyclopaedia_words                         what names and sentences are made of
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
