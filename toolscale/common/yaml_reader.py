"""Reading and writing the YAML of domains, and errors that name the place where a value breaks its type."""

from __future__ import annotations

import re
import threading
import types
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from toolorchestra.toolscale.common.errors import DomainError, unknown_name

MAX_CHARACTERS = 200_000
"""Longest text that is read strictly."""
_DEEPEST = 24
_MAX_NODES = 40_000

_CONVERTING = threading.Lock()  # msgspec 0.22 crashes when two threads use a type for the first time

T = TypeVar("T")


def parse_yaml(text: str, *, strict: bool = False) -> Any:
    """Return the value that YAML `text` holds; ``strict`` (for a model's text) refuses aliases, tags and large data.

    >>> parse_yaml("{day: 2025-07-23, open: no, seats: 4}")
    {'day': '2025-07-23', 'open': 'no', 'seats': 4}

    Raises:
        DomainError: It is not YAML, or refused.
    """
    try:
        if strict:
            _check_plain(text)
        return yaml.load(text, _YamlLoader)  # a subclass of the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as a number of thousands of digits
        raise DomainError(f"Not valid YAML: {error}") from None


def read_yaml(file: Path) -> Any:
    """Return the data of a YAML file; see `parse_yaml`."""
    return parse_yaml(file.read_text(encoding="utf-8"))


def _check_plain(text: str) -> None:
    """Refuse what little text could do much with; reads events only, so that depth costs nothing."""
    if len(text) > MAX_CHARACTERS:
        raise DomainError(f"Expected at most {MAX_CHARACTERS:,} characters, found {len(text):,}.")
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, _YamlLoader)):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise DomainError(f"Line {line}: expected plain data, found an anchor or alias.", remedy="Write it out.")
        if tag := getattr(event, "tag", None):
            raise DomainError(f"Line {line}: expected plain data, found the tag {tag!r}.", remedy="Leave it out.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise DomainError(f"Line {line}: expected at most {_DEEPEST} levels of nesting.")
        if nodes > _MAX_NODES:
            raise DomainError(f"Expected at most {_MAX_NODES:,} values.")


def dump_yaml(value: Any) -> str:
    r"""Return the YAML of plain data, in the order given, with text of several lines in blocks.

    >>> print(dump_yaml({"today": "2025-07-23", "note": "one\ntwo\n"}), end="")
    today: '2025-07-23'
    note: |
      one
      two
    """
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes plain data without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    other_breaks = any(mark in value for mark in "\r\x85\u2028\u2029")  # YAML reads them as line feeds unless escaped
    style = '"' if other_breaks else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


class _YamlLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
    """YAML 1.2's core types: dates and times stay text, only true and false are booleans; keys are not repeated."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if repeated := [key for key, times in Counter(keys).items() if times > 1]:
            line = node.start_mark.line + 1
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {repeated[0]!r} stands twice in the object at line {line}", node.start_mark
            )
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith(":null")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789")
)  # 12:30, 0451 and 1_000 are text, not numbers of another base
_YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"),
    list("-+.0123456789"),
)


def convert(value: Any, kind: type[T], path: str = "") -> T:
    """Return `value` as a `kind` of the format.

    Raises:
        DomainError: Names the innermost place at which it is none, below `path`.
    """
    with _CONVERTING:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            fault = _fault(value, kind, path)
    assert fault is not None
    raise fault


def _fault(value: Any, kind: Any, path: str) -> DomainError | None:
    """Return the error about the innermost place at which `value` is not a `kind`, or None if it is one.

    msgspec names no keys of mappings and only the outside of a union; this descends into both.
    """
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message = str(error).partition(" - at `")[0]
    else:
        return None
    kind = _fitting(value, kind)
    children: list[tuple[str, Any, Any]] = []
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        known = {field.name: field.type for field in msgspec.structs.fields(kind)}
        children = [(f"{path}.{key}".lstrip("."), child, known[key]) for key, child in value.items() if key in known]
    elif isinstance(value, dict) and get_origin(kind) is dict:
        of_key, of_child = get_args(kind)
        children = [(f"{path}.{key}", key, of_key) for key in value]
        children += [(f"{path}.{key}", child, of_child) for key, child in value.items()]
    elif isinstance(value, list) and get_origin(kind) is list:
        children = [(f"{path}[{i}]", child, get_args(kind)[0]) for i, child in enumerate(value)]
    for place, child, of_child in children:
        if fault := _fault(child, of_child, place):
            return fault
    if found := re.search(r"unknown field `(.*?)`", message, re.DOTALL):
        return DomainError(unknown_name("key", found[1], kind.__struct_fields__), path=path)
    if get_origin(kind) is Literal:
        message = f"Expected one of {', '.join(map(repr, get_args(kind)))}; found {value!r}"
    return DomainError(message.replace("`str`", "text").rstrip(".") + ".", path=path)


def _fitting(value: Any, kind: Any) -> Any:
    """Return `kind` without annotation; of a union, the member that a `value` of its shape is meant to be."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    for member in get_args(kind) if get_origin(kind) in (Union, types.UnionType) else ():
        container = get_origin(member) or member
        shape = dict if isinstance(container, type) and issubclass(container, msgspec.Struct) else container
        if isinstance(shape, type) and isinstance(value, shape) and isinstance(value, (dict, list)):
            return member
    return kind
