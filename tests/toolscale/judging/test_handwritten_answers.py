"""The judge against answers written and labelled by hand, without a look at how they are judged.

A file of tests/data/answers holds those of one domain: per task, what a good assistant would write to the user
(`right`), and what is wrong in a small way (`wrong`, each with its reason: one digit, another name, the other branch,
true but not asked, a promise, a hedge). Only the text is judged: the reference calls count as made.

A label is changed only where it was a mistake, never because the judge says otherwise.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.judging.judge import judge_answer

FILES = sorted((Path(__file__).parents[2] / "data" / "answers").glob("*.yaml"))
DOMAINS = [path.stem for path in FILES]
COUNT = 30
INTENTS = 20
LEAST_PER_DOMAIN, LEAST = 0.95, 0.98


class Verdict(NamedTuple):
    """An answer, what was written beside it, and what the judge found wrong."""

    task: str
    text: str
    right: bool
    why: str
    found: tuple[str, ...]

    @property
    def as_labelled(self) -> bool:
        return self.right == (not self.found)

    def __str__(self) -> str:
        label = "right" if self.right else f"wrong ({self.why})"
        return f"{self.task}, {label}: {self.text!r}\n    judged {'; '.join(self.found) or 'right'}"


@functools.cache
def read_answers(domain: str) -> tuple[dict[str, Any], ...]:
    path = next(path for path in FILES if path.stem == domain)
    return tuple(yaml.safe_load(path.read_text(encoding="utf-8")))


@functools.cache
def judge_domain(name: str) -> tuple[Verdict, ...]:
    domain = load_domain(name)
    tasks = {task.id: task for task in domain.tasks()}
    verdicts = []
    for entry in read_answers(name):
        expected = domain.verifier.reference(tasks[entry["task"]]).answer
        labelled = [(text, True, "") for text in entry.get("right", ())]
        labelled += [(answer["text"], False, answer["why"]) for answer in entry.get("wrong", ())]
        verdicts += [
            Verdict(entry["task"], text, right, why, tuple(judge_answer(text, expected)))
            for text, right, why in labelled
        ]
    return tuple(verdicts)


def explain(verdicts: list[Verdict]) -> str:
    otherwise = [verdict for verdict in verdicts if not verdict.as_labelled]
    lines = "\n".join(map(str, otherwise))
    return f"{len(otherwise)} of {len(verdicts)} answers are judged otherwise than labelled:\n{lines}"


def share(verdicts: list[Verdict]) -> float:
    return sum(verdict.as_labelled for verdict in verdicts) / len(verdicts)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_domain_has_thirty_right_and_thirty_wrong_answers_to_many_kinds_of_request(domain: str) -> None:
    answers = read_answers(domain)
    texts = [
        text
        for entry in answers
        for text in (*entry.get("right", ()), *(wrong["text"] for wrong in entry.get("wrong", ())))
    ]
    assert sum(len(entry.get("right", ())) for entry in answers) == COUNT
    assert sum(len(entry.get("wrong", ())) for entry in answers) == COUNT
    assert len(set(texts)) == len(texts), "an answer stands twice"
    assert all(wrong["why"] for entry in answers for wrong in entry.get("wrong", ()))
    tasks = {task.id: task for task in load_domain(domain).tasks()}
    unknown = [entry["task"] for entry in answers if entry["task"] not in tasks]
    assert not unknown, f"{domain} has no such tasks: {', '.join(unknown)}"
    assert len({tasks[entry["task"]].intent for entry in answers}) >= INTENTS


@pytest.mark.parametrize("domain", DOMAINS)
def test_nearly_all_answers_of_a_domain_are_judged_as_labelled(domain: str) -> None:
    verdicts = list(judge_domain(domain))
    assert share(verdicts) >= LEAST_PER_DOMAIN, explain(verdicts)


def test_nearly_all_handwritten_answers_are_judged_as_labelled() -> None:
    verdicts = [verdict for domain in DOMAINS for verdict in judge_domain(domain)]
    assert verdicts, "tests/data/answers holds no answers"
    assert share(verdicts) >= LEAST, explain(verdicts)
