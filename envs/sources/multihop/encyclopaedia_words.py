"""The words of the synthetic encyclopaedia, which ``encyclopaedia_words.yaml`` lists and explains."""

from __future__ import annotations

from pathlib import Path

import msgspec

from toolorchestra.toolscale.yaml_reader import parse_yaml


class EncyclopaediaWords(msgspec.Struct, frozen=True):
    """What names are made of, and the sentences that state facts."""

    given: dict[str, tuple[str, ...]]
    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    middles: tuple[str, ...]
    codas: tuple[str, ...]
    city_endings: tuple[str, ...]
    country_endings: tuple[str, ...]
    language_endings: tuple[str, ...]
    family_endings: tuple[str, ...]
    coins: tuple[str, ...]
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    genres: dict[str, tuple[str, ...]]
    professions: dict[str, tuple[str, ...]]
    institutions: tuple[str, ...]
    schools: tuple[str, ...]
    sentences: dict[str, tuple[tuple[str, ...], ...]]
    fillers: tuple[str, ...]


WORDS = msgspec.convert(parse_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")), EncyclopaediaWords)
"""The words of the encyclopaedia."""
