"""A fault of each kind is planted, and found with who committed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolorchestra.agents.policies.base import write_calls
from toolorchestra.envs.dialogue import DialogueEnv, raw_env
from toolorchestra.envs.dialogue.fault_attribution import AttributedFault
from toolorchestra.envs.dialogue.scenario import STOP
from toolorchestra.envs.dialogue.teacher import DONE, teach
from toolorchestra.toolscale.tasks.session import Session
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import ToolResult

TASK = "restaurant/pay_with_coupon/005"
Plant = Callable[[DialogueEnv, str], str]
"""Given what the agent to move would rightly say, what it says."""


def faults(plant: Plant, agent: str, **options: Any) -> list[tuple[str, str]]:
    """Return the faults of an episode in which one agent errs, and the other does all it can."""
    env = raw_env("Restaurant", **{"answer": "text", **options})
    env.reset(seed=0, options={"task_id": TASK})
    while not env.play.over:
        text = teach(env.play)
        env.step(plant(env, text) if env.agent_selection == agent else text)
    found: tuple[AttributedFault, ...] = env.play.faults
    assert env.episode.why.startswith(f"{found[0].agent}: ")
    assert found[0].message in env.episode.why
    assert env.infos["orchestrator"]["faults"] == found
    return kinds_of(env)


def typed(plant: Plant, agent: str, **options: Any) -> list[tuple[str, str]]:
    return faults(plant, agent, answer="typed", **options)


def kinds_of(env: DialogueEnv) -> list[tuple[str, str]]:
    return [(fault.agent, fault.kind) for fault in env.play.faults]


@pytest.mark.parametrize("answer", ["text", "typed"])
def test_a_solved_dialogue_has_no_faults(answer: str) -> None:
    with pytest.raises(IndexError):
        faults(lambda _, text: text, "user", answer=answer)


# --- the user


def test_a_user_that_states_an_unknown_value() -> None:
    env = raw_env("Restaurant", answer="text")
    env.reset(seed=0, options={"task_id": TASK})
    for text in ("A coupon please.", "Which date?", "It is 2025-08-07.", "Nothing is there. Everything is done.", STOP):
        env.step(text)
    assert kinds_of(env)[0] == ("user", "contrary")
    assert "'2025-08-07'" in env.episode.why


def test_a_user_that_repeats_an_observation_invents_nothing() -> None:
    env = raw_env("Restaurant", answer="text")
    env.reset(seed=0, options={"task_id": TASK})
    for text in ("A coupon please.", "Is it 2025-08-07?", "2025-08-07? No.", DONE, STOP):
        env.step(text)
    assert {fault.agent for fault in env.play.faults} == {"orchestrator"}


def test_a_user_that_keeps_back_what_it_is_asked_for() -> None:
    env = raw_env("Restaurant", answer="text")
    env.reset(seed=0, options={"task_id": TASK})
    for text in ("A coupon please.", "Which coupon?", "I will not say.", f"I cannot do it then. {DONE}", STOP):
        env.step(text)
    assert kinds_of(env)[0] == ("user", "withheld")


def test_a_user_that_stops_early() -> None:
    def stop(env: DialogueEnv, text: str) -> str:
        return STOP if len(env.episode.turns) > 1 else text

    assert faults(stop, "user")[0] == ("user", "early")
    assert faults(lambda *_: STOP, "user")[0] == ("user", "early")


def test_a_user_that_does_not_stop() -> None:
    found = faults(lambda _, text: text.replace(STOP, "And how are you?"), "user", max_cycles=20)
    assert found == [("user", "endless")]


def test_a_user_that_does_not_do_what_it_is_asked() -> None:
    def refuse(env: DialogueEnv, text: str) -> str:
        return "I had rather not." if "<tool_call>" in text else text

    found = faults(refuse, "user", user_tools=["pay_bill"], max_cycles=30)
    assert found[0] == ("user", "refused")


def test_a_user_that_makes_calls_of_its_own_invention() -> None:
    def cancel(env: DialogueEnv, text: str) -> str:
        return write_calls([Call("cancel_order", {"order": "O1222"})]) if len(env.episode.turns) == 2 else text

    found = faults(cancel, "user", user_tools=["cancel_order"], max_cycles=30)
    assert found[0] == ("user", "call")
    broken = faults(lambda env, text: STOP if env.episode.turns else "<tool_call>", "user")
    assert ("user", "call") in broken


# --- the orchestrator


def test_an_orchestrator_that_leaves_out_a_call() -> None:
    found = faults(lambda _, text: "" if "pay_bill" in text else text, "orchestrator", max_cycles=20)
    assert found[0] == ("orchestrator", "execution")
    assert not [agent for agent, _ in found if agent == "user"]


def test_an_orchestrator_that_does_something_wrong() -> None:
    def wrong(env: DialogueEnv, text: str) -> str:
        return text.replace("DILL", "BASIL") if "apply_coupon" in text else text

    assert faults(wrong, "orchestrator")[0] == ("orchestrator", "execution")


def test_an_orchestrator_that_withholds_what_the_user_wants_to_know() -> None:
    assert faults(lambda env, text: text.replace("44.1", "41.4"), "orchestrator")[0][0] == "orchestrator"
    found = faults(lambda env, text: DONE if DONE in text else text, "orchestrator")
    assert found == [("orchestrator", "fidelity")]


def test_an_orchestrator_that_writes_no_proper_calls() -> None:
    found = faults(lambda env, text: DONE if len(env.episode.turns) > 3 else "<tool_call>{", "orchestrator")
    assert found[0] == ("orchestrator", "execution")
    assert ("orchestrator", "malformed") in found


def test_an_orchestrator_whose_user_gives_up() -> None:
    found = faults(lambda *_: "Just a moment.", "orchestrator")
    assert found[0][0] == "orchestrator"
    assert ("orchestrator", "gave up") in found
    assert not [agent for agent, _ in found if agent == "user"]


def test_an_orchestrator_that_never_says_that_it_is_done() -> None:
    look = write_calls([Call("get_coupon", {"coupon": "DILL"})])

    def silent(env: DialogueEnv, text: str) -> str:
        return look if "44.1" in env.play.texts_to_user else text.replace(DONE, "")

    assert faults(silent, "orchestrator", max_cycles=20) == [("orchestrator", "unfinished")]


# --- typed answers


def test_a_user_that_leaves_early_is_at_fault_for_a_typed_answer_too() -> None:
    def stop(env: DialogueEnv, text: str) -> str:
        return STOP if len(env.episode.turns) > 1 else text

    assert typed(stop, "user")[0] == ("user", "early")


def test_a_user_that_has_not_left_does_not_make_an_answer_wrong() -> None:
    found = typed(lambda env, text: text.replace("44.1", "41.4") if "submit" in text else text, "orchestrator")
    assert found == [("orchestrator", "fidelity")]


def test_an_orchestrator_that_never_submits_is_at_fault_for_that() -> None:
    found = typed(lambda env, text: DONE if "submit" in text else text, "orchestrator")
    assert found == [("orchestrator", "fidelity")]
    found = typed(lambda env, text: "Just a moment." if "submit" in text else text, "orchestrator", max_cycles=20)
    assert ("orchestrator", "fidelity") in found
    assert not [agent for agent, _ in found if agent == "user"]


# --- tools


def test_a_tool_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Session, tool: Any, arguments: Any) -> ToolResult:
        raise OSError("the disk is gone")

    monkeypatch.setattr(Session, "call", broken)
    env = raw_env("Restaurant", answer="text")
    env.reset(seed=0, options={"task_id": TASK})
    while not env.play.over:
        env.step(teach(env.play))
    assert env.play.faults == (AttributedFault("tool", "error", "OSError: the disk is gone"),)
    assert (env.episode.outcome, env.episode.reward, env.episode.rewards) == ("infra_error", None, {})
    assert env.truncations == {"user": True, "orchestrator": True}


def test_a_tool_that_does_not_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "call", lambda *_: ToolResult.timed_out("took too long"))
    assert faults(lambda _, text: text, "user")[0] == ("tool", "timeout")


def test_a_verifier_that_breaks_is_neither_agents_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("the judge is gone")

    monkeypatch.setattr("toolorchestra.toolscale.tasks.verify.Verifier.verify", broken)
    for stop in (STOP, "Hello."):  # judged at the end of the talk, or when it is cut off
        env = raw_env("Restaurant", max_cycles=1)
        env.reset(seed=0, options={"task_id": TASK})
        env.step(stop)
        assert (env.episode.outcome, env.episode.reward) == ("judge_error", None)
        assert env.play.faults[0].agent == "tool"
