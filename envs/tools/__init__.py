"""Tools that protocols offer beside a world's own.

toolkit      which of the tools below are on offer, to whom and at what price
experts      models of the catalogue in a role, simulated or real
search       search of passages; search_vectors: by meaning; search_web: on the web
manual       search of a world's manual, or of a file of passages
python       programs in a sandbox; simulated_python: arithmetic without one
calculator   exact values of expressions
text_input   which tools take a plain text as their input
sandbox/     runs Python that a model wrote
"""

from typing import TYPE_CHECKING

from toolorchestra.toolscale.faces import lazy_face

if TYPE_CHECKING:
    from toolorchestra.envs.tools.calculator import Calculator
    from toolorchestra.envs.tools.experts import ExpertTool
    from toolorchestra.envs.tools.manual import corpus_search, manual_search
    from toolorchestra.envs.tools.python import PythonTool, QuickPython, make_python
    from toolorchestra.envs.tools.search import BM25Index, Hit, Index, LocalSearch, Passage, read_passages
    from toolorchestra.envs.tools.search_vectors import VectorIndex, sentence_encoder
    from toolorchestra.envs.tools.search_web import Provider, RecordedProvider, TavilyProvider, WebSearch
    from toolorchestra.envs.tools.simulated_python import SimulatedPython
    from toolorchestra.envs.tools.text_input import fence_parameter
    from toolorchestra.envs.tools.toolkit import Toolkit

__all__ = [
    "BM25Index",
    "Calculator",
    "ExpertTool",
    "Hit",
    "Index",
    "LocalSearch",
    "Passage",
    "Provider",
    "PythonTool",
    "QuickPython",
    "RecordedProvider",
    "SimulatedPython",
    "TavilyProvider",
    "Toolkit",
    "VectorIndex",
    "WebSearch",
    "corpus_search",
    "fence_parameter",
    "make_python",
    "manual_search",
    "read_passages",
    "sentence_encoder",
]
_MODULES = {
    "calculator": ("Calculator",),
    "experts": ("ExpertTool",),
    "manual": ("corpus_search", "manual_search"),
    "python": ("PythonTool", "QuickPython", "make_python"),
    "search": ("BM25Index", "Hit", "Index", "LocalSearch", "Passage", "read_passages"),
    "search_vectors": ("VectorIndex", "sentence_encoder"),
    "search_web": ("Provider", "RecordedProvider", "TavilyProvider", "WebSearch"),
    "simulated_python": ("SimulatedPython",),
    "text_input": ("fence_parameter",),
    "toolkit": ("Toolkit",),
}

__getattr__, __dir__ = lazy_face(__name__, __all__, _MODULES)
