"""Multi-hop questions about the synthetic encyclopaedia, and the source `MultiHopQA` that asks them.

A question is a small program over the encyclopaedia's relations: a chain of look-ups (*bridge*), a *comparison* of
two ends of chains, an *intersection* of conditions, or a *count*. From the program follow its wording, its answer,
its parts (the look-ups and conclusions, one by one) and the passages that support it. `answer` runs a program on any
set of facts: on those of the supporting passages alone and on the whole encyclopaedia it must find the one same
answer, or the question is not asked.

No question spells out its decomposition: where there are several look-ups, some of their values are not mentioned.

The difficulty is the number of parts, at most 5. Kinds of question (its relations in their order) are divided
between ``test_intents`` and the rest. ``train`` asks about one world, the other splits about a second one, whose
entities, articles and wordings of questions are others.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from toolorchestra.envs.encyclopaedia.encyclopaedia import Encyclopaedia
from toolorchestra.envs.encyclopaedia.words import SECOND
from toolorchestra.envs.ground_truth.parts import parts_of, stages_of
from toolorchestra.envs.sources.multihop.drafts import KINDS, AnsweredDraft, QuestionDraft, answer
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, check_sizes, make_question
from toolorchestra.envs.tools.search.search import BM25Index, Index, LocalSearch, Passage
from toolorchestra.toolscale.tasks.task import Call, Task
from toolorchestra.toolscale.tools.tool import Tool

NAME = "multi_hop_qa"
SECOND_NAME = "multi_hop_qa_second"
"""The name of the second world."""
RULES = """\
Questions about an encyclopaedia of a fictional world: nothing of it is known from elsewhere, so look it up. \
Names may be shared; what is in brackets in a title tells them apart. Each question has one answer: a name, a year, \
a number or a word. Give your final answer as \\boxed{…}, without explanation inside."""

_MAX_PARTS = 6
_ATTEMPTS = 60  # drafts for each question wanted


def faults(task: Task, book: Encyclopaedia) -> list[str]:
    """Return what is wrong with a question: nothing, if its support is enough and its answer the only one."""
    value = task.bindings["value"]
    found = []
    support = [passage_id for part in parts_of(task) for passage_id in part.support]
    for where, facts in (("its supporting passages", book.facts_in(support)), ("the encyclopaedia", book.facts)):
        values = answer(task.bindings["program"], facts)
        if values != [value]:
            found.append(f"{task.id}: {where} give {values or 'no answer'}")
    if not set(task.communicate[0]) <= set(book.aliases(value)):
        found.append(f"{task.id}: accepts {task.communicate[0]}")
    return found


def make_questions(book: Encyclopaedia, sizes: dict[str, int], seed: int = 0, world: str = NAME) -> list[Task]:
    """Return questions about an encyclopaedia, in the world of a name, as many of each difficulty as of any other.

    `sizes` says how many of each split are wanted; there are fewer if the encyclopaedia has no more.
    """
    rng = random.Random(f"questions:{seed}")
    wanted = {(split, level): -(-count // 5) for split, count in sizes.items() for level in range(1, 6)}
    tasks: list[Task] = []
    seen: set[tuple[str, tuple[str, ...], str]] = set()
    numbers: Counter[str] = Counter()
    for _ in range(_ATTEMPTS * sum(wanted.values())):
        if not any(wanted.values()):
            break
        draft = QuestionDraft(book, rng)
        found = rng.choice(KINDS)(draft)
        if found is None or len(draft.parts) > _MAX_PARTS or draft.spelled_out:
            continue
        instance = (found.kind, tuple(draft.anchors), str(found.program[-1]))
        split = _split(found.kind, sizes)
        level = min(5, len(draft.parts))
        if instance in seen or not wanted.get((split, level)):
            continue
        task = _task(found, draft, world, split, level, numbers[found.kind])
        if faults(task, book):
            continue
        seen.add(instance)
        numbers[found.kind] += 1
        wanted[split, level] -= 1
        tasks.append(task)
    return tasks


def _split(kind: str, sizes: Mapping[str, int]) -> str:
    if zlib.crc32(kind.encode()) % 6 == 0:
        return "test_intents"
    return "train" if "train" in sizes else "test"


def _task(found: AnsweredDraft, draft: QuestionDraft, world: str, split: str, level: int, number: int) -> Task:
    book = draft.book
    stages = stages_of(draft.parts)
    reference_calls = [
        Call("local_search", {"query_list": queries}, stage)
        for stage in sorted(set(stages))
        if (queries := [p.question for p, at in zip(draft.parts, stages, strict=True) if at == stage and p.support])
    ]
    return make_question(
        id=f"{world}/{found.kind}/{number:04d}",
        domain=world,
        intent=found.kind,
        split=split,
        difficulty=level,
        question=found.question,
        answers=book.aliases(found.value),
        parts=draft.parts,
        reference_calls=reference_calls,
        subject="search",
        program=found.program,
        value=found.value,
    )


class MultiHopQASource(QuestionSource):
    """Multi-hop questions about synthetic encyclopaedias, with search in them as the tool.

    Args:
        seed: All follows from it and the sizes.
        people: Size of the encyclopaedias, `book` of ``train`` and `second_book` of the other splits; about four
            passages for each person.
        train: Number of training questions.
        test: Number of test questions of the same kinds.
        test_intents: Number of test questions of other kinds.
        index: Makes the index of the passages; BM25 by default.
        tools: Further tools.
    """

    def __init__(
        self,
        seed: int = 0,
        people: int = 240,
        train: int = 1500,
        test: int = 300,
        test_intents: int = 150,
        index: Callable[[Sequence[Passage]], Index] = BM25Index,
        tools: Sequence[Tool] = (),
    ) -> None:
        check_sizes("questions", {"train": train, "test": test, "test_intents": test_intents})
        self.book, self.second_book = Encyclopaedia(seed, people), Encyclopaedia(seed, people, SECOND)
        about = "Search the encyclopaedia. All queries of a call run at once."
        worlds = {
            name: QuestionWorld(name, RULES, (LocalSearch(index(book.passages), description=about), *tools))
            for name, book in ((NAME, self.book), (SECOND_NAME, self.second_book))
        }
        questions = make_questions(self.book, {"train": train}, seed)
        held_out = {"test": test, "test_intents": test_intents}
        questions += make_questions(self.second_book, held_out, seed, SECOND_NAME)
        super().__init__("MultiHopQA", worlds[NAME], questions)
        self._worlds = worlds

    def book_of(self, task: Task) -> Encyclopaedia:
        """Return the encyclopaedia that a question is about."""
        return self.book if task.domain == NAME else self.second_book

    def world(self, task: Task) -> QuestionWorld:
        """Return the world of a question."""
        return self._worlds[task.domain]
