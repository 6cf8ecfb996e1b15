"""SVG of graphs of boxes without a drawing library: the same graph gives the same bytes.

What stands in the boxes, and where, is for the scripts that draw figures to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape

from toolorchestra.toolscale.common.svg_themes import themed
from toolorchestra.toolscale.common.visible import cut, visible

Point = tuple[float, float]
"""x and y of a left upper corner, in pixels."""
STYLE = "text{font:12px system-ui,sans-serif}.id{font-weight:600}.small{font-size:11px;opacity:.75}"
"""The style of texts; ``id`` and ``small`` are classes."""
EDGE = "#7d8794"
"""Colour of edges, which can be seen on both grounds."""
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(width: float, height: float, head: Iterable[str], parts: Iterable[str]) -> str:
    """Return an SVG of elements, in light and dark; `head` stands before the background."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        *head,
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    return themed("\n".join([*lines, *parts, "</svg>\n"]))


def box(corner: Point, size: tuple[int, int], colours: tuple[str, str], hint: str, elements: Iterable[str]) -> str:
    """Return a box of elements, filled and framed in two colours; `hint` is shown when the pointer rests on it."""
    (x, y), (width, height), (fill, frame) = corner, size, colours
    border = f'<rect width="{width}" height="{height}" rx="8" fill="{fill}" stroke="{frame}"/>'
    return f'<g transform="translate({x:g} {y:g})"><title>{escaped(hint)}</title>{border}{"".join(elements)}</g>'


def escaped(text: str, max_characters: int | None = None) -> str:
    """Return a text as it stands in an element: whole, or cut to a line of limited length."""
    return escape(_NOT_XML.sub("�", visible(text if max_characters is None else cut(text, max_characters))))
