"""Tokens as text, by the tokenizer that a training run has written beside its models."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TOKENIZERS = 8  # that are kept
_FILE = "tokenizer.json"


def token_texts(run: Path, agent: str, ids: Sequence[int]) -> list[str] | None:
    """Return the tokens of an agent as text; None where the run has no tokenizer, or without its library."""
    tokenizer = _tokenizer(run, agent) if ids else None
    if tokenizer is None:
        return None
    return [tokenizer.decode([one], skip_special_tokens=False) or tokenizer.id_to_token(one) or str(one) for one in ids]


@functools.lru_cache(_TOKENIZERS)
def _tokenizer(run: Path, agent: str) -> Any:
    """Return the tokenizer of an agent's policy, or of any policy, from the end of the run or else its start."""
    for stage in ("final", "start"):
        for pattern in (_FILE, f"{agent}/{_FILE}", f"*/{_FILE}"):
            own = Path(agent).name == agent  # an agent's name may be anything
            found = sorted((run / stage).glob(pattern)) if own or agent not in pattern else []
            if found:
                return _loaded(found[0])
    return None


def _loaded(file: Path) -> Any:
    try:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(file))
    except Exception:  # the library raises nothing more special; without it there are ids
        return None
