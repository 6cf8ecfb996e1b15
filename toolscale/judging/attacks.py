"""Answers that must not earn a reward, and right ones in other words: what `validate` tries on the judge.

Each generator yields names and answers. What it yields is made from the reference answer, the results of the reference
calls and other tasks; all choices are drawn from a generator that the task's id seeds.
"""

from __future__ import annotations

import datetime
import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from toolorchestra.toolscale.judging.expected import ExpectedAnswer, ExpectedFact, contains, kind_of_token
from toolorchestra.toolscale.mentions import MONTHS, tokens
from toolorchestra.toolscale.numerals import TENS, UNITS
from toolorchestra.toolscale.observed import shown_values
from toolorchestra.toolscale.task import Task

_REFUSALS = (
    "Nothing, none, no, yes, not possible, cannot, sorry, not available, refused, done, booked, cancelled, free."
)
_ONE_WORD = ("", "Yes.", "No.", "Done.", "None", "OK", "0", "1", "Booked.", "Sorry.", "I cannot help you with that.")
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)\s+(?=[A-Z])")
_LARGE = 4
"""Values beyond the request and the answer that results must show, for a dump of them to be one."""


class Context(msgspec.Struct, frozen=True):
    """What an attacker on a task knows.

    Attributes:
        task: The task.
        expected: What its answers are judged by.
        results: The results of the reference calls.
        siblings: Other tasks of the same intent.
        strangers: Tasks of other intents.
        replaced: Values that the reference calls replace in the database, each before and after.
        idle: Whether nothing need be done or looked up.
    """

    task: Task
    expected: ExpectedAnswer
    results: Sequence[Any]
    siblings: Sequence[Task]
    strangers: Sequence[Task]
    replaced: Sequence[tuple[Any, Any]] = ()
    idle: bool = False


def attacks(context: Context) -> Iterator[tuple[str, str]]:
    """Yield wrong answers: the name of the attack, and the text."""
    task, results = context.task, context.results
    rng = random.Random(f"attacks:{task.id}")
    answer = task.answer if task.answer[-1] in ".!?" else f"{task.answer}."
    if _surplus(context) > _LARGE:
        raw = json.dumps(results, default=str)
        prose = as_prose(results)
        yield "dump, raw", raw
        yield "dump, prose", prose
        yield "dump, with numbers and refusals", f"{prose} {' '.join(map(str, range(30)))}. {_REFUSALS}"
    yield "denial", f"It is NOT true that: {answer} I do not know."
    yield "denial", f"The following is false: {answer}"
    yield "denial", f"{answer} None of this is true."
    own = {token for fact in context.expected.facts for phrase in fact.phrases for token in phrase}
    rivals = [rival_of(fact, context, rng) for fact in context.expected.facts]
    for position, rival in enumerate(rivals):
        fact = task.communicate[position][0]
        if rival is None or set(tokens(rival)) <= own or _with(answer, fact, "") == answer:
            continue
        yield "hedge", _with(answer, fact, f"either {fact} or {rival}")
        yield "hedge", _with(answer, fact, f"{fact}, or maybe {rival}")
        yield "hedge", f"{answer} Or perhaps {rival}."
        yield "rival in its place", _with(answer, fact, rival)
        yield "rivals appended", f"{answer} {rival}."
        yield "rivals appended", f"{answer} It is also {rival}."
        yield "rivals appended", _with(answer, fact, f"{rival}, {fact}")
    yield "parrot", task.instruction
    yield "parrot", f"You asked: {task.instruction}"
    yield "parrot", f"{task.instruction} Done."
    yield from _flipped(context)
    yield from _earlier(context)
    others = [other for other in context.siblings if not _shared(other, task)]
    if others:
        yield "answer of another branch", rng.choice(others).answer
        yield "answers of all branches", " ".join(dict.fromkeys((answer, *(other.answer for other in others[:4]))))
    others = [other for other in context.strangers if not _shared(other, task)]
    if others:
        yield "answer of another task", rng.choice(others).answer
    for word in _ONE_WORD:
        yield "one word", word


def _with(answer: str, fact: str, other: str) -> str:
    """Return an answer with something else in the place of a fact, where this stands as a word or a value."""
    zeros = r"(?:\.0+|(?<=\.\d)0)?" if fact[-1:].isdigit() else ""  # 333.9 is written 333.90
    return re.sub(rf"(?<![\w.,-]){re.escape(fact)}{zeros}(?![\w%]|[.,:-]\w)", lambda _: other, answer)


def _shared(other: Task, task: Task) -> bool:
    """Return whether another task has the facts of this one."""
    return all(any(set(a) & set(b) for b in other.communicate) for a in task.communicate)


def _earlier(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the reference answer with a value as it was before the change."""
    task = context.task
    for fact, options in zip(context.expected.facts, task.communicate, strict=True):
        known = {token for phrase in fact.phrases for token in phrase}
        for before, after in context.replaced:
            text = f"{before:.2f}" if isinstance(before, float) else str(before).replace("_", " ")
            states_after = options[0] in task.answer and tuple(tokens(str(after))) in fact.phrases
            earlier = task.answer.replace(options[0], text)
            found = tokens(earlier)
            if (
                states_after
                and not set(tokens(text)) <= known
                and not any(contains(found, phrase) for phrase in fact.phrases)
            ):
                yield "value before the change", earlier
                return


def _flipped(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the reference answer with the polarity of its facts flipped."""
    task, answer = context.task, context.task.answer
    for found in re.finditer(
        r"\b(is|are|was|were|can|has|have|will|must)\b(?! not|n't)(?<!as it is)(?<!where it is)(?<!as it was)", answer
    ):
        flipped = f"{answer[: found.end()]} not{answer[found.end() :]}"
        if any(_after(flipped, found.end(), options) for options in task.communicate):
            yield "polarity flipped", flipped
            break
    for found in re.finditer(r"\b(is|are|was|were|can|must|does|do|did) ?not \b|\bno \b", answer):
        word = {"can": "can ", "no ": "a "}.get(found[1] or found[0], f"{found[1]} " if found[1] else "a ")
        yield "polarity flipped", answer[: found.start()] + word + answer[found.end() :]
        break


def _after(text: str, start: int, options: Sequence[str]) -> bool:
    """Return whether a fact stands after a place in a text, in the same sentence."""
    rest = re.split(r"[.;](?:\s|$)", text[start:], maxsplit=1)[0]
    return any(option in rest for option in options)


def _surplus(context: Context) -> int:
    """Return how many values the results show that are neither asked for nor given."""
    shown = {str(value) for _, value in shown_values(list(context.results))}
    known = {*tokens(context.task.instruction), *tokens(context.task.answer)} | {
        t for f in context.expected.facts for p in f.phrases for t in p
    }
    return sum(not set(tokens(value)) <= known for value in shown)


def as_prose(results: Sequence[Any]) -> str:
    """Return everything that results show, in words."""
    parts = []
    for result in results:
        pairs = [f"the {name.replace('_', ' ') or 'result'} is {value}" for name, value in shown_values(result)]
        parts.append(", ".join(pairs))
    return ". ".join(part.capitalize() for part in parts if part) + "."


def rival_of(fact: ExpectedFact, context: Context, rng: random.Random) -> str | None:
    """Return another value of the kind of a fact, as a careless answer would give it."""
    if fact.rivals:
        return " ".join(rng.choice(fact.rivals)).replace("#", "")
    token = fact.phrases[0][0] if len(fact.phrases[0]) == 1 else ""
    match kind_of_token(token) if token else None:
        case "number":
            value = float(token[1:])
            other = value + rng.choice((1, 2, 10, -1))
            text = str(int(other)) if value == int(value) else f"{other:.2f}"
            return f"${text}" if fact.kind == "money" else text
        case "date" if "?" not in token:
            day = datetime.date.fromisoformat(token[1:]) + datetime.timedelta(rng.choice((1, 2, 7)))
            return day.isoformat()
        case "time":
            hours, minutes = map(int, token[1:].split(":")[:2])
            return f"{(hours + rng.choice((1, 2))) % 24:02d}:{minutes:02d}"
        case "identifier":
            if parts := re.fullmatch(r"(\D*)(\d+)", token):
                digits = parts[2]
                return f"{parts[1].upper()}{int(digits) + rng.choice((1, 2, 3)):0{len(digits)}d}"
    return None


def rephrasings(context: Context) -> Iterator[tuple[str, str]]:
    """Yield right answers in other words: the kind of rephrasing, and the text."""
    task, answer = context.task, context.task.answer
    answer = answer if answer[-1] in ".!?" else f"{answer}."
    yield "as it is", task.answer
    yield "courtesy", f"Of course! {answer} Is there anything else I can do for you?"
    yield "courtesy", f"Hello, thank you for your patience. {answer} Have a nice day!"
    yield "explanation", f"I have looked this up in our records with the tools that I have. {answer}"
    yield "explanation", f"{answer} This follows from what the system shows at the moment."
    yield "first person", f"I checked it for you and can confirm: {answer}"
    yield (
        "first person",
        f"I am happy to tell you that {answer[0].lower() + answer[1:] if answer[1:2].islower() else answer}",
    )
    yield "heading", f"**Answer**\n\n{answer}"
    yield "capitals", answer.upper()
    yield "label", f"Answer: {answer}"
    sentences = _SENTENCE_END.split(answer)
    yield "bullet list", "Here is what I found:\n" + "\n".join(f"- {sentence}" for sentence in sentences)
    yield "numbered list", "Here is what I found:\n" + "\n".join(f"{i}. {s}" for i, s in enumerate(sentences, 1))
    if len(sentences) > 1:
        yield "order", " ".join(reversed([s if s[-1] in ".!?" else s + "." for s in sentences]))
    rows = (f"| {'Details' if row else 'Answer'} | {sentence} |" for row, sentence in enumerate(sentences))
    yield "table", "| What | Result |\n|---|---|\n" + "\n".join(rows)
    for position, options in enumerate(task.communicate):
        fact = options[0]
        if answer.count(fact) == 1 and re.search(rf"(?<![\w$.]){re.escape(fact)}(?![\w]|[.,-]\w)", answer):
            yield "bold", answer.replace(fact, f"**{fact}**")
            yield from _formats(answer, fact, context.expected.facts[position])
    if detail := _detail(context):
        yield "extra detail", f"{answer} For your information, {detail}."


def _formats(answer: str, fact: str, expected: ExpectedFact) -> Iterator[tuple[str, str]]:
    """Yield the answer with a fact written in other ways."""
    token = expected.phrases[0][0] if len(expected.phrases[0]) == 1 else ""
    if re.fullmatch(r"@\d{4}-\d{2}-\d{2}", token) and re.fullmatch(r"[\w ,-]+", fact):
        year, month, day = map(int, token[1:].split("-"))
        yield "date", answer.replace(fact, f"{MONTHS[month - 1].capitalize()} {day}, {year}")
        yield "date", answer.replace(fact, f"{day} {MONTHS[month - 1].capitalize()} {year}")
        yield "date", answer.replace(fact, f"{day:02d}.{month:02d}.{year}")
    elif expected.kind == "money" and re.fullmatch(r"\$-?[\d,]+(?:\.\d+)?", fact):
        number = fact.lstrip("$").replace(",", "")
        yield "money", answer.replace(fact, f"{number} dollars")
        yield "money", answer.replace(fact, f"USD {float(number):,.2f}")
        if float(number) < 1000:
            yield "money", answer.replace(fact, f"{float(number):.2f}".replace(".", ",") + " $")
    elif (
        expected.kind == "number"
        and re.fullmatch(r"\d{1,2}", fact)
        and re.search(rf"(?<![\w.,-]){fact}(?![\w.,%-])", answer)
    ):
        yield "number word", re.sub(rf"(?<![\w.,-]){fact}(?![\w.,%-])", number_word(int(fact)), answer)
    elif token[:1] == "~" and re.fullmatch(r"\d\d:\d\d", fact):
        hours, minutes = map(int, fact.split(":"))
        yield "time", answer.replace(fact, f"{(hours - 1) % 12 + 1}:{minutes:02d} {'pm' if hours >= 12 else 'am'}")


def number_word(number: int) -> str:
    """Return a number below 100 in words.

    >>> number_word(7), number_word(40), number_word(93)
    ('seven', 'forty', 'ninety-three')
    """
    if number < 20:
        return UNITS[number]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f"-{UNITS[ones]}" if ones else "")


def _detail(context: Context) -> str:
    """Return one more thing that the results show, of another kind than the facts."""
    kinds = {"number" if fact.kind == "money" else fact.kind for fact in context.expected.facts}
    own = {token for fact in context.expected.facts for phrase in (*fact.phrases, *fact.rivals) for token in phrase}
    for name, value in shown_values(list(context.results)):
        found = tokens(str(value))
        if (
            name
            and len(found) == 1
            and kind_of_token(found[0]) not in kinds | {None, "identifier"}
            and found[0] not in own
        ):
            return f"the {name.replace('_', ' ')} is {value}"
    return ""
