from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks import verify as verification
from toolorchestra.toolscale.tools.guess import Guesser
from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.other_lookups import with_other_lookups
from toolorchestra.toolscale.validation.slot_attacks import slots_of
from toolorchestra.toolscale.validation.verifier_mutations import OTHER_LOOKUP, mutants, try_verifier, variants


def test_a_sound_verifier_fails_every_mutant_and_passes_every_variant(mini: Domain) -> None:
    report = try_verifier(mini, mini.tasks())
    assert set(report.mutants) == {"drop a write", "alter an argument", "change a slot", "add a stray write"}
    right = {"reorder independent calls", "add reads", "spell the answer otherwise", OTHER_LOOKUP}
    assert set(report.variants) == right
    assert [surprise for surprise in report.surprises if not surprise.equivalent] == []
    assert report.kill_rate >= 0.995
    assert report.acceptance_rate >= 0.995


@pytest.mark.parametrize(
    ("criterion", "kinds"),
    [("Verifier._execution", {"alter an argument", "add a stray write"}), ("Reference.fidelity", {"change a slot"})],
)
def test_a_verifier_that_overlooks_a_criterion_is_found_out(
    quick: Domain, monkeypatch: pytest.MonkeyPatch, criterion: str, kinds: set[str]
) -> None:
    monkeypatch.setattr(f"{verification.__name__}.{criterion}", lambda *_: ())
    report = try_verifier(quick, quick.tasks())
    assert report.kill_rate < 0.995  # what `validate` asks for
    assert kinds <= {surprise.kind for surprise in report.surprises}


def test_a_verifier_that_is_too_strict_is_found_out(quick: Domain, judge_by: Callable[..., None]) -> None:
    judge_by(lambda text, typed: [] if text == typed.written() else ["no"])
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
    session, slots = quick.session(), slots_of(quick, ())
    for task in quick.tasks():
        typed = slots.of(task)
        whole = task.reference_calls, typed.written()
        episodes = list(mutants(quick, task, typed, session))
        assert all((episode.calls, episode.answer) != whole for episode in episodes)
        assert episodes == list(mutants(quick, task, typed, session))
        others = list(variants(quick, task, typed, session))
        assert all((episode.calls, episode.answer) != whole for episode in others)
    session.close()


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
