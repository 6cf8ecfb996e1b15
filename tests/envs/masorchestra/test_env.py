from __future__ import annotations

import threading
from collections.abc import Callable

import gymnasium
import numpy as np
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion, ScriptedChat
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.algos.reporting.stats import mean_interval
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.masorchestra import play as masorchestra_play
from toolorchestra.envs.masorchestra.design import Agent, Design, to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.orchestrators import (
    ORCHESTRATORS,
    OracleDesignPolicy,
    make_orchestrator,
    random_design,
)
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.play import DesignPlay
from toolorchestra.envs.masorchestra.prompts import examples, orchestrator_prompt
from toolorchestra.envs.masorchestra.subagents import sub_agents
from toolorchestra.envs.records.episode import Episode
from toolorchestra.toolscale.common.errors import ExpertError, OptionError, UnknownNameError
from toolorchestra.toolscale.tools.tool import Status


def design(*agents: Agent) -> str:
    edges = tuple((parent, agent.id) for agent in agents for parent in agent.references)
    return to_text(Design(dom="high", thinking="A test.", agents=agents, edges=edges))


SOLO = design(Agent("A", "CoTAgent"))
PAIR = design(Agent("A", "CoTAgent"), Agent("B", "CoTAgent", "Check ${A}."))


@pytest.fixture(scope="module")
def env() -> MASOrchestraEnv:
    return MASOrchestraEnv("Math")


def answering(answer: str | Callable[[ChatRequest], str]) -> ScriptedChat:
    """A real model that gives one answer, or one made of the request."""
    give = answer if callable(answer) else lambda request: str(answer)
    return ScriptedChat(lambda request: rf"<reasoning>So.</reasoning><answer>\boxed{{{give(request)}}}</answer>")


def solved(env: MASOrchestraEnv, orchestrator: str, episodes: int = 60, **options: object) -> list[float]:
    policy = make_orchestrator(orchestrator, **options)
    infos = [play_episode(env, policy, seed=seed, options={"split": "test"}) for seed in range(episodes)]
    assert all(info["rule"] is None for info in infos), infos[0]["verdict"]
    return [float(info["outcome"] == "solved") for info in infos]


def share(env: MASOrchestraEnv, orchestrator: str, episodes: int = 60, **options: object) -> float:
    return sum(solved(env, orchestrator, episodes, **options)) / episodes


# ------------------------------------------------------------------------------------------------------------ prompts


@pytest.mark.parametrize("dom", ["low", "high"])
def test_the_examples_of_a_prompt_are_valid_designs_written_as_designs_are(dom: str) -> None:
    kinds = {agent.kind for _, one in examples(dom) for agent in one.agents}  # type: ignore[arg-type]
    model = answering("1")
    offered = sub_agents(model, {}, tuple(kinds - {"SearchAgent"}))
    prompt = orchestrator_prompt(dom, offered, "ada", "Numbers are whole.")  # type: ignore[arg-type]
    for question, one in examples(dom):  # type: ignore[arg-type]
        assert parse_design(to_text(one), dom) == one  # type: ignore[arg-type]
        assert (question in prompt) == all(agent.kind != "SearchAgent" for agent in one.agents)
    assert "Numbers are whole." in prompt
    assert "ada" in prompt


def test_a_prompt_shows_signatures_but_no_implementation(env: MASOrchestraEnv) -> None:
    observation, info = env.reset(seed=0)
    assert "- DebateAgent(agent_input, debate_roles): Let roles argue" in observation
    assert "SearchAgent(" not in observation
    assert [tool["function"]["name"] for tool in info["tools"]] == list(info["tool_names"])
    assert not any(word in observation for word in ("def ", "async", "import ", "(self"))
    assert observation.endswith(env.task.instruction)
    assert "SearchAgent" in MASOrchestraEnv("MultiHopQA").reset(seed=0)[1]["tool_names"]


def test_the_prompt_of_a_low_degree_has_no_edges() -> None:
    observation, _ = MASOrchestraEnv("Math", dom="low").reset(seed=0)
    assert "<edge>" not in observation
    assert "cycle" not in observation


# ----------------------------------------------------------------------------------------------------------- episodes


def test_one_decision_is_an_episode(env: MASOrchestraEnv) -> None:
    env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(PAIR)
    assert terminated
    assert not truncated
    assert reward in (0.0, 1.0)
    assert observation.startswith("The system answers: ")
    assert [call.id for call in info["calls"]] == ["A", "B"]
    assert info["shape"].length == 2
    (turn,) = env.episode.turns
    assert info["cost"] == pytest.approx(turn.cost + sum(call.cost for call in info["calls"]))
    assert [call.start for call in info["calls"]] == [turn.seconds, info["calls"][0].end]
    assert info["clock"] == max(call.end for call in info["calls"])
    assert info["M"][list(info["tool_names"]).index("CoTAgent")] == 2
    with pytest.raises(OptionError, match="over"):
        env.step(PAIR)


def test_a_right_direct_answer_has_the_reward_1_and_a_wrong_one_0(env: MASOrchestraEnv) -> None:
    env.reset(seed=1)
    assert env.step(env.final(env.task.answer))[1] == 1.0
    env.reset(seed=1)
    assert env.step(env.final("not that"))[1] == 0.0


@pytest.mark.parametrize("action", ["", "What?", PAIR.replace("<edge>", ""), {"content": "x"}, [], 7, None])
def test_an_invalid_design_has_the_reward_0_and_is_explained(env: MASOrchestraEnv, action: object) -> None:
    env.reset(seed=1)
    observation, reward, terminated, _, info = env.step(action)  # type: ignore[arg-type]
    assert (reward, terminated, info["outcome"], info["shape"]) == (0.0, True, "failed", None)
    assert observation.startswith(f"Rule `{info['rule']}`: ")
    assert info["verdict"] == observation
    assert info["calls"] == ()


def test_an_assistant_message_is_taken_too(env: MASOrchestraEnv) -> None:
    env.reset(seed=1)
    assert env.step({"role": "assistant", "content": SOLO})[4]["rule"] is None


def test_the_same_seed_and_design_give_the_same_bytes_and_another_seed_other_noise(env: MASOrchestraEnv) -> None:
    records = []
    for seed in (5, 5, 6):
        env.reset(seed=seed, options={"task_id": env.source.tasks("test")[7].id})
        env.step(PAIR)
        records.append(env.episode.to_json())
    assert records[0] == records[1]
    assert records[0] != records[2]


def test_an_episode_goes_on_from_a_snapshot(env: MASOrchestraEnv) -> None:
    env.reset(seed=3)
    snapshot = env.snapshot()
    first = env.step(PAIR)
    env.restore(snapshot)
    assert env.step(PAIR)[:2] == first[:2]
    play = env.play
    assert isinstance(play, DesignPlay)
    assert play.run is not None
    assert first[0] == f"The system answers: {play.run.answer}"


def test_environments_are_registered_for_sources_of_questions() -> None:
    low = gymnasium.make("MASOrchestra-Low-MultiHopQA-v0").unwrapped
    assert isinstance(low, MASOrchestraEnv)
    assert low.dom == "low"
    assert "MASOrchestra-High-Math-v0" in gymnasium.registry
    assert "MASOrchestra-High-Custom-v0" in gymnasium.registry
    assert "MASOrchestra-High-Restaurant-v0" not in gymnasium.registry


def test_the_environment_passes_the_checks_of_the_library() -> None:
    report = check_environment(
        "MASOrchestra-High-Math-v0",
        checks=["gymnasium", "random", "snapshot", "hostile"],
        random_episodes=50,
        hostile=200,
    )
    assert report, str(report)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dom": "middle"}, "degree of MAS"),
        ({"credit": "some"}, "credit"),
        ({"exchange": "all"}, "exchange"),
        ({"agents": ["CoTAgnet"]}, "Did you mean 'CoTAgent'"),
        ({"model": "gpt-55"}, "Did you mean"),
        ({"timeout": -1}, "must be positive"),
    ],
)
def test_invalid_options_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises((OptionError, UnknownNameError), match=message):
        MASOrchestraEnv("Math", **wrong)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------- real models


def real(model: ScriptedChat, **options: object) -> MASOrchestraEnv:
    env = MASOrchestraEnv("Math", model=model, **options)  # type: ignore[arg-type]
    env.reset(seed=2)
    return env


def test_a_real_model_is_asked_the_question_and_then_its_part() -> None:
    model = answering(lambda request: "7" if "Check" in str(request.messages) else "3")
    env = real(model)
    _, _, _, _, info = env.step(PAIR)
    replies = [rf"<reasoning>So.</reasoning><answer>\boxed{{{answer}}}</answer>" for answer in (3, 7)]
    assert [call.value for call in info["calls"]] == replies
    prompts = [str(request.messages[-1]["content"]) for request in model.requests]
    assert all(env.task.instruction in text for text in prompts)
    assert f"Check {replies[0]}." in prompts[1]
    assert all(request.ground_truth is None for request in model.requests)
    assert env.episode.answer == r"\boxed{7}"


def test_whole_replies_are_passed_on_and_only_the_agent_that_answers_must_box() -> None:
    model = ScriptedChat(["<reasoning>x is 2 y.</reasoning><answer>x = 2 y; y = 3</answer>", r"So \boxed{6}"])
    env = real(model)
    env.step(design(Agent("A", "CoTAgent", "Write the relations down."), Agent("B", "CoTAgent", "Solve: ${A}")))
    first, last = ([str(message["content"]) for message in request.messages] for request in model.requests)
    assert ("boxed" in first[0], "boxed" in last[0]) == (False, True)
    assert "Solve: <reasoning>x is 2 y.</reasoning><answer>x = 2 y; y = 3</answer>" in last[1]
    assert env.episode.answer == r"\boxed{6}"


def test_answers_alone_can_be_passed_on() -> None:
    model = ScriptedChat([r"<reasoning>So.</reasoning><answer>\boxed{3}</answer>", r"\boxed{4}"])
    env = real(model, exchange="answers")
    *_, info = env.step(PAIR)
    assert [call.value for call in info["calls"]] == ["3", "4"]
    assert "Check 3." in str(model.requests[1].messages)
    assert all("boxed" in str(request.messages[0]["content"]) for request in model.requests)


def test_a_debate_lasts_all_its_rounds_unless_answers_alone_are_exchanged() -> None:
    debate = design(Agent("D", "DebateAgent", roles=("a sceptic", "a believer")))
    for exchange, calls in (("replies", 5 * 2 + 1), ("answers", 2 + 1)):
        model = answering("3")
        real(model, exchange=exchange).step(debate)
        assert len(model.requests) == calls
        assert ("<reasoning>So.</reasoning>" in str(model.requests[2].messages)) is True


def test_two_quotation_marks_stand_for_the_question() -> None:
    for quoted in ('""', " '' "):
        model = answering("3")
        env = real(model)
        env.step(SOLO.replace("<agent_input>", f"<agent_input>{quoted}"))
        assert (
            model.requests[0].messages[-1]["content"].endswith(f"<user_query>\n{env.task.instruction}\n</user_query>")
        )


def test_a_model_that_cannot_be_reached_is_an_infrastructure_error() -> None:
    def refuse(request: ChatRequest) -> Completion | ExpertError:
        return ExpertError("the server is down")

    env = real(ScriptedChat(refuse))
    _, reward, terminated, truncated, info = env.step(SOLO)
    assert (reward, terminated, truncated, info["outcome"]) == (0.0, False, True, "infra_error")
    assert env.episode.reward is None
    assert "the server is down" in info["verdict"]
    assert BatchError.__name__ in info["verdict"] or "ExpertError" in info["verdict"]


def test_a_real_model_that_hangs_is_cut() -> None:
    freed = threading.Event()

    def hang(request: ChatRequest) -> str:
        freed.wait(60)
        return "late"

    for outages, outcome in (("infra_error", "infra_error"), ("observed", "failed")):
        env = real(ScriptedChat(hang), timeout=1.0, outages=outages)
        observation, _, terminated, truncated, info = env.step(SOLO)
        assert (info["outcome"], info["calls"][0].status) == (outcome, Status.TIMEOUT)
        assert (terminated, truncated) == (outages == "observed", outages == "infra_error")
        assert "within 1 s" in observation
    freed.set()


def test_an_agent_has_a_bound_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masorchestra_play, "AGENT_SECONDS", 0.1)
    freed = threading.Event()
    env = real(ScriptedChat(lambda _: str(freed.wait(30))))
    *_, info = env.step(SOLO)
    freed.set()
    assert info["outcome"] == "infra_error"
    assert "has not answered within 0.1 s" in info["verdict"]


# ------------------------------------------------------------------------------------------------------ orchestrators


def test_every_orchestrator_writes_valid_designs_for_every_source_and_degree() -> None:
    for source in ("Math", "MultiHopQA"):
        for dom in ("low", "high"):
            env = MASOrchestraEnv(source, dom=dom)  # type: ignore[arg-type]
            for name in ORCHESTRATORS:
                for seed in range(3):
                    info = play_episode(env, make_orchestrator(name, seed=seed), seed=seed)
                    assert info["rule"] is None, (source, dom, name, info["verdict"])
                    assert dom == "high" or info["shape"].agents == 1


def test_the_oracle_takes_the_steps_of_the_question_and_fares_better_than_one_weak_agent() -> None:
    env = MASOrchestraEnv("Math", model="qwen2.5-7b")
    assert mean_interval(np.subtract(solved(env, "oracle", 150), solved(env, "single", 150))).low > 0.05
    hops = MASOrchestraEnv("MultiHopQA", model="gpt-oss-120b")
    assert mean_interval(np.subtract(solved(hops, "oracle", 30), solved(hops, "single", 30))).low > 0.2


def test_checking_is_worth_its_price() -> None:
    env = MASOrchestraEnv("Math", model="qwen2.5-7b")
    assert share(env, "chain") > share(env, "single")


def test_a_moderator_withstands_notes_that_deceive_a_single_agent() -> None:
    env = MASOrchestraEnv("MASBenchRobustness", model="gpt-oss-120b")
    assert share(env, "moderator", 15) >= share(env, "single", 15) + 0.4


def test_independent_components_gain_from_an_agent_each() -> None:
    env = MASOrchestraEnv("MASBenchParallel", model="gpt-oss-120b")
    assert share(env, "components", 20) > share(env, "single", 20)
    play_episode(env, make_orchestrator("components"), seed=0, options={"split": "test"})
    play = env.play
    assert isinstance(play, DesignPlay)
    assert isinstance(play.design, Design)
    targets = len(env.task.communicate)
    assert play.design.shape.width == targets > 1


def test_the_oracles_graph_is_that_of_the_task() -> None:
    env = MASOrchestraEnv("Math")
    task = next(task for task in env.source.tasks("test") if len(task.bindings["parts"]) == 4)
    env.reset(options={"task_id": task.id})
    policy = OracleDesignPolicy()
    policy.reset(env, "", {"task_id": task.id, "tool_names": ("CoTAgent",)})
    found = policy.design()
    needs = {
        (f"STEP_{need + 1}", f"STEP_{at + 1}")
        for at, part in enumerate(task.bindings["parts"])
        for need in part.get("needs", ())
    }
    assert set(found.edges) == needs


def test_random_designs_are_valid_and_varied() -> None:
    import random

    rng = random.Random(0)
    shapes = {random_design(rng, ("CoTAgent", "DebateAgent"), 6).shape for _ in range(100)}
    assert len(shapes) > 10
    with pytest.raises(OptionError, match="at least one agent"):
        make_orchestrator("random", max_agents=0)
    with pytest.raises(UnknownNameError, match="Did you mean 'oracle'"):
        make_orchestrator("oracel")
    with pytest.raises(OptionError, match="cannot be made"):
        make_orchestrator("chain", kind="SCAgent")


def test_with_the_credit_share_the_reward_is_the_share_of_right_answers() -> None:
    env = MASOrchestraEnv("MASBenchHorizon", credit="share")
    task = next(task for task in env.source.tasks("test") if len(task.communicate) == 4)
    right = [accepted[0] for accepted in task.communicate]
    env.reset(options={"task_id": task.id})
    assert env.step(env.final(", ".join(right)))[1] == 1.0
    env.reset(options={"task_id": task.id})
    given = [right[0], right[1], right[2], f"{right[3]}1"]
    _, reward, _, _, info = env.step(env.final(", ".join(given)))
    assert (reward, info["outcome"]) == (0.75, "failed")
    whole = MASOrchestraEnv("MASBenchHorizon")
    whole.reset(options={"task_id": task.id})
    assert whole.step(whole.final(", ".join(given)))[1] == 0.0


def test_general_policies_play_as_well() -> None:
    env = MASOrchestraEnv("Math", dom="low")
    assert play_episode(env, make_policy("oracle"), seed=0)["outcome"] == "solved"
    assert play_episode(env, make_policy("null"), seed=0)["outcome"] == "failed"
    model = ScriptedChat([design(Agent("A", "CoTAgent")).replace("agent_id", "agent_output_id") + "<answer>A</answer>"])
    assert play_episode(env, make_policy("llm", model=model), seed=0)["rule"] is None
    assert isinstance(env.episode, Episode)


def test_replies_that_are_too_long_are_cut_and_real_models_are_told() -> None:
    env = MASOrchestraEnv("Math", model="gpt-oss-120b", reply_tokens=60)
    env.reset(seed=1)
    *_, info = env.step(SOLO)
    (call,) = info["calls"]
    assert {child.tokens[1] for child in call.children} == {60}  # a reply without any answer is asked for again
    assert "<answer>" not in (call.value or "")
    assert info["outcome"] == "failed"
    model = answering("3")
    real(model, reply_tokens=512).step(SOLO)
    assert model.requests[0].max_tokens == 512
    for wrong in ("gpt-oss-120b", model):
        with pytest.raises(OptionError, match="at least one token"):
            MASOrchestraEnv("Math", model=wrong, reply_tokens=0)
