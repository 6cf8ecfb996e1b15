"""How requests read: figures of texts alone, by which those of a domain compare with those of another benchmark.

Words are in lower case, numbers and ids included. Figures that fall or rise with the amount of text are means over
stretches of `SEGMENT` words. Reading ease is Flesch's, 206.835 - 1.015 (words / sentences) - 84.6 (syllables / words),
syllables being counted by groups of vowels. Not covered: whether a text is natural, which only reading tells.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.export.exchange_rows import tau2_instruction

SEGMENT = 1000
"""Words of a stretch over which shares of distinct words and trigrams are taken: texts of any length compare."""
MAX_BYTES = 50_000_000
"""Largest file of requests that is read."""

_NEIGHBOURS = 2000
_WORD = re.compile(r"\w+(?:[.:'-]\w+)*")
_SENTENCE_END = re.compile(r"[.!?]+(?=[\s\"')]|$)|\n\s*\n")
_VOWELS = re.compile(r"[aeiouy]+")
_IDS = re.compile(r"(?<![\w$€£.,-])#?(?:[A-Z]{1,4}-?\d{2,}|\d{6,}|[a-z]+_[a-z]+_\d{2,})(?![\w-]|\.\d)")


class TextStatistics(msgspec.Struct, frozen=True):
    """The figures of requests: `texts` of them, of `words` each in the mean.

    `type_token_1000` and `trigrams_1000` are shares of distinct words and of distinct sequences of three words in
    stretches of 1,000 words, `nearest` is the mean similarity of a text to the one most like it, `reading_ease` is
    Flesch's (60 to 70 is plain English, below 50 difficult), and `id_shaped` the share of texts with a word shaped like
    an id (T4001, #W2378156, a number of six figures or more).
    """

    name: str
    texts: int
    words: float
    type_token_1000: float
    trigrams_1000: float
    nearest: float
    reading_ease: float
    id_shaped: float


def text_statistics(name: str, texts: Sequence[str]) -> TextStatistics:
    """Return the figures of texts.

    Raises:
        ValueError: There is no text.
    """
    if not texts:
        raise ValueError(f"Expected at least one text of {name}, got none.")
    tokens = [words(text) for text in texts]
    return TextStatistics(
        name=name,
        texts=len(texts),
        words=sum(map(len, tokens)) / len(texts),
        type_token_1000=segment_share(tokens),
        trigrams_1000=segment_share(tokens, 3),
        nearest=nearest_similarity(tokens),
        reading_ease=sum(map(reading_ease, texts)) / len(texts),
        id_shaped=sum(_IDS.search(text) is not None for text in texts) / len(texts),
    )


def text_figures(found: TextStatistics) -> dict[str, str]:
    """Return the figures as people read them, by their names in tables."""
    return {
        "requests": f"{found.texts:,}",
        "words of a request, mean": f"{found.words:.1f}",
        "type-token ratio of 1,000 words": f"{found.type_token_1000:.3f}",
        "distinct trigrams of 1,000 words": f"{found.trigrams_1000:.1%}",
        "nearest neighbour, mean similarity": f"{found.nearest:.3f}",
        "reading ease (Flesch), mean": f"{found.reading_ease:.1f}",
        "requests with a word shaped like an id": f"{found.id_shaped:.1%}",
    }


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; times, decimals and hyphenated words are one each.

    >>> words("Move Ada's order O12 to 18:30, please.")
    ['move', "ada's", 'order', 'o12', 'to', '18:30', 'please']
    """
    return _WORD.findall(text.casefold())


def trigrams(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sequences of three words of a text."""
    return [tuple(tokens[start : start + 3]) for start in range(len(tokens) - 2)]


def reading_ease(text: str) -> float:
    """Return Flesch's reading ease of a text; an empty one is as easy as can be.

    >>> round(reading_ease("The cat sat on the mat."), 1)
    116.1
    """
    found = [word for word in words(text) if word[0].isalpha()]
    if not found:
        return 206.835
    sentences = max(1, sum(_WORD.search(part) is not None for part in _SENTENCE_END.split(text)))
    return 206.835 - 1.015 * len(found) / sentences - 84.6 * sum(map(_syllables, found)) / len(found)


@functools.lru_cache(maxsize=65536)
def _syllables(word: str) -> int:
    silent = word.endswith("e") and not word.endswith(("le", "ee", "ye"))
    return max(1, len(_VOWELS.findall(word)) - silent)


def type_token(tokens: Sequence[Any]) -> float:
    """Return the share of distinct tokens."""
    return len(set(tokens)) / max(1, len(tokens))


def segment_share(texts: Sequence[Sequence[str]], size: int = 1) -> float:
    """Return the share of distinct sequences of `size` words in a stretch of 1,000 words, mean over all stretches.

    Texts are put in a seeded random order; those of fewer words in all are one stretch.
    """
    tokens = list(chain(*random.Random(0).sample(texts, len(texts))))
    starts = range(0, len(tokens) - SEGMENT + 1, SEGMENT)
    stretches = [tokens[start : start + SEGMENT] for start in starts] or [tokens]
    shares = [type_token(list(zip(*(part[i:] for i in range(size)), strict=False))) for part in stretches]
    return sum(shares) / len(shares)


def nearest_similarity(texts: Sequence[Sequence[str]]) -> float:
    """Return the mean Jaccard similarity of a text's set of words to that of the text most like it.

    Of more than 2,000 texts, 2,000 are drawn (seeded) and compared with each other.

    >>> nearest_similarity([["pay", "bill"], ["pay", "bill", "now"], ["cancel"]])  # (2/3 + 2/3 + 0) / 3
    0.4444444444444444
    """
    if len(texts) < 2:
        return 0.0
    if len(texts) > _NEIGHBOURS:
        texts = random.Random(0).sample(list(texts), _NEIGHBOURS)
    number: dict[str, int] = {}
    sets = [{number.setdefault(word, len(number)) for word in text} for text in texts]
    present = np.zeros((len(sets), max(1, len(number))), dtype=np.float32)
    for row, members in enumerate(sets):
        present[row, list(members)] = 1
    shared = (present @ present.T).astype(np.float64)  # whole numbers, so exact whatever the order of summation
    sizes = present.sum(axis=1, dtype=np.float64)
    union = sizes[:, None] + sizes[None, :] - shared
    similarity = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    np.fill_diagonal(similarity, 0)
    return float(similarity.max(axis=1).mean())


def read_requests(file: Path) -> list[str]:
    """Return the requests of a file: τ²-bench's ``tasks.json``, or JSON Lines of objects with an ``instruction``.

    Raises:
        OptionError: The file cannot be read, is too large, or an entry is neither.
    """
    try:
        if file.stat().st_size > MAX_BYTES:
            raise OptionError(f"{file} is larger than {MAX_BYTES:,} bytes.")
        content = file.read_bytes()
        rows = msgspec.json.decode(content) if content.lstrip()[:1] == b"[" else _lines(content)
    except (OSError, msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise OptionError(f"{file} cannot be read as JSON: {error}") from None
    texts = [_request(row, f"{file}, entry {number}") for number, row in enumerate(rows, 1)]
    if not texts:
        raise OptionError(f"{file} holds no request.")
    return texts


def _lines(content: bytes) -> Iterable[Any]:
    return list(map(msgspec.json.decode, filter(None, map(bytes.strip, content.splitlines()))))


def _request(row: Any, where: str) -> str:
    """Return the request of an entry."""
    text = next((text for text in _texts(row) if text.strip()), None)
    if text is None:
        raise OptionError(
            f"{where}: expected an object with an `instruction`, or with τ²-bench's `user_scenario`; found neither."
        )
    return text


def _texts(row: Any) -> Iterator[str]:
    if not isinstance(row, dict):
        return
    if isinstance(row.get("instruction"), str):
        yield row["instruction"]
    scenario = row.get("user_scenario")
    if isinstance(scenario, dict) and isinstance(scenario.get("instructions"), dict | str):
        yield tau2_instruction(scenario["instructions"])
