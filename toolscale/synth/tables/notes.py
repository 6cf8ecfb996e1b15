"""Notes: what a domain does not have as its database has it."""

from __future__ import annotations

from typing import Literal

NoteKind = Literal["left_out", "changed", "inferred"]
NOTE_TITLES: dict[NoteKind, str] = {
    "left_out": "Left out",
    "changed": "Not as in the file",
    "inferred": "Inferred from names and values, not declared in the file",
}
"""The headings under which notes are listed."""


class Notes(list[str]):
    """Sentences on what was left out, changed or inferred; what is only appended was changed.

    >>> notes = Notes()
    >>> notes.append("The dates of orders are ISO dates now.")
    >>> notes.left_out("The table 'log' holds no rows.")
    >>> notes.of("changed"), notes.of("inferred")
    (['The dates of orders are ISO dates now.'], [])
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[str, NoteKind] = {}

    def left_out(self, text: str) -> None:
        """Note what the domain does not have."""
        self._add("left_out", text)

    def changed(self, text: str) -> None:
        """Note what the domain has in another way."""
        self._add("changed", text)

    def inferred(self, text: str) -> None:
        """Note what the database does not say but its names and values imply."""
        self._add("inferred", text)

    def of(self, kind: NoteKind) -> list[str]:
        """Return the notes of one kind, each once."""
        return [text for text in dict.fromkeys(self) if self._kinds.get(text, "changed") == kind]

    def _add(self, kind: NoteKind, text: str) -> None:
        self.append(text)
        self._kinds[text] = kind
