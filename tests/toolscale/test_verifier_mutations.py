from __future__ import annotations

import contextlib
import random
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale import verify as verification
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.guess import Guesser
from toolorchestra.toolscale.other_lookups import with_other_lookups
from toolorchestra.toolscale.tool import Status
from toolorchestra.toolscale.verifier_mutations import OTHER_LOOKUP, WORDINGS, mutants, try_verifier, variants


def test_a_sound_verifier_fails_every_mutant_and_passes_every_variant(mini: Domain) -> None:
    report = try_verifier(mini, mini.tasks())
    assert set(report.mutants) == {"drop a write", "alter an argument", "omit information", "add a stray write"}
    assert set(report.variants) == {"reorder independent calls", "add reads", "reword the answer", OTHER_LOOKUP}
    assert [surprise for surprise in report.surprises if not surprise.equivalent] == []
    assert report.kill_rate >= 0.995
    assert report.acceptance_rate >= 0.995


@pytest.mark.parametrize(
    ("criterion", "found", "kinds"),
    [
        ("Verifier._execution", (), {"alter an argument", "add a stray write"}),
        ("judge_mentions", [], {"omit information"}),
    ],
)
def test_a_verifier_that_overlooks_a_criterion_is_found_out(
    quick: Domain, monkeypatch: pytest.MonkeyPatch, criterion: str, found: Any, kinds: set[str]
) -> None:
    monkeypatch.setattr(f"{verification.__name__}.{criterion}", lambda *_: found)
    report = try_verifier(quick, quick.tasks())
    assert report.kill_rate < 0.995  # what `validate` asks for
    assert kinds <= {surprise.kind for surprise in report.surprises}


def test_a_verifier_that_is_too_strict_is_found_out(quick: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "judge_mentions", lambda text, _: [] if text.startswith("It was $") else ["no"])
    report = try_verifier(quick, quick.tasks())
    assert report.acceptance_rate < 0.9


def test_a_verifier_that_asks_for_a_look_up_by_identity_is_found_out(
    quick: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "not_shown", lambda entries, _: set(entries))
    report = try_verifier(quick, quick.tasks())
    assert report.accepted[OTHER_LOOKUP] < report.variants[OTHER_LOOKUP] / 2
    surprise = next(surprise for surprise in report.surprises if surprise.kind == OTHER_LOOKUP)
    assert surprise.detail.startswith("get_order #0: list_orders({")
    assert "was not looked up, and no result shows it" in surprise.reason


def test_every_mutant_differs_from_the_reference_episode_and_is_reproducible(quick: Domain) -> None:
    session = quick.session()
    for task in quick.tasks():
        trials = list(mutants(quick, task, session))
        assert all((trial.calls, trial.answer) != (task.reference_calls, task.answer) for trial in trials)
        assert trials == list(mutants(quick, task, session))
        others = list(variants(quick, task, session))
        assert all((trial.calls, trial.answer) != (task.reference_calls, task.answer) for trial in others)
    session.close()


@pytest.mark.parametrize(
    ("name", "written", "reworded"),
    [
        ("ISO dates in words", "on 2025-07-30", "on 30 July 2025"),
        ("dates in words as ISO dates", "on July 4, 2025", "on 2025-07-04"),
        ("times on a twelve-hour clock", "at 19:05", "at 7:05 pm"),
        ("amounts with two decimals and thousands separators", "costs 1234.5", "costs 1,234.50"),
    ],
)
def test_wordings_change_the_spelling_only(name: str, written: str, reworded: str) -> None:
    assert WORDINGS[name](written) == reworded


def test_guessed_arguments_are_valid_and_mostly_meaningful(quick: Domain) -> None:
    guesser = Guesser(quick.database, random.Random(0))
    session = quick.session()
    statuses: list[Any] = []
    for tool in quick.tools.values():
        for _ in range(20):
            arguments = tool.decode(msgspec.json.encode(guesser.arguments(tool)))  # raises on invalid ones
            statuses.append(session.call(tool, arguments).status)
    session.close()
    assert statuses.count(Status.OK) > len(statuses) / 2


def test_a_look_up_is_replaced_by_each_search_once() -> None:
    sport = load_domain("sport")  # whose searches have several required arguments
    count = 0
    with contextlib.closing(sport.session()) as session:
        for task in sport.tasks()[::20]:
            tried = [*with_other_lookups(sport, task, session)]
            found = [[(call.name, sorted(call.arguments.items())) for call in calls] for _, calls in tried]
            count += len(found)
            assert all(one not in found[:place] for place, one in enumerate(found)), task.id
    assert count > 50
