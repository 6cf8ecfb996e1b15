"""Catalogue files: what they hold, reading them, and merging them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from toolorchestra.agents.experts.configurations import Configuration, PriceList
from toolorchestra.agents.experts.specification import Share, logit
from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.common.yaml_reader import read_yaml


class CatalogError(DomainError):
    """A catalogue file does not describe valid experts (file, key path, expected, actual, remedy)."""


class Benchmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A published table of accuracies, from which skills are estimated.

    By rule, its problems have so many steps of one difficulty, all of which must go right. The figures only have to
    bring models into their order and about the right distance.

    Attributes:
        title: What was measured.
        subject: Subject of the skill.
        steps: Steps that one of its problems is taken to have.
        difficulty: Their difficulty in logits.
        source: Where the figures are from.
        accuracy: Percent right, by expert.
    """

    title: str
    subject: str
    steps: Annotated[int, Meta(ge=1)]
    difficulty: float
    source: str
    accuracy: dict[str, Annotated[float, Meta(gt=0, lt=100)]]

    def skill(self, expert: str, load: float) -> float:
        """Return the skill with which an expert of this load gets the benchmark's accuracy.

        >>> benchmark = Benchmark(title="", subject="math", steps=2, difficulty=0, source="", accuracy={"ada": 81})
        >>> round(benchmark.skill("ada", load=0.0), 3)
        0.9
        """
        of_step = (self.accuracy[expert] / 100) ** (1 / self.steps)
        return 1 / (1 + math.exp(-(logit(of_step) + self.difficulty + load * math.log2(self.steps))))


class CatalogContents(msgspec.Struct, forbid_unknown_fields=True):
    """What a catalogue file may hold; entries are checked one by one."""

    experts: dict[str, dict[str, Any]] = {}
    tools: dict[str, dict[str, Any]] = {}
    benchmarks: dict[str, Benchmark] = {}
    price_lists: dict[str, PriceList] = {}
    configurations: dict[str, Configuration] = {}
    sources: dict[str, str] = {}
    shared_noise: Share = 0.2


_NESTED = ("skills", "latency", "tokens")
"""Fields whose figures have sources of their own."""


def read_catalog(file: Path) -> dict[str, Any]:
    """Return the content of a catalogue file; one that is no YAML object raises `CatalogError`."""
    try:
        value = read_yaml(file)
    except OSError as error:
        raise CatalogError(f"It cannot be read: {error.strerror}.", file=file) from None
    except UnicodeDecodeError:
        raise CatalogError("Expected text in UTF-8.", file=file) from None
    except DomainError as error:
        raise CatalogError(error.message, file=file) from None
    if not isinstance(value, dict):
        raise CatalogError(f"Expected an object with keys such as `experts`, found {type(value).__name__}.", file=file)
    return value


def merge(old: Any, new: Any) -> Any:
    """Return `new` over `old`: objects key by key, everything else whole."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return old | {key: merge(old[key], value) if key in old else value for key, value in new.items()}


def name_sources(content: Mapping[str, Any], file: Path) -> None:
    """Name a user's file as the source of its figures, of experts and basic tools, that have no source."""
    listed = [found for key in ("experts", "tools") if isinstance(found := content.get(key), dict)]
    for entry in (entry for found in listed for entry in found.values()):
        sources = entry.setdefault("sources", {}) if isinstance(entry, dict) else None
        if not isinstance(sources, dict):
            continue  # refused where it is converted
        for field, value in entry.items():
            inner = [f"{field}.{key}" for key in value] if field in _NESTED and isinstance(value, dict) else []
            for part in () if field == "sources" else (field, *inner):
                sources.setdefault(part, sources.get(field, file.name))


def key_depth(content: Any, steps: Sequence[str]) -> int:
    """Return how many keys of a path exist in a file's content."""
    depth = 0
    for step in steps:
        if not isinstance(content, dict) or step not in content:
            break
        content, depth = content[step], depth + 1
    return depth
