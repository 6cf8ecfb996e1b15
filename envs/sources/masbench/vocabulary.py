"""What MASBench's problems are about: hierarchies of categories with their names, needles and filler sentences.

All of it is in ``vocabulary.yaml``. Who reads a problem knows it as well: that a Schooner is a Vessel is said in no
statement.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from toolorchestra.toolscale.yaml_reader import parse_yaml


class Hierarchy(msgspec.Struct, frozen=True):
    """Four categories, each of whose names owns names of the next one.

    Attributes:
        categories: From the outermost to the innermost.
        names: The names of each category.
    """

    categories: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]


class Needles(msgspec.Struct, frozen=True):
    """Words of the needle passages.

    Attributes:
        first: First words of what a magic number is for.
        second: Second words.
        filler: Rounds of sentences that say nothing.
    """

    first: tuple[str, ...]
    second: tuple[str, ...]
    filler: tuple[tuple[str, ...], ...]


class ProblemVocabulary(msgspec.Struct, frozen=True):
    """All hierarchies, and the words of needle passages."""

    hierarchies: tuple[Hierarchy, ...]
    needles: Needles


class Knowledge(msgspec.Struct, frozen=True):
    """What a reader knows of the words: which category a name is of, and which category is above another.

    Attributes:
        category: The category of each name.
        above: The category above each category, if there is one.
    """

    category: Mapping[str, str]
    above: Mapping[str, str]


@functools.cache
def vocabulary() -> ProblemVocabulary:
    """Return the vocabulary."""
    content = parse_yaml((Path(__file__).parent / "vocabulary.yaml").read_text(encoding="utf-8"))
    hierarchies = [{"categories": [*levels], "names": [*levels.values()]} for levels in content["hierarchies"]]
    return msgspec.convert({"hierarchies": hierarchies, "needles": content["needles"]}, ProblemVocabulary)


@functools.cache
def knowledge() -> Knowledge:
    """Return what is known of the words of the vocabulary."""
    category, above = {}, {}
    for hierarchy in vocabulary().hierarchies:
        for level, names in enumerate(hierarchy.names):
            category.update(dict.fromkeys(names, hierarchy.categories[level]))
            if level:
                above[hierarchy.categories[level]] = hierarchy.categories[level - 1]
    return Knowledge(category, above)
