"""Files of answers: which expert answered which problem, and whether it was right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from toolorchestra.agents.experts.likelihood import Kind
from toolorchestra.agents.experts.specification import Role
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.jsonl import read_jsonl


class AnswerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One answer of one expert to one problem: a line of the file.

    Attributes:
        expert: The expert.
        key: The problem; the same for all experts that were asked it.
        right: Whether the answer was right.
        sample: Number of this answer among the expert's answers to the problem.
        subject: Subject of the problem.
        steps: Steps of reasoning that it takes.
        difficulty: Difficulty of a step in logits; 0 if it is not known.
        notes: Steps about which the prompt held a false claim.
        tokens: Tokens written.
        seconds: Time taken.
        prompt_tokens: Tokens read.
        role: The role in which the expert was asked.
    """

    expert: str
    key: str
    right: bool
    sample: int = 0
    subject: str = "other"
    steps: Annotated[int, Meta(ge=1)] = 1
    difficulty: float = 0.0
    notes: Annotated[int, Meta(ge=0)] = 0
    tokens: Annotated[int, Meta(ge=1)] | None = None
    seconds: Annotated[float, Meta(gt=0)] | None = None
    prompt_tokens: Annotated[int, Meta(ge=0)] = 0
    role: Role | None = None

    @property
    def posed(self) -> tuple[str, int, float, int]:
        """The problem's subject, steps, difficulty and notes."""
        return self.subject, self.steps, self.difficulty, self.notes

    def kind(self, context: int) -> Kind:
        """Return what its being right depends on, for an expert with a context of so many tokens."""
        return Kind(*self.posed, min(1.0, context / max(1, self.prompt_tokens)))


def read_answers(file: Path) -> list[AnswerRow]:
    """Return the rows of a JSONL file.

    Raises:
        OptionError: A line is no `AnswerRow`, repeats another, or poses a problem differently; names the line.
    """
    rows: list[AnswerRow] = []
    lines: dict[tuple[str, str, int], int] = {}
    posed: dict[str, tuple[int, AnswerRow]] = {}
    for number, row in read_jsonl(file, AnswerRow, "an answer"):
        first = lines.setdefault((row.expert, row.key, row.sample), number)
        if first != number:
            raise OptionError(
                f"{file}:{number}: expected one row for sample {row.sample} of {row.expert} on {row.key!r}; line "
                f"{first} is one already. Number the samples."
            )
        before, like = posed.setdefault(row.key, (number, row))
        if like.posed != row.posed:
            raise OptionError(
                f"{file}:{number}: expected {row.key!r} to be what it is in line {before} (subject, steps, difficulty, "
                f"notes: {like.posed}), got {row.posed}. Give another problem another key."
            )
        rows.append(row)
    if not rows:
        raise OptionError(f"{file} holds no answer.")
    return rows
