from .calculator import Calculator as Calculator
from .experts import ExpertTool as ExpertTool
from .manual import corpus_search as corpus_search, manual_search as manual_search
from .python import PythonTool as PythonTool, QuickPython as QuickPython, make_python as make_python
from .search.page_summaries import PageSummaries as PageSummaries
from .search.search import (
    BM25Index as BM25Index,
    Hit as Hit,
    Index as Index,
    LocalSearch as LocalSearch,
    Passage as Passage,
    read_passages as read_passages,
)
from .search.search_providers import (
    BingProvider as BingProvider,
    DuckDuckGoProvider as DuckDuckGoProvider,
    TavilyProvider as TavilyProvider,
)
from .search.search_vectors import (
    VectorIndex as VectorIndex,
    model_index as model_index,
    sentence_encoder as sentence_encoder,
)
from .search.search_web import Provider as Provider, RecordedProvider as RecordedProvider, WebSearch as WebSearch
from .simulated_python import SimulatedPython as SimulatedPython
from .text_input import fence_parameter as fence_parameter
from .toolkit import Toolkit as Toolkit
