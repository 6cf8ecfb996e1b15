"""Tasks of a domain that nobody has read: what makes no sense, or is rewarded without it, is dropped."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.filters import apply_filters
from toolorchestra.toolscale.requests.sense_checks import reading_checks
from toolorchestra.toolscale.tasks.task import Task


def dropped(domain: Domain, tasks: list[Task], guesser: Callable[..., bool] = lambda *_: False) -> dict[str, int]:
    """Return how many tasks each filter dropped, of those that dropped some."""
    _, report = apply_filters(domain, tasks, guessers={"guesser": guesser}, k=2)
    return {one.name: one.dropped for one in report.stages[-1].filters if one.dropped}


@pytest.mark.parametrize(
    ("fact", "words", "states"),
    [
        ("Ada", "about ADA, please", True),
        ("Ada", "about Adam, please", False),
        ("2025-03-03", "on March 3, 2025", True),
        ("3", "on 2025-03-03", False),
        ("1,200", "of 1200 euros", True),
    ],
)
def test_a_request_that_states_its_answer_is_dropped(mini: Domain, fact: str, words: str, states: bool) -> None:
    task = msgspec.structs.replace(mini.tasks()[0], instruction=f"I am asking {words}.", communicate=((fact,),))
    assert bool(next(reading_checks(mini)["request states the answer"]([task]))) is states


def test_the_answer_to_most_of_an_intents_requests_is_dropped_and_then_that_to_most_of_the_rest(mini: Domain) -> None:
    def of(answers: str) -> str:
        first = msgspec.structs.replace(mini.tasks()[0], intent="no_intent_of_the_domain")
        tasks = [msgspec.structs.replace(first, communicate=((one,),)) for one in answers]
        reasons = reading_checks(mini)["the usual answer"](tasks)
        return "".join(one for one, reason in zip(answers, reasons, strict=True) if not reason)

    assert of("aab") == ""  # what is left is one answer again
    assert of("aabb") == "aabb"
    assert of("aaaaaabbcd") == "bbcd"


def test_what_a_guesser_solves_is_dropped_and_an_intent_of_which_too_little_is_left(mini: Domain) -> None:
    tasks = mini.tasks()
    kind = max({task.intent for task in tasks}, key=lambda name: sum(task.intent == name for task in tasks))
    some = [task for task in tasks if task.intent == kind]
    assert len(some) > 3
    before = dropped(mini, tasks)
    solved = {task.id for task in some[2:]}
    after = dropped(mini, tasks, lambda domain, task, seed: task.id in solved and seed == 1)
    assert after["solved by a guesser"] - before.get("solved by a guesser", 0) == len(solved)
    assert after["few left of the intent"] - before.get("few left of the intent", 0) == 2
