"""SVG figures that can be read on a light and on a dark page, and how matplotlib's are written.

A figure is drawn for a light page. `themed` adds rules that give its colours their dark counterparts where the page, or
the system, is dark. The ground is drawn too, so that a figure can be read even where its page has the other theme.
What has a colour of `SERIES` looks the same in both. Not here: what the figures show.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERIES = ("#3f7cc4", "#d0652b", "#3b8f5a", "#9a68c9", "#a8763e", "#c94f7c", "#2f8f96", "#7d7f86")
"""Colours of curves, bars and areas: each has a contrast of 3 and more with the ground, light and dark."""
GROUND, DARK_GROUND = "#ffffff", "#0d1117"
TEXT, DARK_TEXT = "#000000", "#e6edf3"
_DARK = {
    GROUND: DARK_GROUND,
    TEXT: DARK_TEXT,
    # further texts and thin lines
    "#222222": DARK_TEXT, "#444444": "#9da7b3", "#555555": "#9da7b3", "#777777": "#9da7b3", "#b0b0b0": "#444c56",
    "#cccccc": "#444c56",
    # fills of boxes, with texts in them
    "#eef3fb": "#16243b", "#e8f0fb": "#16243b", "#fdf3dc": "#3a2f0b", "#e3f4e4": "#12301a", "#fbe3e1": "#3b1714",
    "#fdeacb": "#3a2808", "#ececec": "#2a2f37",
}  # fmt: skip


def themed(svg: str) -> str:
    """Return an SVG that is drawn for a light page with rules for a dark one.

    >>> print(themed('<svg><rect fill="#ffffff"/></svg>'))
    <svg><rect fill="#ffffff"/><style>
    @media (prefers-color-scheme:dark){
    text{fill:#e6edf3}
    [fill="#ffffff"],[style*="fill: #ffffff"]{fill:#0d1117!important}
    }
    </style></svg>
    """
    rules = [f"text{{fill:{DARK_TEXT}}}"]
    for light, dark in _DARK.items():
        for what in ("fill", "stroke"):
            if f'{what}="{light}"' in svg or f"{what}: {light}" in svg:
                rules.append(f'[{what}="{light}"],[style*="{what}: {light}"]{{{what}:{dark}!important}}')
    body, _, end = svg.rpartition("</svg>")
    lines = "\n".join(["@media (prefers-color-scheme:dark){", *rules, "}"])
    return f"{body}<style>\n{lines}\n</style></svg>{end}"


def svg_of(figure: Figure, salt: str) -> str:
    """Return a figure of matplotlib as SVG text with nothing cut off: the same bytes for the same figure and salt."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return themed(text.getvalue())


def shades(count: int) -> Sequence[str]:
    """Return colours of so many ordered values, from blue to green; each can be seen on both grounds.

    >>> shades(2)
    ('#4a5fc1', '#5f9f3a')
    """
    ramp = ((0x4A, 0x5F, 0xC1), (0x2F, 0x8F, 0x96), (0x5F, 0x9F, 0x3A))
    found = []
    for number in range(count):
        at = 2 * number / max(1, count - 1)
        start, end, part = ramp[min(1, int(at))], ramp[min(2, int(at) + 1)], at - min(1, int(at))
        found.append("#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(start, end, strict=True)))
    return tuple(found)
