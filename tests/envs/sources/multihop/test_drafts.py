"""Programs find their answers, and the parts of a question lead to its one answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia, Facts
from toolorchestra.envs.encyclopaedia.world import WorldFact
from toolorchestra.envs.ground_truth.parts import find_part, parts_of, problem_of
from toolorchestra.envs.sources.multihop.drafts import Node, answer
from toolorchestra.toolscale.tasks.task import Task

FACTS = Facts(
    WorldFact(*fact)
    for fact in (
        ("ada", "profession", "painter"),
        ("ben", "profession", "painter"),
        ("cleo", "profession", "chemist"),
        ("ada", "born_in", "corrick"),
        ("ben", "born_in", "brenholm"),
        ("cleo", "born_in", "corrick"),
        ("ada", "born", "1871"),
        ("ben", "born", "1902"),
        ("cleo", "born", "1902"),
        ("corrick", "country", "aldland"),
        ("ada", "works", "tern"),
        ("ada", "works", "heron"),
        ("ada", "works", "elm"),
        ("tern", "completed", "1900"),
        ("heron", "completed", "1910"),
        ("elm", "completed", "1920"),
        ("ben", "works", "undated"),
    )
)
ADA, BEN, CLEO = (["is", name] for name in ("ada", "ben", "cleo"))


@pytest.mark.parametrize(
    ("program", "values"),
    [
        (["is", "nobody"], ["nobody"]),
        (["of", "country", ["of", "born_in", ADA]], ["aldland"]),
        (["of", "country", ["of", "born_in", BEN]], []),
        (["of", "works", ADA], ["tern", "heron", "elm"]),
        (["who", [["profession", ["is", "painter"]]]], ["ada", "ben"]),
        (["who", [["profession", ["is", "painter"]], ["born_in", ["of", "born_in", CLEO]]]], ["ada"]),
        (["who", [["profession", ["is", "chemist"]], ["born_in", ["is", "brenholm"]]]], []),
        (["first", "born", ADA, BEN], ["ada"]),
        (["last", "born", ADA, BEN], ["ben"]),
        (["last", "born", BEN, CLEO], ["ben", "cleo"]),  # a tie is no one answer
        (["first", "born", ADA, ["is", "nobody"]], []),
        (["count", "works", ADA, "completed", "before", 1910], ["1"]),
        (["count", "works", ADA, "completed", "after", 1900], ["2"]),
        (["count", "works", ADA, "completed", "after", 1920], ["0"]),
        (["count", "works", BEN, "completed", "after", 1900], []),  # a year is not known
        (["count", "works", CLEO, "completed", "after", 1900], []),
    ],
)
def test_a_program_finds_what_the_facts_say(program: Node, values: list[str]):
    assert answer(program, FACTS) == values


def test_what_is_no_program_is_refused():
    with pytest.raises(ValueError, match=r"Expected a program, found \['between', 'ada'\]"):
        answer(["between", "ada"], FACTS)


def test_every_question_has_one_answer_for_a_reader_of_the_texts_alone(
    book: Encyclopaedia, asked: list[Task], reader: Any
):
    read = {key: reader.facts(one.passage.title, one.passage.text) for key, one in book.articles.items()}
    everything = Facts(fact for facts in read.values() for fact in sorted(facts, key=lambda fact: repr(fact)))
    for task in asked:
        support = [passage for part in parts_of(task) for passage in part.support]
        facts = Facts(fact for passage in support for fact in sorted(read[passage], key=lambda fact: repr(fact)))
        for known in (facts, everything):
            (value,) = answer(task.bindings["program"], known)
            assert book.mention(value) in task.communicate[0]


def test_no_part_of_the_support_can_be_left_out(book: Encyclopaedia, asked: list[Task]):
    for task in asked:
        if not task.intent.startswith("bridge"):
            continue
        support = list(dict.fromkeys(passage for part in parts_of(task) for passage in part.support))
        for missing in support:
            facts = book.facts_in(passage for passage in support if passage != missing)
            others = [passage for passage in support if passage != missing]
            stated = {fact for passage in others for fact in book.articles[passage].facts}
            assert set(book.articles[missing].facts) - stated
            assert answer(task.bindings["program"], facts) == [], f"{task.id} has an answer without {missing}"


def test_counts_are_not_always_the_same(tasks: list[Task]):
    counts = Counter(task.communicate[0][0] for task in tasks if task.intent.startswith("count"))
    assert len(counts) >= 3
    assert max(counts.values()) < 0.7 * sum(counts.values())


def test_parts_follow_one_another(book: Encyclopaedia, asked: list[Task]):
    for task in asked:
        parts = parts_of(task)
        assert parts[-1].answer in task.communicate[0] or parts[-1].answer == book.mention(task.bindings["value"])
        for position, part in enumerate(parts):
            assert all(0 <= needed < position for needed in part.needs)
            assert part.answer not in part.wrong
            assert bool(part.support) == (part.subject is None)
        whole = problem_of(task)
        assert (whole.subject, len(whole.steps)) == ("search", len(parts))


def test_sub_questions_are_found_by_their_words(tasks: list[Task]):
    for task in tasks:
        for position, part in enumerate(parts_of(task)):
            assert task.difficulty == 1 or find_part(task, part.question) == position, part.question
