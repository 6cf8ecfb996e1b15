"""Templates: YAML files of this package whose texts have placeholders in angle brackets.

``<x>`` is replaced by a value, ``<x.y>`` by an attribute of one, ``<sql x>`` by a name as it stands in SQL, ``<literal
x>`` by a value as it stands in SQL, ``<words x>`` by a name in words, ``<an x>`` by words with their article. A place
that begins with a capital letter gives a text that does. A text that is one place, whose value is an object or a list,
gives that; a list in a list stands for its items. A backslash at the end of a line joins it to the next.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from toolorchestra.toolscale.common.yaml_reader import parse_yaml
from toolorchestra.toolscale.requests.naming import an, in_words
from toolorchestra.toolscale.synth.tables.tables import bare, literal

_PLACE = re.compile(r"<(?:(an|literal|sql|words) )?([A-Za-z]\w*(?:\.\w+)*)>")
_FILTERS: dict[str | None, Callable[[Any], str]]
_FILTERS = {"an": an, "literal": literal, "sql": bare, "words": in_words, None: str}


@functools.cache
def read_templates(name: str) -> dict[str, Any]:
    """Return the templates of the file `name` beside this module."""
    text = (Path(__file__).parents[1] / name).read_text("utf-8")
    templates: dict[str, Any] = parse_yaml(re.sub(r"\\\n *", "", text))
    return templates


def fill(template: Any, /, **values: Any) -> Any:
    """Return a template, or an object or list of them, with the places filled in.

    >>> fill({"ask": "<Table.one> {id}: is it <an state>?"}, table=SimpleNamespace(one="loan"), state="open one")
    {'ask': 'Loan {id}: is it an open one?'}
    """
    if isinstance(template, dict):
        return {fill(key, **values): fill(value, **values) for key, value in template.items()}
    if isinstance(template, list):
        items = [fill(item, **values) for item in template]
        return [one for item in items for one in (item if isinstance(item, list) else [item])]
    if not isinstance(template, str):
        return template
    names = SimpleNamespace(**values)

    def value_at(place: re.Match[str]) -> Any:
        return attrgetter(place[2][0].lower() + place[2][1:])(names)

    def text_at(place: re.Match[str]) -> str:
        text = _FILTERS[place[1]](value_at(place))
        return text[:1].upper() + text[1:] if place[2][0].isupper() else text

    place = _PLACE.fullmatch(template)
    if place and isinstance(value := value_at(place), dict | list):
        return value
    return _PLACE.sub(text_at, template)


def prompt(name: str, /, **values: Any) -> str:
    """Return a prompt of ``prompts.yaml``; the examples and formats in that file are values, too."""
    templates = read_templates("prompts.yaml")
    shared = {key: text for key, text in templates.items() if key.endswith(("_example", "_format"))}
    text: str = fill(templates[name], **shared, **values)
    return text
