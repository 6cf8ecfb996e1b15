from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.algos.options.several_agents import TrainMSARL
from toolorchestra.algos.reporting import evaluation
from toolorchestra.algos.reporting.stats import paired_bootstrap
from toolorchestra.algos.rollout.engine import Row
from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine, Slot
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.records.unjudged import EvaluationError
from toolorchestra.envs.starts import EpisodeStart, make_env, starts


@pytest.fixture(scope="module")
def env() -> MultiAgentEnv:
    return TrainMSARL().make_env()


def slot_after(env: MultiAgentEnv, text: str) -> Slot:
    """The slot of a problem whose answer is 7, after a message of the reasoner."""
    task = next(t for t in env.source.tasks("train") if t.answer == r"\boxed{7}")
    slot = MultiAgentEngine(env, {}, {}).start(EpisodeStart(0, {"task_id": task.id}))
    slot.play.act(text)
    return slot


def test_the_majority_is_of_equal_answers(env: MultiAgentEnv) -> None:
    slots = [slot_after(env, text) for text in (*(rf"\boxed{{{n}}}" for n in ("7", "7.0", "8", "8.5")), "hm")]
    assert evaluation._majority(slots) == 1.0
    assert evaluation._majority(slots[2:]) == 0.0
    assert evaluation._majority(slots[-1:]) == 0.0


def scores(**values: Any) -> evaluation.Scores:
    plain = {"by_task": [0.5], "outcomes": [1.0, 0.0], "greedy": 1.0, "pass_at": 1.0, "maj_at": 0.5}
    return evaluation.Scores(**{**plain, "reward": 0.5, "calls": 1.0, **values})


def test_where_nobody_answers_there_is_no_majority() -> None:
    assert "maj_at" not in scores(maj_at=None).means()
    assert scores().means()["maj_at"] == 0.5


def test_agents_that_are_paid_differently_have_means_of_their_own() -> None:
    assert scores(rewards={"a": 0.5, "b": -0.5}).means()["b_reward"] == -0.5
    assert "a_reward" not in scores(rewards={"a": 0.5, "b": 0.5}).means()


def test_success_is_the_outcomes_whatever_the_reward(env: MultiAgentEnv) -> None:
    right, wrong = (slot_after(env, rf"\boxed{{{n}}}") for n in (7, 8))
    right.play.episode.reward, wrong.play.episode.reward = 0.9, 0.3
    assert (right.success, wrong.success) == (1.0, 0.0)
    wrong.play.episode.outcome = "infra_error"
    assert wrong.success != wrong.success  # NaN


def test_values_that_are_unknown_are_left_out_of_a_tasks_mean() -> None:
    rows = [Row(n, "orchestrator", [1], outcome=outcome) for n, outcome in enumerate(("solved", "failed", "solved"))]
    rows.append(Row(1, "orchestrator", [1], outcome="infra_error"))
    scores = evaluation.PolicyScores(rows, 2, 0.0)
    assert scores.outcomes == [1.0, 0.0, 1.0, None]
    assert scores.by_task == [0.5, 1.0]


def test_a_task_of_which_nothing_was_judged_has_no_success() -> None:
    outcomes = ("infra_error", "judge_error", "solved", "failed")
    rows = [Row(n // 2, "orchestrator", [1], outcome=outcome) for n, outcome in enumerate(outcomes)]
    unknown, known = evaluation.PolicyScores(rows, 2, 0.0).by_task
    assert math.isnan(unknown)
    assert known == 0.5
    assert paired_bootstrap([unknown, known], [1.0, 0.25]).estimate == 0.25


class Playing:
    """Stands for an engine: its rows have the outcomes that are given."""

    def __init__(self, unjudged: int, played: int) -> None:
        self.outcomes = ["infra_error"] * unjudged + ["solved"] * (played - unjudged)

    def play(self, sampler: Any, requests: Sequence[Any], progress: Any) -> list[Row]:
        why = "ExpertError: m: expected an answer, got status 500"
        episodes = (
            Episode(env_id="e", task_id="t", split="test", difficulty=1, prompt="", instruction="", tools=(),
                    outcome=outcome, why=why)  # type: ignore[arg-type]
            for outcome in self.outcomes
        )  # fmt: skip
        return [Row(0, "orchestrator", [1], outcome=str(one.outcome), why=one.why) for one in episodes]


def test_an_evaluation_fails_with_the_reasons_if_more_than_a_hundredth_is_not_judged() -> None:
    policy: Any = SimpleNamespace(model=None, renderer=None)
    nobody: Any = SimpleNamespace(sampler=lambda *_, **__: None)
    play: Any = partial(evaluation.evaluate, policy=policy, plays=[], samples=1, generation=nobody)
    assert len(play(Playing(1, 100))) == 100
    told = r"^2 of 100 episodes were not judged, .*: 2 × infra_error: ExpertError: m: .*got status 500\. Repair"
    with pytest.raises(EvaluationError, match=told):
        play(Playing(2, 100))


def test_an_evaluation_of_several_agents_fails_likewise(env: MultiAgentEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = [EpisodeStart(0, {"task_id": task.id}) for task in env.source.tasks("train")[:4]]

    def play(self: MultiAgentEngine, samplers: Any, slots: Sequence[Slot], progress: Any) -> None:
        for slot in slots:
            slot.play._break_off("infra_error", "the sandbox is gone")

    monkeypatch.setattr(MultiAgentEngine, "play", play)
    with pytest.raises(
        EvaluationError, match=r"^4 of 4 episodes were not judged.*4 × infra_error: the sandbox is gone"
    ):
        evaluation.evaluate_agents(MultiAgentEngine(env, {}, {}), {}, starts, samples=2)


def test_an_episode_broken_off_earned_no_part_of_the_reward() -> None:
    parts = ({}, {"task": 1.0, "format": 0.5}, {"task": 1.0, "format": 1.0})
    rows = [Row(0, "orchestrator", [1], parts=part) for part in parts]
    assert evaluation.mean_parts(rows) == pytest.approx({"reward_task": 2 / 3, "reward_format": 0.5})
    assert evaluation.mean_parts(rows[:1]) == {}


def test_reference_policies_are_played_at_the_same_time_with_the_outcomes_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, last = "ToolOrchestra-Restaurant-v0", threading.Event()
    plays = [start for level in starts(make_env(name, {}), "test", (1,)).values() for start in level[:6]]
    alone = evaluation.reference(lambda: make_env(name, {}), OraclePolicy, plays)
    assert alone == [1.0] * len(plays)
    kind = type(make_env(name, {}).unwrapped)
    step, begun = kind.step, []

    def slow(env: Any, action: Any) -> Any:
        """The first episode goes on when the last has begun."""
        if not env.episode.turns:
            begun.append(None)
            if len(begun) == len(plays):
                last.set()
            elif len(begun) == 1:
                assert last.wait(20)
        return step(env, action)

    monkeypatch.setattr(kind, "may_block", True)
    monkeypatch.setattr(kind, "step", slow)
    found = evaluation.reference(lambda: make_env(name, {}), OraclePolicy, plays, in_flight=3)
    assert found == alone
    assert last.is_set()
