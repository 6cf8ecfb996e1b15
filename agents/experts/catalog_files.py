"""Reading and merging catalogue files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.agents.experts.benchmarks import Benchmark
from toolorchestra.agents.experts.configurations import Configuration, PriceList
from toolorchestra.agents.experts.specification import Share
from toolorchestra.toolscale.errors import DomainError
from toolorchestra.toolscale.yaml_reader import parse_yaml


class CatalogError(DomainError):
    """A catalogue file does not describe valid experts (file, key path, expected, actual, remedy)."""


class CatalogContents(msgspec.Struct, forbid_unknown_fields=True):
    """What a catalogue file may hold; entries are checked one by one."""

    experts: dict[str, dict[str, Any]] = {}
    benchmarks: dict[str, Benchmark] = {}
    price_lists: dict[str, PriceList] = {}
    configurations: dict[str, Configuration] = {}
    sources: dict[str, str] = {}
    shared_noise: Share = 0.2


_NESTED = ("skills", "latency", "tokens")
"""Fields whose figures have sources of their own."""


def read_catalog(file: Path) -> dict[str, Any]:
    """Return the content of a catalogue file.

    Raises:
        CatalogError: It cannot be read or is no YAML object.
    """
    try:
        value = parse_yaml(file.read_text(encoding="utf-8"))
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
    """Name a user's file as the source of its figures that have no source."""
    experts = content.get("experts")
    for entry in experts.values() if isinstance(experts, dict) else ():
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
