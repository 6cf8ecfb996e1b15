r"""Showing text that others wrote: no character of it is obeyed by a terminal, a browser or a viewer.

Escape sequences (which begin with ESC or a C1 control) move the cursor, colour what follows, set the title of a window
or write to its clipboard; bidirectional marks show text in another order than it has. Shown as what they are, as JSON
writes them (``\u001b``), they do nothing, and JSON that holds them stays the same JSON.

Not covered: letters that look like others, and marks that join letters, which scripts and emoji need.
"""

from __future__ import annotations

import json
import re

_HIDDEN = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # C0 but for tabs and ends of lines, DEL, C1
    "|[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
    "|[\ud800-\udfff]"  # halves of characters, which cannot be written
)


def visible(text: str) -> str:
    r"""Return a text whose control characters, bidirectional marks and other invisible characters are written out.

    >>> print(visible("\x1b[31mred\x9b0m \u202eback\r"))
    \u001b[31mred\u009b0m \u202eback\r
    """
    return _HIDDEN.sub(_written, text)


def cut(text: str, max_characters: int) -> str:
    """Return a text as one line of limited length.

    >>> cut("as many words  as there are", 15)
    'as many words …'
    """
    line = " ".join(text.split())
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"


def _written(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
