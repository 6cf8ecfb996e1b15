from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import Status
from toolorchestra.toolscale.validation.verifier_mutations import UnexpectedVerdict


def test_some_intents_are_held_out(domain: Domain) -> None:
    assert 3 <= sum(intent.held_out for intent in domain.spec.intents.values()) <= 5


def test_equal_points_are_separated_by_goal_difference_and_deductions_count(domain: Domain, session: Any) -> None:
    table = {row["team"]: row for row in session.attempt("get_standings", division="PRM").value}
    garrick, aldern, hexley = table["GAR-1"], table["ALD-1"], table["HEX-1"]

    assert (hexley["won"], hexley["drawn"], hexley["points"]) == (4, 2, 4 * 3 + 2 - 2)  # two points were taken away
    assert garrick["points"] == aldern["points"] == 1 * 3 + 3
    assert (garrick["scored"], garrick["conceded"]) == (8, 10)  # two goals down
    assert (aldern["scored"], aldern["conceded"]) == (14, 17)  # three down, though with more goals
    assert aldern["place"] == garrick["place"] + 1


def test_a_result_moves_both_teams_in_the_table(domain: Domain, session: Any) -> None:
    (fixture, home, away), *_ = domain.database.base.execute(
        "SELECT fixture_id, home, away FROM fixtures WHERE status = 'scheduled' AND date < ? ORDER BY fixture_id",
        [domain.spec.today],
    ).fetchall()
    division = session.attempt("get_fixture", fixture=fixture).value["division"]
    before = {row["team"]: row for row in session.attempt("get_standings", division=division).value}

    assert session.attempt("record_result", fixture=fixture, home_goals=1, away_goals=4).status is Status.OK
    after = {row["team"]: row for row in session.attempt("get_standings", division=division).value}

    assert after[home]["points"] == before[home]["points"]
    assert after[home]["conceded"] == before[home]["conceded"] + 4
    assert after[away]["points"] == before[away]["points"] + 3
    assert not session.broken_rules()


def test_a_repeated_offence_of_a_club_doubles_the_fine(domain: Domain, session: Any) -> None:
    # K37 is Aldern's second serious foul play (K16 was the first): twice $40, and two matches
    single = session.attempt("decide_case", case="K37", fine=40)
    decided = session.attempt("decide_case", case="K37", fine=80)

    assert "the rules" in (single.error or "")
    assert decided.value == {"matches": 2, "due": "2026-03-19", "appeal_until": "2026-03-12"}
    assert session.attempt("get_player", player="A110").value["banned"] >= 2


def test_the_fourth_yellow_card_bans_for_one_match(domain: Domain, session: Any) -> None:
    (fixture, player), *_ = domain.database.base.execute(
        """SELECT fixture_id, player_id FROM fixtures JOIN players ON team_id IN (home, away)
        WHERE status = 'played' AND (fixture_id, player_id) NOT IN (SELECT fixture_id, player_id FROM cards)
          AND player_id = 'A103' ORDER BY fixture_id DESC"""
    ).fetchall()

    card = session.attempt("record_card", fixture=fixture, player=player, colour="yellow", minute=12)

    assert card.value == {"player": "A103", "yellow": 4, "banned": 1}


def test_members_of_the_home_club_pay_half(domain: Domain, session: Any) -> None:
    member = session.attempt("sell_tickets", fixture="M114", supporter="U03", seats=3)
    guest = session.attempt("sell_tickets", fixture="M114", supporter="U08", seats=3)

    assert member.value["paid"] == 3 * 9 / 2  # Coldmere at home in the premier division
    assert guest.value["paid"] == 3 * 9


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("transfer_player", {"player": "A197", "team": "COL-1"}, "window"),
        ("register_player", {"player": "A277", "team": "COL-1"}, "age"),
        ("register_player", {"player": "A281", "team": "COL-1"}, "certificate"),
        ("register_player", {"player": "A275", "team": "LAR-1"}, "overdue"),
        ("lodge_appeal", {"case": "K17"}, "too late"),
        ("lodge_appeal", {"case": "K04"}, "appealed"),
        ("record_result", {"fixture": "M116", "home_goals": 1, "away_goals": 0}, "yet to come"),
        ("reschedule_fixture", {"fixture": "M059", "date": "2026-03-17", "kickoff": "19:00", "pitch": "P01"}, "trains"),
        ("reschedule_fixture", {"fixture": "M059", "date": "2026-03-16", "kickoff": "18:00", "pitch": "P03"}, "lights"),
        ("reschedule_fixture", {"fixture": "M059", "date": "2026-03-15", "kickoff": "12:00", "pitch": "P01"}, "three"),
        ("appoint_referee", {"fixture": "M116", "referee": "R10"}, "licence"),
        ("appoint_referee", {"fixture": "M116", "referee": "R02"}, "one of the clubs"),
        ("submit_sheet", {"fixture": "M080", "team": "BRA-1", "players": ["A129"]}, "seven to ten"),
        ("submit_sheet", {"fixture": "M080", "team": "ALD-1", "players": ["A101"]}, "does not play"),
        ("book_training", {"team": "ALD-U17", "slot": "P01-Thu-3"}, "too late for a youth team"),
        ("lend_equipment", {"club": "COL", "item": "Q06", "quantity": 4}, "are left"),
    ],
)
def test_a_tool_refuses_what_the_rules_forbid_and_changes_nothing(
    domain: Domain, session: Any, name: str, arguments: dict[str, Any], reason: str
) -> None:
    result = session.attempt(name, **arguments)

    assert result.status is Status.EXEC_ERR
    assert reason in (result.error or "")
    assert not session.touched()


@pytest.mark.parametrize(
    ("planted", "rule"),
    [
        ("UPDATE standings SET points = points + 1 WHERE team_id = 'GAR-1'", "sum of the results"),
        ("UPDATE fixtures SET home_goals = home_goals + 1 WHERE fixture_id = 'M001'", "sum of the results"),
        ("UPDATE fixtures SET pitch_id = 'P02' WHERE date = '2025-09-13'", "one match at a time"),
        ("UPDATE fixtures SET date = '2025-09-14' WHERE date = '2025-09-27'", "two full days"),
        ("UPDATE fixtures SET referee_id = 'R02' WHERE home = 'ALD-1' AND status = 'played'", "neutral"),
        ("UPDATE players SET born = '2001-01-01' WHERE team_id = 'ALD-U17'", "Youth"),
    ],
)
def test_a_planted_violation_breaks_a_rule(damage: Callable[[str], str], planted: str, rule: str) -> None:
    assert rule in damage(planted)


def test_the_verifier_tells_right_from_wrong_in_every_intent(surprises: list[UnexpectedVerdict]) -> None:
    assert not [surprise for surprise in surprises if not surprise.equivalent]
