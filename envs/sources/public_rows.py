"""What a row of a public data set means: which columns hold what, and the question that they make.

`PublicSet` says it for a set, in data (``public.yaml``); `read_row` follows it. Not covered: where rows come from
(`toolorchestra.envs.sources.row_files`), and how programs are graded (`toolorchestra.envs.sources.code_questions`).
"""

from __future__ import annotations

import ast
import base64
import binascii
import hashlib
import itertools
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.envs.ground_truth.parts import SubProblem
from toolorchestra.envs.sources.code_questions import ProgramTests, program_question
from toolorchestra.envs.sources.row_files import HubSet, Row
from toolorchestra.toolscale.answers.answers import boxed

Paragraph = tuple[str, str]
"""Title and text."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CHOOSE = "Answer with the letter of the right choice."
_CHOOSE_SEVERAL = "Several choices are right. Answer with the letters of all of them."
_SEVERAL_LETTERS = re.compile(r"[A-H](?:[ ,]*[A-H])+")


class PublicSet(HubSet, frozen=True, forbid_unknown_fields=True, kw_only=True):
    r"""A public data set: where it is published, and what its columns are.

    Where several columns are named, the first that is not empty counts. A dotted name leads into a column:
    ``prompt.0.content`` is the text of the first message.

    Attributes:
        subject: Subject of the skill that its questions take.
        columns_from: Where its columns were read.
        licence: Licence that its authors state, where it is known.
        note: What a reader of its documentation should know.
        question: Columns of the question.
        before: Columns of what comes before the question, such as a context.
        frame: Regular expression; its first group is what is kept of a question that it matches.
        answer: Columns of the answer.
        also: Columns of further answers that are accepted, each a text or a list of texts.
        solution: Columns of a solution, whose last box is the answer where there is no other.
        after: Text after whose last occurrence in its column the answer stands.
        options: Column of the choices: a list, or texts by letter. The answer is then the letter of one.
        wrong: Columns of wrong choices; the answer is then the text of the right one, and they are shuffled.
        letters: Whether the answer may be several letters.
        id: Columns of the id.
        level: Columns of the difficulty: a digit, or a key of `levels`. A list stands for as many levels as it has
            entries.
        levels: Difficulty by what `level` says.
        default_level: Difficulty of what has none.
        topic: Columns of the topic, which becomes the intent of a task.
        topic_ends: Text at which the topic ends, if it is only the beginning of its column.
        leave_out_if: Columns; a row is left out if one of them holds something (an image).
        only_if: Columns; a row is left out if one of them says false.
        paragraphs: Column of paragraphs that are searched: titles and sentences.
        documents: Columns of documents that are searched.
        steps: Column of the steps that lead to the answer.
        canary: Password with which the texts of a row are encrypted.
        tests: Columns of tests; the answer is then a program.
    """

    subject: str
    columns_from: str
    licence: str = ""
    note: str = ""
    question: tuple[str, ...]
    before: tuple[str, ...] = ()
    frame: str = ""
    answer: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    solution: tuple[str, ...] = ()
    after: str = ""
    options: str = ""
    wrong: tuple[str, ...] = ()
    letters: bool = False
    id: tuple[str, ...] = ()
    level: tuple[str, ...] = ()
    levels: dict[str, int] = msgspec.field(default_factory=dict)
    default_level: int = 4
    topic: tuple[str, ...] = ()
    topic_ends: str = ""
    leave_out_if: tuple[str, ...] = ()
    only_if: tuple[str, ...] = ()
    paragraphs: str = ""
    documents: tuple[str, ...] = ()
    steps: str = ""
    canary: str = ""
    tests: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        """The columns without which a row cannot be read; of several that will do, the first."""
        named = [self.question, self.answer or self.solution, self.tests, self.wrong]
        return [columns[0] for columns in named if columns] + [name for name in (self.options, self.paragraphs) if name]


class Read(msgspec.Struct, frozen=True):
    """What is read from a row.

    Attributes:
        question: The question.
        answers: Accepted answers, that to give first; none if the answer is a program.
        id: Its id in the set, if it has one.
        level: Difficulty, 1 to 5.
        topic: Its kind, which becomes the task's intent.
        paragraphs: What can be searched.
        parts: Its parts, if known; `support` holds positions among `paragraphs`.
        tests: Tests of the program that is the answer.
    """

    question: str
    answers: tuple[str, ...]
    id: str
    level: int
    topic: str
    paragraphs: tuple[Paragraph, ...] = ()
    parts: tuple[SubProblem, ...] = ()
    tests: ProgramTests | None = None


def read_row(known: PublicSet, row: Row) -> Read | None:
    """Return what a row of a set says; None if it is left out.

    Raises:
        KeyError, TypeError, ValueError: It does not have the columns of the set, or they hold something else.
    """
    if known.canary:
        row = _decrypted(row, known.canary)
    if any(_at(row, name) for name in known.leave_out_if):
        return None
    if any(_at(row, name) is False for name in known.only_if):
        return None
    question = _text(row, known.question)
    if known.frame and (found := re.match(known.frame, question, re.DOTALL)):
        question = found[1].strip()
    if before := _text(row, known.before, ""):
        question = f"{before}\n\n{question}"
    identity = _text(row, known.id, "")
    tests = None
    if known.tests:
        question, tests = program_question(question, row, known.tests)
        answers: tuple[str, ...] = ()
    elif known.wrong or known.options:
        question, answers = _choice(known, row, question, identity or question[:80])
    else:
        answers = _answers(known, row)
        if not answers:
            return None
    parts = _steps(row, known.steps) if known.steps else ()
    topic = _text(row, known.topic, "all")
    return Read(
        question,
        answers,
        id=identity,
        level=min(5, max(1, len(parts))) if parts else _level(known, row),
        topic=topic.partition(known.topic_ends)[0] if known.topic_ends in topic[1:] and known.topic_ends else topic,
        paragraphs=_paragraphs(known, row),
        parts=parts,
        tests=tests,
    )


def _at(row: Any, name: str) -> Any:
    """Return what a column holds, or what a dotted name leads to in one; None if there is nothing."""
    if name in row:
        return row[name]
    for step in name.split("."):
        if isinstance(row, Mapping):
            row = row.get(step)
        elif isinstance(row, Sequence) and not isinstance(row, str) and step.isdecimal() and int(step) < len(row):
            row = row[int(step)]
        else:
            return None
    return row


def _text(row: Row, names: Sequence[str], default: str | None = None) -> str:
    """Return the first of some columns that is not empty, as text; else the default or, without one, a `KeyError`."""
    for name in names:
        value = _at(row, name)
        if value not in (None, "", []) and not isinstance(value, Mapping):
            if isinstance(value, list | tuple):  # a list with the one answer
                value = ", ".join(map(str, value)) if not isinstance(value[0], Mapping) else ""
            if text := str(value).strip():
                return text
    if default is None:
        raise KeyError(names[0])
    return default


def _answers(known: PublicSet, row: Row) -> tuple[str, ...]:
    """Return the accepted answers; none if the set is published without them, or a solution has no box."""
    answer = _text(row, known.answer, "")
    if known.answer and not answer and not known.solution:
        if all(_at(row, name) is None and name not in row for name in known.answer):
            raise KeyError(known.answer[0])
        return ()  # test sets are published without answers
    if not answer:
        solution = _text(row, known.solution)
        answer = boxed(solution) or ""
        if not answer:
            return ()
    if known.after:
        answer = answer.rpartition(known.after)[2].strip().replace(",", "")
    answer = re.sub(r"^(-?\d+)\.0$", r"\1", answer)  # integers that a table keeps as 142.0
    accepted = list(_in_letters(answer)) if known.letters else [answer]
    for name in known.also:
        more = _at(row, name)
        accepted += map(str, more) if isinstance(more, list | tuple) else [str(more)] if more else []
    return tuple(accepted)


def _in_letters(answer: str) -> tuple[str, ...]:
    """Return an answer; if it is several letters, these without and with commas between them."""
    if not _SEVERAL_LETTERS.fullmatch(answer):
        return (answer,)
    letters = re.findall(r"\w", answer)
    return "".join(letters), ", ".join(letters)


def _choice(known: PublicSet, row: Row, question: str, seed: str) -> tuple[str, tuple[str, ...]]:
    """Return a question with its choices, and the letter of the right one, alone and with its text."""
    if known.wrong:
        right = _text(row, known.answer)
        choices = [right, *(_text(row, [name]) for name in known.wrong)]
        random.Random(f"gpqa:{seed}").shuffle(choices)
    else:
        given = _at(row, known.options)
        if isinstance(given, str):
            given = msgspec.json.decode(given)
        letter = _text(row, known.answer)
        if known.letters and _SEVERAL_LETTERS.fullmatch(letter):
            lines = [f"({one}) {given[one]}" for one in given]
            return "\n".join([question, "", *lines, "", _CHOOSE_SEVERAL]), _in_letters(letter)
        if isinstance(given, Mapping):
            right, choices = str(given[letter]), [str(text) for text in given.values() if text is not None]
        else:
            right = str(given[LETTERS.index(letter)])
            choices = [str(text) for text in given if text != "N/A"]  # that fills up to ten
    lines = [f"({letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    letter = LETTERS[choices.index(right)]
    return "\n".join([question, "", *lines, "", _CHOOSE]), (letter, f"({letter}) {right}")


def _level(known: PublicSet, row: Row) -> int:
    for name in known.level:
        value = _at(row, name)
        if isinstance(value, str) and value[:1] == "[":  # a list of addresses, written as Python has it
            try:
                value = ast.literal_eval(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
        if isinstance(value, list | tuple):
            return min(5, max(2, len(value)))
        if str(value) in known.levels:
            return known.levels[str(value)]
        if digit := re.search(r"\d", str(value or "")):
            return min(5, max(1, int(digit[0])))
    return known.default_level


def _paragraphs(known: PublicSet, row: Row) -> tuple[Paragraph, ...]:
    """Return titles and texts, however a set has them: columns, pairs, JSON of either, or documents."""
    if known.documents:
        every = itertools.chain.from_iterable(_at(row, name) or () for name in known.documents)
        return tuple(dict.fromkeys((str(one.get("url") or one["docid"]), str(one["text"])) for one in every))
    if not known.paragraphs:
        return ()
    context = row[known.paragraphs]
    if isinstance(context, str):
        context = msgspec.json.decode(context)
    if isinstance(context, Mapping):
        pairs: Iterable[Any] = zip(
            context["title"], context["sentences"] if "sentences" in context else context["content"], strict=True
        )
    elif context and isinstance(context[0], Mapping):
        pairs = [(one["title"], [one["paragraph_text"]]) for one in context]
    else:
        pairs = context
    return tuple((str(title), "".join(sentences).strip()) for title, sentences in pairs)


def _steps(row: Row, column: str) -> tuple[SubProblem, ...]:
    """Return the steps of MuSiQue: questions that name the answers of earlier ones as ``#1``."""
    places = {paragraph["idx"]: str(place) for place, paragraph in enumerate(row["paragraphs"])}
    parts: list[SubProblem] = []
    for step in row.get(column) or ():
        needs = tuple(sorted({int(found) - 1 for found in re.findall(r"#(\d+)", step["question"])}))
        question = step["question"].replace(" >> ", ": ")
        for needed in needs:
            question = question.replace(f"#{needed + 1}", parts[needed].answer)
        place = places.get(step.get("paragraph_support_idx"))
        parts.append(SubProblem(question, str(step["answer"]), (), needs, 0.5, None, (place,) if place else ()))
    return tuple(parts)


def _decrypted(row: Row, canary: str) -> Row:
    """Return a row with its texts in the clear, as they are already in a file that its authors' script wrote.

    The texts are combined bit by bit with a key that is made from the canary; ids are left as they are.
    """
    key = hashlib.sha256(canary.encode()).digest()

    def clear(value: Any) -> Any:
        if isinstance(value, str):
            encrypted = base64.b64decode(value, validate=True)
            return bytes(a ^ b for a, b in zip(encrypted, itertools.cycle(key), strict=False)).decode()
        if isinstance(value, Mapping):
            return {name: one if name == "query_id" else clear(one) for name, one in value.items()}
        return [clear(one) for one in value] if isinstance(value, list | tuple) else value

    try:
        base64.b64decode(str(row["query"]), validate=True)
    except binascii.Error:
        return row  # a question has spaces, which no encrypted text has
    found: Row = clear(row)
    return found
