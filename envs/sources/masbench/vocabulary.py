"""The vocabulary of MASBench's problems: hierarchies of categories with their names, needles and filler sentences.

All of it is in ``vocabulary.yaml``. Who reads a problem knows it as well: that a Schooner is a Vessel is said in no
statement.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolorchestra.toolscale.common.yaml_reader import read_yaml

Hierarchy = dict[str, tuple[str, ...]]
"""The names of four categories, from the outermost to the innermost; each name owns names of the next category."""


class Needles(msgspec.Struct, frozen=True):
    """Words of the needle passages: the first and second words of what a magic number is for, rounds of filler."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    filler: tuple[tuple[str, ...], ...]


class ProblemVocabulary(msgspec.Struct, frozen=True):
    """All hierarchies, and the words of needle passages."""

    hierarchies: tuple[Hierarchy, ...]
    needles: Needles


class Knowledge(msgspec.Struct, frozen=True):
    """What a reader knows of the words: the category of each name, and the category above each that has one."""

    category: Mapping[str, str]
    above: Mapping[str, str]


@functools.cache
def vocabulary() -> ProblemVocabulary:
    """Return the vocabulary."""
    return msgspec.convert(read_yaml(Path(__file__).with_suffix(".yaml")), ProblemVocabulary)


@functools.cache
def knowledge() -> Knowledge:
    """Return what is known of the words of the vocabulary."""
    hierarchies = vocabulary().hierarchies
    category = {name: kind for hierarchy in hierarchies for kind, names in hierarchy.items() for name in names}
    above = {inner: outer for hierarchy in hierarchies for outer, inner in itertools.pairwise(hierarchy)}
    return Knowledge(category, above)
