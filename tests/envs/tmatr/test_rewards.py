from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from toolorchestra.envs.records.episode import CallRecord, Episode, Outcome, Turn
from toolorchestra.envs.tmatr import raw_env
from toolorchestra.envs.tmatr.rewards import RewardRule, brevity, repetition, reward_parts, tool_success
from toolorchestra.toolscale.tools.tool import Status

OK, ERR = Status.OK, Status.EXEC_ERR


def calls(*statuses: Status) -> list[CallRecord]:
    return [CallRecord("1", "python", {}, status) for status in statuses]


def episode(outcome: Outcome, *messages: str, called: tuple[Status, ...] = ()) -> Episode:
    moves = [Turn({"role": "assistant", "content": text}, agent="planner") for text in messages]
    moves.append(Turn({"role": "assistant", "content": ""}, tuple(calls(*called)), agent="inferencer"))
    return Episode(
        env_id="TMATR-Math-v0",
        task_id="t",
        split="train",
        difficulty=1,
        prompt="",
        instruction="",
        tools=("python",),
        agents=("planner", "inferencer"),
        openings={"planner": (), "inferencer": ()},
        turns=moves,
        outcome=outcome,
    )


@pytest.mark.parametrize(
    ("statuses", "needed", "expected"),
    [
        ((), 2, 0.5),
        ((OK,), 2, 1.0),
        ((OK, ERR), 2, 0.5),
        ((ERR, ERR), 2, 0.0),
        ((OK, OK, OK, OK), 2, 0.5),  # two of four were needed
        ((OK, OK, OK, ERR), 1, 0.1875),  # ¾ ended well, one of four was needed
    ],
)
def test_the_tool_part_falls_with_failed_and_with_needless_calls(
    statuses: tuple[Status, ...], needed: int, expected: float
) -> None:
    assert tool_success(calls(*statuses), needed) == expected


def test_repetitions_are_counted_over_messages_without_their_tags() -> None:
    assert repetition(["<GOAL>a b c d e</GOAL>", "<THINK>a b c d f</THINK>"], 4) == 0.25  # abcd again, of four
    assert repetition(["<GOAL>a b</GOAL>", "<GOAL>c d</GOAL>"], 4) == 0.0  # too short for any
    assert repetition(["x " * 1000], 4) == pytest.approx(1 - 1 / 997)


def test_the_length_part_is_1_up_to_half_of_the_cap_and_then_falls_ever_faster() -> None:
    falls = [brevity(tokens, 1000) for tokens in range(500, 1001, 100)]
    steps = [one - other for one, other in itertools.pairwise(falls)]
    assert (falls[0], falls[-1]) == (1.0, 0.0)
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_a_solved_episode_by_hand() -> None:
    parts = reward_parts(episode("solved", "one two three four five", called=(OK, ERR)))
    # R_aux = 0.22 (2 · ½ − 1) − 0.1 · 0 + 0.1 · 1 = 0.1, of −0.32 … 0.32
    assert parts["auxiliary"] == pytest.approx(0.42 / 0.64)
    assert parts["epsilon"] == 0.1
    assert parts["reward"] == pytest.approx(0.9 + 0.1 * 0.42 / 0.64)


def test_a_failed_episode_by_hand() -> None:
    parts = reward_parts(episode("failed", "a b c d a b c d", called=(ERR,)))
    # five 4-grams, one of them twice: R_aux = −0.22 − 0.1 · 0.2 + 0.1 = −0.14
    assert parts["repetition"] == pytest.approx(0.2)
    assert parts["auxiliary"] == pytest.approx(0.18 / 0.64)
    assert parts["reward"] == pytest.approx(0.3 * 0.18 / 0.64)


def test_weights_of_nothing_leave_correctness() -> None:
    rule = RewardRule(alpha=0, beta=0, gamma=0, epsilon_min=0, epsilon_max=0)
    assert reward_parts(episode("solved", "a"), rule)["reward"] == 1.0
    assert reward_parts(episode("failed", "a"), rule)["reward"] == 0.0


weights = st.floats(0, 5)


@given(
    st.sampled_from(("solved", "failed")),
    st.lists(st.text(max_size=40), max_size=5),
    st.lists(st.sampled_from(Status), max_size=6),
    st.builds(RewardRule, weights, weights, weights, st.just(0.1), st.just(0.3), st.integers(1, 4), st.integers(1, 50)),
)
def test_every_part_lies_between_0_and_1_and_a_right_answer_is_worth_more(
    outcome: Outcome, messages: list[str], called: list[Status], rule: RewardRule
) -> None:
    parts = reward_parts(episode(outcome, *messages, called=tuple(called)), rule)
    assert all(-1e-12 <= value <= 1 + 1e-12 for value in parts.values()), parts
    assert (parts["reward"] >= 0.9 - 1e-12) is (outcome == "solved")


def test_the_environment_gives_the_reward_of_the_record_and_reports_its_parts() -> None:
    env = raw_env("Math", python="simulated", rule={"epsilon_min": 0.2})
    env.reset(seed=0)
    env.step("<ACTION>text_reasoning</ACTION><GOAL>Answer.</GOAL>")
    env.step("<REASONING_STEPS>Step 1: Answer.</REASONING_STEPS>")
    assert "reward_parts" not in env.infos["planner"]
    env.step(f"<THINK>I do.</THINK><ANSWER>{env.task.answer}</ANSWER>")
    parts = reward_parts(env.episode, RewardRule(epsilon_min=0.2))
    assert env.episode.reward_parts == env.infos["inferencer"]["reward_parts"] == parts
    assert parts["epsilon"] == 0.2
    assert env.episode.reward == env.rewards["planner"] == env.rewards["inferencer"] == parts["reward"]
    assert env.episode.outcome == "solved"


def test_an_infrastructure_error_has_no_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    env = raw_env("Math", python="simulated")
    env.reset(seed=0)

    def broken(*arguments: object) -> None:
        raise RuntimeError("the judge is away")

    monkeypatch.setattr(type(env.play.world), "verify", broken)
    env.step("<ACTION>text_reasoning</ACTION><GOAL>Answer.</GOAL>")
    env.step("<REASONING_STEPS>Step 1: Answer.</REASONING_STEPS>")
    env.step(r"<THINK>I do.</THINK><ANSWER>\boxed{1}</ANSWER>")
    assert (env.episode.outcome, env.episode.reward, env.episode.rewards) == ("judge_error", None, {})
    assert env.rewards == {"planner": 0.0, "inferencer": 0.0}
    assert env.truncations["planner"]
