"""Indirect requests: a description in place of the id or the name of an entry, which then has to be found by that.

A description is what people call the entry where the request has its id, or what a search or another entry's record
leads to where it has its name: "the patient of Ada's appointment".
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.evolution import templates as wording
from toolorchestra.toolscale.evolution.referring_expressions import Description, Finder
from toolorchestra.toolscale.evolution.requests import Request, Requests
from toolorchestra.toolscale.requests.entities import is_code, is_date, scalars, states
from toolorchestra.toolscale.requests.wording import states_value, unique_calls
from toolorchestra.toolscale.tasks.task import Call, Task


class DescribedRequest(NamedTuple):
    """A request that describes an entry, the description, the entry's key, and the calls that find it."""

    request: Request
    text: str
    key: Any
    calls: tuple[Call, ...]


def described_request(finder: Finder, requests: Requests, parent: Task, rng: random.Random) -> DescribedRequest | None:
    """Return a request of a task with a description in place of an id or a name, or None."""
    worse = None
    for one in _described(finder, requests, parent, rng):
        if not requests.has_ids(one.request.text):
            return one
        worse = worse or one
    return worse


def _described(finder: Finder, requests: Requests, parent: Task, rng: random.Random) -> Iterator[DescribedRequest]:
    index = finder.index
    worded = requests.of(parent)
    for request in rng.sample(worded, len(worded)):
        words = tokens(f"{request.text} {parent.answer}")
        for table, key in index.taken(parent):
            noun = index.noun(table)
            if is_code(key) and index.mention(table, key).search(request.body):
                pattern, name = index.mention(table, key), None
            elif name := _name(finder, table, key, request):
                pattern = re.compile(rf"(?:\b[Tt]he\s+)?(?:\b{re.escape(noun)}\s+)?\b{re.escape(name)}\b")
            else:
                continue
            for one in _descriptions(finder, requests, table, key, name, rng):
                given = (*one.values, *(value for call in one.calls for value in scalars(call.arguments)))
                if any(mentions(words, str(value)) for value in given if not is_date(value)):
                    continue  # the name is beside the id, so that no description is needed
                body = wording.described(request.body, pattern, one.text, noun, always=name is not None)
                if body is None or (name is not None and states(body, name)):
                    continue
                before, after = _parted([call for call in request.lookups if name not in scalars(call.arguments)], key)
                calls = tuple(unique_calls((*one.calls, *after)))
                yield DescribedRequest(request._replace(body=body, lookups=before), one.text, key, calls)


def _parted(calls: list[Call], key: Any) -> tuple[tuple[Call, ...], tuple[Call, ...]]:
    """Return the calls before an entry's key is needed, and those from there on."""
    needing = [position for position, call in enumerate(calls) if key in scalars(call.arguments)]
    first = needing[0] if needing else len(calls)
    return tuple(calls[:first]), tuple(calls[first:])


def _name(finder: Finder, table: str, key: Any, request: Request) -> str | None:
    """Return the name by which a request names an entry, if it does so and the entry is not who speaks."""
    columns = ("name", "title", "label")
    row = finder.index.row(table, key)
    name: str | None = next((row[column] for column in columns if isinstance(row.get(column), str)), None)
    if name is None or name == request.person or not states_value(request.body, tokens(request.body), name):
        return None
    return name


def _descriptions(
    finder: Finder, requests: Requests, table: str, key: Any, name: str | None, rng: random.Random
) -> Iterator[Description]:
    if name is None:
        called = requests.called(table, key)
        if called is not None:
            yield Description(called.text, called.calls, called.stated)
        if (found := finder.description(table, key)) is not None:
            yield found
        return
    if (found := finder.description(table, key, without=name)) is not None and not requests.has_ids(found.text):
        yield found
    yield from finder.through_others(table, key, requests, rng)
