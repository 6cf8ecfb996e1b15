"""Search by meaning: an index of vectors (Faiss), with the interface of `BM25Index`.

Needs the extra ``search`` (faiss-cpu, sentence-transformers). Vectors are compared exactly, by cosine. Not covered:
approximate indexes, for many millions of passages.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolorchestra.agents.hub import split_revision
from toolorchestra.envs.tools.search.search import Hit, Passage, read_passages
from toolorchestra.toolscale.common.errors import OptionError, install_line
from toolorchestra.toolscale.common.jsonl import write_jsonl

Vectors = npt.NDArray[np.float32]
Encoder = Callable[[Sequence[str]], Vectors]
"""Turns texts into vectors, shape ``(texts, size)``."""

_VECTORS, _PASSAGES = "vectors.faiss", "passages.jsonl"


def sentence_encoder(model: str | Path, *, prompt: str = "", batch: int = 64) -> functools.partial[Vectors]:
    """Return an encoder that is a sentence-transformers model.

    Args:
        model: Its folder, or its name on the hub, e.g. ``intfloat/e5-base-v2``; ``NAME@REVISION`` is that revision.
        prompt: Put before every text; some models want one (e5: ``query: `` and ``passage: ``).
        batch: Texts encoded at a time.
    """
    name, revision = split_revision(model)
    loaded = _installed("sentence_transformers").SentenceTransformer(name, revision=revision)
    return functools.partial(_encode, loaded, prompt, batch)


def _encode(model: Any, prompt: str, batch: int, texts: Sequence[str]) -> Vectors:
    vectors = model.encode([prompt + text for text in texts], batch_size=batch, show_progress_bar=False)
    return np.asarray(vectors, np.float32)


def model_index(
    passages: Iterable[Passage] | str | Path,
    model: str | Path,
    *,
    query: str | None = None,
    passage: str | None = None,
    batch: int = 64,
) -> VectorIndex:
    """Return an index of embeddings of passages, or of a JSONL file of them, by a sentence-transformers model.

    Args:
        passages: What can be found, or a file as `read_passages` reads it.
        model: As of `sentence_encoder`.
        query: Put before queries; None: ``query: `` for a model with "e5" in its name, nothing for others.
        passage: Put before passages; None: ``passage: `` for a model with "e5" in its name, nothing for others.
        batch: Texts encoded at a time.
    """
    e5 = "e5" in Path(str(model).partition("@")[0]).name.lower().split("-")
    encode = sentence_encoder(model, prompt=("passage: " if e5 else "") if passage is None else passage, batch=batch)
    ask = functools.partial(_encode, encode.args[0], ("query: " if e5 else "") if query is None else query, batch)
    return VectorIndex(read_passages(passages) if isinstance(passages, str | Path) else passages, encode, ask)


class VectorIndex:
    """Passages ranked by the cosine of their vectors and the query's.

    Args:
        passages: What can be found.
        encoder: Encodes passages (title and text) and queries.
        query_encoder: Encodes queries, where they want another prompt than passages.
    """

    def __init__(self, passages: Iterable[Passage], encoder: Encoder, query_encoder: Encoder | None = None) -> None:
        self._passages = list(passages)
        if not self._passages:
            raise OptionError("Expected at least one passage to index, found none.")
        self._encode = query_encoder or encoder
        vectors = _normal(encoder([f"{passage.title}\n{passage.text}" for passage in self._passages]))
        self._index = _installed("faiss").IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)

    def __len__(self) -> int:
        return len(self._passages)

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """Return the hits of each query; every query fits something."""
        scores, places = self._index.search(_normal(self._encode(queries)), min(2 * k, len(self)))
        return [self._hits(*of_query)[:k] for of_query in zip(scores, places, strict=True)]

    def save(self, folder: str | Path) -> None:
        """Write the index to a new folder, from which `load` reads it."""
        folder = Path(folder)
        folder.mkdir(parents=True)
        write_jsonl(folder / _PASSAGES, self._passages)
        _installed("faiss").write_index(self._index, str(folder / _VECTORS))

    @classmethod
    def load(cls, folder: str | Path, query_encoder: Encoder) -> VectorIndex:
        """Return the index that `save` wrote; `query_encoder` must go with the one it was made with."""
        index = cls.__new__(cls)
        index._passages = read_passages(Path(folder) / _PASSAGES)
        index._index = _installed("faiss").read_index(str(Path(folder) / _VECTORS))
        index._encode = query_encoder
        if index._index.ntotal != len(index._passages):
            raise OptionError(f"{folder} holds {index._index.ntotal} vectors of {len(index._passages)} passages.")
        return index

    def _hits(self, scores: npt.NDArray[np.float32], places: npt.NDArray[np.int64]) -> list[Hit]:
        # Rounded before they are compared, so that equal passages keep their order on every machine.
        found = sorted((-round(float(score), 5), int(place)) for score, place in zip(scores, places, strict=True))
        ranked = [(self._passages[place], -score) for score, place in found]
        return [Hit(passage.id, passage.title, passage.text, score) for passage, score in ranked]


def _normal(vectors: Vectors) -> Vectors:
    """Return vectors of length 1 (those of length 0 stay)."""
    vectors = np.ascontiguousarray(vectors, np.float32)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.asarray(vectors / lengths, np.float32)


def _installed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.replace("_", "-")
        raise ImportError(f"{name} is not installed: {install_line('search')}") from error
