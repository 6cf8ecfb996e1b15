"""Multi-hop questions about a synthetic encyclopaedia, which no model knows by heart.

source                                      the questions, and a check of each
drafts, question_words                      how questions are drawn, and how they are worded
encyclopaedia, encyclopaedia_world          the articles, and the facts in them
encyclopaedia_words                         what names and sentences are made of
"""

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.envs.sources.multihop.encyclopaedia import Encyclopaedia
    from toolorchestra.envs.sources.multihop.source import MultiHopQASource, make_questions

__all__ = [
    "Encyclopaedia",
    "MultiHopQASource",
    "make_questions",
]
_MODULES = {
    "encyclopaedia": ("Encyclopaedia",),
    "source": ("MultiHopQASource", "make_questions"),
}

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
