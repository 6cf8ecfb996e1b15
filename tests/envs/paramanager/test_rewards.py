"""ParaManager's reward, with numbers worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from toolorchestra.envs.paramanager.rewards import (
    PARTS,
    Budget,
    Targets,
    cost_units,
    is_action,
    length,
    reward_parts,
    soft_budget,
    total,
    well_formed,
)
from toolorchestra.envs.records.episode import CallRecord, Turn
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tools.tool import Status

UNITS = {"standard_reasoner": 1.0, "critical_reviewer": 1.0, "ensemble_solver": 4.0, "final_answer": 1.0}
GOOD = '<reasoning>So.</reasoning><tool_call>{"name": "local_search", "arguments": {}}</tool_call>'


def words(text: str) -> int:
    return len(text.split())


def turn(*names: str, content: str = GOOD, observation: str = "", status: Status = Status.OK) -> Turn:
    calls = tuple(CallRecord(str(i), name, {}, status) for i, name in enumerate(names))
    return Turn({"role": "assistant", "content": content}, calls, {"orchestrator": observation})


@pytest.mark.parametrize(
    ("spent", "target", "paid"),
    [(0, 8, 1.0), (8, 8, 1.0), (9, 8, 0.875), (12, 8, 0.5), (16, 8, 0.0), (17, 8, 0.0), (18_432, 12_288, 0.5)],
)
def test_spending_beyond_the_target_lowers_the_reward(spent: float, target: float, paid: float) -> None:
    assert soft_budget(spent, target) == paid


CALL = '<tool_call>{"name": "python", "arguments": {"code": "1"}}</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        f"<reasoning>Why.</reasoning>\n{CALL}",
        f"  <reasoning>\nWhy.\n</reasoning>{CALL}\n{CALL}\n",
        f"<reasoning></reasoning>{CALL}",
        '<reasoning>Why.</reasoning><tool_call>{"name": "no_such_tool"}</tool_call>',
    ],
)
def test_reasoning_and_then_readable_calls_keep_to_the_template(text: str) -> None:
    assert well_formed({"content": text})


@pytest.mark.parametrize(
    "text",
    [
        "",
        CALL,
        "<reasoning>Why.</reasoning>",
        f"<reasoning>Why.{CALL}",
        f"Well. <reasoning>Why.</reasoning>{CALL}",
        f"<reasoning>Why.</reasoning> Well. {CALL}",
        f"<reasoning>Why.</reasoning>{CALL} That is all.",
        f"<reasoning>a</reasoning>b<reasoning>c</reasoning>{CALL}",
        f"{CALL}<reasoning>Why.</reasoning>",
        f"<think>Why.</think>{CALL}",
        '<reasoning>Why.</reasoning><tool_call>{"name": "python", "arguments": [1]}</tool_call>',
        '<reasoning>Why.</reasoning><tool_call>{"name": python}</tool_call>',
        '<reasoning>Why.</reasoning><tool_call>{"name": "python"}',
    ],
)
def test_everything_else_does_not(text: str) -> None:
    assert not well_formed({"content": text})


def structured(name: str = "python", arguments: str = "{}") -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def test_structured_calls_come_with_reasoning_or_nothing() -> None:
    assert well_formed({"content": "", "tool_calls": [structured()]})
    assert well_formed({"content": "<reasoning>Why.</reasoning>", "tool_calls": [structured(), structured()]})
    assert not well_formed({"content": "Why.", "tool_calls": [structured()]})
    assert not well_formed({"content": "", "tool_calls": [structured(name="")]})
    assert not well_formed({"content": "", "tool_calls": [structured(), structured(arguments="{code: 1}")]})


def test_the_length_of_a_trajectory_is_that_of_its_messages_and_observations() -> None:
    assert length(turn(content="three words here", observation="and five words more now"), words) == 8
    calls = [structured("python", '{"code": "1 + 1"}')]  # joined: the name and four words, one of which it begins
    assert (
        length(Turn({"content": "Think. ", "tool_calls": calls}, (), {"orchestrator": "two words"}), words) == 1 + 4 + 2
    )


def test_calls_cost_their_units_even_if_they_fail_but_not_if_nothing_ran() -> None:
    turns = [
        turn("standard_reasoner", "ensemble_solver", "local_search"),
        turn("critical_reviewer", status=Status.EXEC_ERR),
        turn("ensemble_solver", status=Status.PARSE_ERR),
        turn("final_answer"),
    ]
    assert cost_units(turns, UNITS) == 1 + 4 + 0 + 1 + 0 + 1


def test_the_parts_are_those_worked_by_hand() -> None:
    turns = [
        turn("standard_reasoner", "standard_reasoner", "ensemble_solver", observation="o " * 10),  # 6 units
        turn("critical_reviewer", "ensemble_solver", content="no template", observation="o " * 10),  # 5 units
        turn("final_answer"),  # 1 unit
    ]
    parts = reward_parts(
        turns, solved=True, units=UNITS, targets=Targets(parallel=2, tools=4, length=20, cost=8), count_tokens=words
    )
    # 12 units: (16 - 12) / 8. The words: GOOD has 4, twice, "no template" 2, and 20 are shown: (40 - 30) / 20.
    assert parts == {
        "task": 1.0,
        "format": 2 / 3,
        "diversity": 0.5,  # 6 calls in 3 rounds are 2 a round; 3 tools beside the last are not 4
        "efficiency": 0.5,
        "parallelism": 1.0,
        "tools": 0.0,
        "length": 0.5,
        "cost": 0.5,
    }
    assert total(parts) == pytest.approx(1 + 2 / 3 + 0.5 + 0.5)
    assert total(parts, diversity=False) == pytest.approx(1 + 2 / 3 + 0.5)


def test_all_calls_that_a_round_emits_count_as_parallel_but_refused_ones_use_no_tool() -> None:
    """n_t of Eq. 14 is that of Eq. 3, before Eq. 6 answers a malformed call by PARSE_ERR."""
    malformed = turn("python", "python", status=Status.PARSE_ERR)
    parts = reward_parts([malformed, turn("final_answer")], solved=False, units=UNITS)
    assert (parts["parallelism"], parts["tools"], parts["cost"]) == (1.0, 0.0, 1.0)  # (2 + 1) / 2 calls a round
    six = turn(*["python"] * 6)
    parts = reward_parts([six, *[turn("python")] * 8], solved=False, units=UNITS)  # (4 + 8) / 9, not (6 + 8) / 9
    assert parts["parallelism"] == float((4 + 8) / 9 >= 1.25)


def test_refused_calls_are_neither_parallel_nor_diverse_if_those_that_were_run_count() -> None:
    turns = [turn("local_search", "python", "critical_reviewer", "standard_reasoner", status=Status.PARSE_ERR)]
    parts = reward_parts(turns, solved=False, units=UNITS, counting="run")
    assert (parts["parallelism"], parts["tools"], parts["cost"]) == (0.0, 0.0, 1.0)


def test_the_paper_s_thresholds_are_the_defaults() -> None:
    assert Targets() == Targets(parallel=1.25, tools=3, length=12_288, cost=8)
    five_in_four = [turn("local_search", "python"), turn("critical_reviewer"), turn("python"), turn("final_answer")]
    parts = reward_parts(five_in_four, solved=False, units=UNITS)
    assert (parts["parallelism"], parts["tools"]) == (1.0, 1.0)  # 5 / 4 = 1.25, and three tools
    parts = reward_parts([*five_in_four[:-1], turn("python"), turn("final_answer")], solved=False, units=UNITS)
    assert (parts["parallelism"], parts["tools"]) == (0.0, 1.0)  # 6 / 5 = 1.2


def test_the_most_that_can_be_had_is_four() -> None:
    turns = [turn("local_search", "python", "standard_reasoner"), turn("final_answer")]
    parts = reward_parts(turns, solved=True, units=UNITS)
    assert [parts[name] for name in PARTS] == [1, 1, 1, 1]
    assert total(parts) == 4


@pytest.mark.parametrize("wrong", [{"length": 0}, {"cost": -1.0}, {"parallel": float("nan")}, {"tools": -1}])
def test_targets_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Targets(**wrong)


def test_a_budget_reads_as_one_line() -> None:
    assert str(Budget(11, 13.5, 24_412)) == "Budget left: 11 rounds, 13.5 cost units, 24400 tokens."


def test_more_calls_than_allowed_and_calls_after_the_last_are_no_action() -> None:
    assert is_action(turn("python", "python", "python", "python"))
    assert not is_action(turn("python", "python", "python", "python", "python"))
    assert not is_action(turn("python", "python"), max_calls_per_message=1)
    assert is_action(turn("python", "final_answer"))
    assert not is_action(turn("final_answer", "python"))
    turns = [turn("python"), turn("final_answer", "python")]
    assert reward_parts(turns, solved=True, units=UNITS, counting="run")["format"] == 0.5
    assert reward_parts(turns, solved=True, units=UNITS)["format"] == 1.0  # Fmt of Eq. 12 is about the template
