"""Show the doctests of docstrings as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Put each block of doctests into a fence, as Markdown does not know them."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Change the docstring of an object that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(lambda match: f"```pycon\n{match[0]}\n```", obj.docstring.value)
