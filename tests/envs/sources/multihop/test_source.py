"""Questions need what they name, have one answer, and come in the sizes and kinds asked for."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import msgspec
import pytest

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia
from toolorchestra.envs.ground_truth.parts import parts_of
from toolorchestra.envs.sources.multihop.source import MultiHopQASource, faults
from toolorchestra.envs.tools.search.search import LocalSearch
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import NO_CONTEXT


def test_every_question_is_answered_by_its_support_and_has_one_answer(book: Encyclopaedia, asked: list[Task]):
    assert [fault for task in asked for fault in faults(task, book)] == []


def test_a_fault_is_found(book: Encyclopaedia, asked: list[Task]):
    task = next(task for task in asked if task.intent.startswith("bridge") and task.difficulty == 3)
    parts = [msgspec.to_builtins(part) for part in parts_of(task)]
    parts[1]["support"] = []
    broken = msgspec.structs.replace(task, bindings={**task.bindings, "parts": parts})
    assert any("its supporting passages give no answer" in fault for fault in faults(broken, book))
    wrong = msgspec.structs.replace(task, communicate=(("somebody else",),))
    assert any("accepts" in fault for fault in faults(wrong, book))


def test_kinds_and_hops_are_all_there(tasks: list[Task]):
    kinds: dict[str, Counter[int]] = defaultdict(Counter)
    for task in tasks:
        kinds[task.intent.split("-")[0]][task.difficulty] += 1
    assert set(kinds) == {"bridge", "comparison", "intersection", "count"}
    assert all(kinds["bridge"][hops] >= 15 for hops in range(1, 6)), kinds
    assert all(sum(found.values()) >= 15 for found in kinds.values()), kinds
    levels = Counter(task.difficulty for task in tasks if task.split == "train")
    assert set(levels.values()) == {100}
    for task in tasks:
        assert task.difficulty == min(5, len(parts_of(task)))


def test_splits_share_no_instance(tasks: list[Task]):
    kinds = {
        split: {task.intent for task in tasks if task.split == split} for split in ("train", "test", "test_intents")
    }
    assert not kinds["test_intents"] & (kinds["train"] | kinds["test"])
    programs = Counter((task.domain, repr(task.bindings["program"])) for task in tasks)
    assert max(programs.values()) == 1
    assert len({task.instruction for task in tasks}) == len(tasks)


def test_the_golden_searches_find_the_support(source: MultiHopQASource, tasks: list[Task]):
    wanted = missed = 0
    for task in tasks:
        search = source.world(task).tools["local_search"]
        assert isinstance(search, LocalSearch)
        found = set()
        for call in task.reference_calls:
            result = search.run(search.decode(msgspec.json.encode(call.arguments)), NO_CONTEXT)
            found |= {hit["id"] for query in result.value for hit in query["passages"]}
        support = {passage for part in parts_of(task) for passage in part.support}
        wanted += len(support)
        missed += len(support - found)
    assert missed < 0.01 * wanted


def test_sizes_must_make_sense():
    with pytest.raises(
        OptionError,
        match=r"Expected numbers of questions of at least 0, got \{.train.: -1, .test.: 300, .test_intents.: 150\}",
    ):
        MultiHopQASource(people=40, train=-1)
    small = MultiHopQASource(people=40, train=50, test=10, test_intents=5)
    assert [len(small.tasks(split)) for split in ("train", "test", "test_intents")] == [50, 10, 5]


REFERS = {
    "city": r"city|birthplace|capital|starting point|point of departure|seat of government|seat of",
    "country": r"country|state",
    "person": r"author|painter|composer|narrator|dramatist|essayist|muralist|musician|person|parent|teacher|spouse"
    r"|founder|winner|leader|grandparent|parent-in-law|mother|wife|partner|mentor|master|initiator|laureate|commander",
    "institution": r"publisher|theatre|museum|institutions?|school|body|houses?|stage|collection|alma mater|donor",
    "work": r"work|works|pieces|model|what",
    "value": r"profession|occupation|year of birth|year of death|birth year|death year|founding year|foundation year",
}
REFERENCE = re.compile(rf"\bthe (?:[\w-]+ )?(?:{'|'.join(REFERS.values())})\b")
CLAUSE = re.compile(r"(?<!city )(?<!country )\bwhere\b")
CONDITION = re.compile(r"\b(?:studied in|born|taught|child|married|went to|came from|trained|father|household)\b")
"""What refers to something that is not named: noun phrases, and clauses such as "spoken where she was born"."""


def spells_out(task: Task, book: Encyclopaedia) -> bool:
    """Return whether the decomposition of a question of several look-ups can be read off its wording.

    That is so if it goes step by step, or if it refers to the value of every look-up: then each can be asked for in
    the question's own words. The value that is asked for counts as one that is referred to, and so does each condition
    of an intersection.
    """
    look_ups = [part for part in parts_of(task) if part.support]
    text = task.instruction
    for entity in sorted(book.entities.values(), key=lambda entity: -len(entity.mention)):
        text = text.replace(entity.mention, "X")
    if re.search(r"[.?;] [A-Z]|\bthen\b|\bthis (?:city|person|work|institution|country)\b", text):
        return True
    references = len(REFERENCE.findall(text)) + len(CLAUSE.findall(text))
    if task.intent.startswith("intersection"):
        references += len(CONDITION.findall(text))
    else:
        references += not REFERENCE.match(re.sub(r"^(?:What|Which) is |^Name |^Say (?:which|what|who) is ", "", text))
    return references >= len(look_ups) > 1


def test_at_most_one_question_in_twenty_spells_out_its_decomposition(source: MultiHopQASource, tasks: list[Task]):
    several = [task for task in tasks if sum(bool(part.support) for part in parts_of(task)) > 1]
    spelled = [task.instruction for task in several if spells_out(task, source.book_of(task))]
    assert len(several) > 0.5 * len(tasks)
    assert len(spelled) <= 0.05 * len(several), spelled


@pytest.mark.parametrize(
    "question",
    [
        "In which city was the author of {work} born?",
        "Name the birthplace of the author of {work}.",
        "Begin with {work}. Find the author of that work. In which city was this person born?",
    ],
)
def test_the_rule_finds_questions_that_spell_out_their_decomposition(
    source: MultiHopQASource, tasks: list[Task], question: str
):
    task = next(task for task in tasks if task.domain == "multi_hop_qa" and "creator-born_in" in task.intent)
    work = source.book.mention(source.book.keys("work")[0])
    parts = [part for part in task.bindings["parts"] if part["support"]][:2]
    spelled = msgspec.structs.replace(
        task, instruction=question.format(work=work), bindings={**task.bindings, "parts": parts}
    )
    assert spells_out(spelled, source.book)


def test_the_second_world_shares_no_name_and_no_wording_with_the_first(source: MultiHopQASource, tasks: list[Task]):
    first, second = source.book, source.second_book
    assert {task.split for task in tasks if source.book_of(task) is second} == {"test", "test_intents"}
    for part in ("name", "mention"):
        assert not {getattr(one, part) for one in first.entities.values()} & {
            getattr(one, part) for one in second.entities.values()
        }
    assert not {passage.text for passage in first.passages} & {passage.text for passage in second.passages}
    wordings = [
        {ask for relation in book.words.questions.relations.values() for ask in (*relation.asks, *relation.phrases)}
        for book in (first, second)
    ]
    assert wordings[0] & wordings[1] == {"{home} {x}"}  # what fills {home} differs
    sentences = [
        {text for parts in book.words.book.sentences.values() for texts in parts for text in texts}
        for book in (first, second)
    ]
    assert not sentences[0] & sentences[1]


def test_each_world_is_searched_apart(source: MultiHopQASource):
    train, test = (source.tasks(split)[0] for split in ("train", "test"))
    assert source.world(train).name != source.world(test).name
    for task, book in ((train, source.book), (test, source.second_book)):
        search = source.world(task).tools["local_search"]
        assert isinstance(search, LocalSearch)
        hits = search.run({"query_list": [book.passages[5].title], "k": 3}, NO_CONTEXT).value[0]["passages"]
        assert hits[0]["title"] == book.passages[5].title
