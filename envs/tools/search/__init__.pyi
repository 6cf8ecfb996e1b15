from .search import BM25Index as BM25Index
