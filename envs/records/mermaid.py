"""Graphs of boxes as Mermaid text, which GitHub, notebooks and many editors draw; the same for the same graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from toolorchestra.toolscale.common.visible import cut, visible

MAX_CHARACTERS = 100
"""Characters of a line in a box; Mermaid wraps it."""
_SPECIAL = re.compile(r"[^\w .,:=+'()/\-\u00a0-\U0010ffff]")


class Box(NamedTuple):
    """A box: its name in the graph (a word), the lines in it, and the class that gives its colours."""

    name: str
    lines: tuple[str, ...]
    kind: str


def flowchart(
    boxes: Iterable[Box], edges: Iterable[tuple[str, str, str]], styles: Mapping[str, str], direction: str = "TB"
) -> str:
    r"""Return a graph as a Mermaid flowchart.

    `edges` are pairs of names with a label, which may be empty; `styles` are the CSS of the kinds of boxes. What has a
    meaning in Mermaid or HTML is written as character codes.

    >>> print(flowchart([Box("a", ("A",), "x"), Box("b", ("B", "<5>"), "x")], [("a", "b", "")], {"x": "fill:#fff"}))
    flowchart TB
      classDef x fill:#fff
      a["A"]:::x
      b["B<br/>#60;5#62;"]:::x
      a --> b
    <BLANKLINE>
    """
    lines = [f"flowchart {direction}", *(f"  classDef {kind} {style}" for kind, style in styles.items())]
    for box in boxes:
        label = "<br/>".join(escaped(line) for line in box.lines if line)
        lines.append(f'  {box.name}["{label}"]:::{box.kind}')
    for start, end, label in edges:
        lines.append(f"  {start} --> {end}" if not label else f'  {start} -->|"{escaped(label)}"| {end}')
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Return a text as it stands in a label: one line of limited length, in which nothing has a meaning.

    >>> escaped('say "end" ')
    'say #34;end#34;'
    """
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", cut(visible(text), MAX_CHARACTERS))
