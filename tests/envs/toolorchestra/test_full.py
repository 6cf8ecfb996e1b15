"""ToolOrchestra as the paper plays it: experts, search and Python stand beside every world's own tools."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
import pytest
import yaml
from answering import wrong

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.reference import NullPolicy
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.preferences import make_pairs, tool_facts

pytestmark = pytest.mark.filterwarnings("ignore:ProcessSandbox does not isolate")

Make = Callable[..., Any]
FULL = (
    "web_search", "local_search", "python", "query_gpt_5", "query_gpt_5_mini", "query_qwen3_32b", "code_gpt_5",
    "code_gpt_5_mini", "code_qwen2_5_coder_32b", "math_qwen2_5_math_72b", "math_qwen2_5_math_7b", "ask_gpt_5",
    "ask_gpt_5_mini", "ask_llama_3_3_70b", "ask_qwen3_32b",
)  # fmt: skip


def expert(**more: Any) -> dict[str, Any]:
    """An expert that is right, at a dollar a million tokens, in a second."""
    return {
        "provider": "us",
        "roles": ["query", "code", "math", "generalist"],
        "price": {"input": 1, "output": 2},
        "latency": {"mean": 1, "spread": 0},
        "context": 100_000,
        "tokens": {"overhead": 40, "per_step": 0, "spread": 0},
        "skills": {"other": 0.9999999},
        "load": 0,
    } | more


@pytest.fixture
def catalog(tmp_path: Path) -> Callable[..., str]:
    """Write a catalogue of our own whose configuration `ours` offers each expert as a generalist."""

    def write(**experts: Mapping[str, Any]) -> str:
        file = tmp_path / "catalog.yaml"
        ours = {"source": "us", "experts": {"generalist": list(experts)}}
        file.write_text(yaml.safe_dump({"experts": experts, "configurations": {"ours": ours}}))
        return str(file)

    return write


def calls_of(*names: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments} for name in names]


def results(observation: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in observation.splitlines() if line.startswith("{")]


# ---------------------------------------------------------------------------------------------- available tools


def test_a_world_has_its_own_tools_by_default(make_env: Make, mini: Domain) -> None:
    for tools in ({}, {"tools": "domain"}, {"tools": None}):
        _, info = make_env(**tools).reset(seed=0)
        assert info["tool_names"] == tuple(mini.tools)


@pytest.mark.parametrize(("level", "beside"), [("basic", FULL[:3]), ("full", FULL)])
def test_further_tools_stand_beside_the_worlds_own(
    make_env: Make, mini: Domain, level: str, beside: tuple[str, ...]
) -> None:
    _, info = make_env(tools=level).reset(seed=0)
    assert info["tool_names"] == (*mini.tools, *beside)
    assert [schema["function"]["name"] for schema in info["tools"] if schema != info["tools"][-1]] == [
        *mini.tools,
        *beside,
    ]
    _, info = make_env().reset(seed=0, options={"tools": level})
    assert info["tool_names"] == (*mini.tools, *beside)


def test_the_three_settings_of_table_1_differ_in_the_tools_alone(make_env: Make, mini: Domain) -> None:
    """No tool; basic tools; basic tools, specialised and generalist models (ToolOrchestra §4.2)."""
    for level, there in (("none", ()), ("basic", (*mini.tools, *FULL[:3])), ("full", (*mini.tools, *FULL))):
        env = make_env(tools=level)
        observation, info = env.reset(seed=0)
        assert info["tool_names"] == there
        assert [schema["function"]["name"] for schema in info["tools"]] == [*there, "submit"]
        assert "<tool_call>" in observation
        assert info["messages"][-1] == make_env().reset(seed=0)[1]["messages"][-1]
    alone = make_env(tools="none")
    alone.reset(seed=0)
    *_, info = alone.step(calls_of("get_order"))
    assert info["calls"][0].status == "PARSE_ERR"
    *_, info = alone.step(wrong(alone))
    assert (info["outcome"], len(info["M"])) == ("failed", 3)


def test_without_tools_a_question_is_answered_by_the_model_alone() -> None:
    env = gym.make("ToolOrchestra-Math-v0", tools="none")
    env.reset(seed=0)
    _, reward, *_ = env.step(rf"\boxed{{{env.unwrapped.task.answer}}}")
    assert reward == 1.0
    env.close()


@pytest.mark.parametrize("level", ["none", "domain", "full"])
def test_the_prompt_asks_for_an_effort_if_one_is_named(make_env: Make, level: str) -> None:
    """§6.4: for Orchestrator-8B reasoning efforts are specified in the prompt."""
    prompts = [make_env(tools=level, effort=effort).reset(seed=0)[0] for effort in (None, "low", "medium", "high")]
    assert len(set(prompts)) == 4
    assert [("Reason as little" in text, "Reason thoroughly" in text) for text in prompts] == [
        (False, False), (True, False), (False, False), (False, True)
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match="Did you mean 'high'"):
        make_env(effort="hihg")


def test_a_world_keeps_the_search_that_it_has() -> None:
    env = gym.make("ToolOrchestra-MultiHopQA-v0", tools="full")
    _, info = env.reset(seed=0)
    assert info["tool_names"] == ("local_search", "web_search", *FULL[2:])
    world = env.unwrapped.play.world
    assert env.unwrapped.play.tools["local_search"] is world.tools["local_search"]
    env.close()


def test_tools_can_be_named_one_by_one(make_env: Make) -> None:
    env = make_env(tools=["ask_gpt_5", "get_order", "python"])
    _, info = env.reset(seed=0)
    assert info["tool_names"] == ("get_order", "python", "ask_gpt_5")
    with pytest.raises(OptionError, match="Did you mean 'ask_gpt_5'"):
        env.reset(options={"tools": ["get_order", "ask_gpt5"]})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tools": "ful"}, UnknownNameError, "Did you mean 'full'"),
        ({"tool_config": "evaluatoin"}, UnknownNameError, "Did you mean 'evaluation'"),
        ({"experts": "reel"}, UnknownNameError, "Did you mean 'real'"),
        ({"sandbox": "dokcer"}, UnknownNameError, "Did you mean 'docker'"),
        ({"timeout": 0}, OptionError, "positive"),
        ({"corpus": "nowhere.jsonl"}, OptionError, "nowhere.jsonl"),
        ({"experts": "real"}, OptionError, "expected an endpoint"),
    ],
)
def test_wrong_options_are_refused_with_a_remedy(
    make_env: Make, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_env(**({"tools": "full"} | options)).reset()


def test_a_wrong_level_of_tools_is_refused_before_anything_is_played(make_env: Make) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'full'"):
        make_env(tools="fulll")
    env = make_env()
    with pytest.raises(UnknownNameError, match="Did you mean 'basic'"):
        env.reset(options={"tools": "basics"})


def test_the_prompt_describes_experts_and_their_prices(make_env: Make) -> None:
    observation, info = make_env(tools="full").reset(seed=0)
    descriptions = {schema["function"]["name"]: schema["function"]["description"] for schema in info["tools"]}
    assert "$1.25 per million tokens read and $10 per million written" in descriptions["ask_gpt_5"]
    assert "about 96 seconds" in descriptions["ask_gpt_5"]
    assert "about 31 seconds" in descriptions["code_gpt_5"]
    assert "strong at math" in descriptions["ask_gpt_5"]
    assert "Some tools are models" in observation
    assert "Some tools are models" not in make_env(tools="basic").reset(seed=0)[0]


def test_a_tool_configuration_has_its_own_prices_and_the_prompt_states_them(make_env: Make) -> None:
    env = make_env(tools="full")
    descriptions = {}
    for tool_config in ("evaluation", "unseen-prices", "evaluation"):
        _, info = env.reset(seed=0, options={"tool_config": tool_config})
        (schema,) = [schema for schema in info["tools"] if schema["function"]["name"] == "ask_qwen3_32b"]
        descriptions.setdefault(tool_config, set()).add(schema["function"]["description"])
    assert [len(found) for found in descriptions.values()] == [1, 1]
    assert descriptions["evaluation"] != descriptions["unseen-prices"]


def test_each_task_has_its_own_random_tool_configuration(make_env: Make, mini: Domain) -> None:
    env = make_env(tools="full", tool_config="random", tool_config_seed=3)
    tools_of_task: dict[str, set[str]] = {}
    noise_seeds: dict[str, set[int]] = {}
    for seed in range(3):
        for task in mini.tasks()[:8]:
            _, info = env.reset(seed=seed, options={"task_id": task.id})
            tools_of_task.setdefault(task.id, set()).add(json.dumps(info["tools"]))
            noise_seeds.setdefault(task.id, set()).add(env.unwrapped.episode.noise_seed)
            assert set(mini.tools) <= set(info["tool_names"])
            assert any(name.startswith("ask_") for name in info["tool_names"])
    assert all(len(found) == 1 for found in tools_of_task.values())  # all rollouts of a group have the same
    assert len({next(iter(found)) for found in tools_of_task.values()}) == 8
    assert all(len(found) == 3 for found in noise_seeds.values())
    _, info = env.reset(options={"task_id": task.id, "tool_config_seed": 4})
    assert json.dumps(info["tools"]) not in tools_of_task[task.id]


# ------------------------------------------------------------------------------------------------------- experts


def test_following_a_good_expert_solves_every_task(make_env: Make, mini: Domain, catalog: Any) -> None:
    env = make_env(tools="full", tool_config="ours", catalog=catalog(ada=expert()))
    for task in mini.tasks():
        env.reset(seed=0, options={"task_id": task.id})
        for _ in range(2 * len(task.reference_calls) + 2):
            shown = ["request", *(call.id for call in env.unwrapped.episode.calls)]
            observation, *_ = env.step(calls_of("ask_ada", context=shown))
            (reply,) = results(observation)
            proposed = reply["result"]
            _, reward, terminated, _, info = env.step([proposed["call"]] if "call" in proposed else proposed["answer"])
            if terminated:
                break
        assert reward == 1.0
        count = info["tool_names"].index("ask_ada")
        assert info["M"][count] == len(env.unwrapped.episode.turns) // 2


def test_cost_and_time_of_experts_are_those_of_the_episode(make_env: Make, catalog: Any) -> None:
    env = make_env(
        tools="full", tool_config="ours", catalog=catalog(ada=expert(), bob=expert(price={"input": 3, "output": 4}))
    )
    env.reset(seed=0)
    *_, info = env.step(calls_of("ask_ada", "ask_bob"))
    ada, bob = info["calls"]
    assert ada.cost == pytest.approx((ada.tokens[0] * 1 + 40 * 2) / 1e6)
    assert bob.cost == pytest.approx((bob.tokens[0] * 3 + 40 * 4) / 1e6)
    assert [child.name for child in ada.children] == ["ada"]
    (own,) = env.unwrapped.episode.turns
    assert info["cost"] == pytest.approx(ada.cost + bob.cost + own.cost)
    *_, info = env.step(wrong(env))
    _, end = env.unwrapped.episode.turns
    cost, seconds = own.cost + end.cost, own.seconds + end.seconds
    assert info["M"][-2:] == pytest.approx([-(ada.cost + bob.cost + cost), -(1.0 + seconds)])


def test_four_calls_of_a_second_take_a_second_on_the_virtual_clock(make_env: Make, catalog: Any) -> None:
    file = catalog(ada=expert(), bob=expert())
    env = make_env(tools="full", tool_config="ours", catalog=file, orchestrator=None)
    env.reset(seed=0)
    *_, info = env.step(calls_of("ask_ada", "ask_bob", "ask_ada", "ask_bob"))
    assert [(call.start, call.end) for call in info["calls"]] == [(0.0, 1.0)] * 4
    assert info["clock"] == 1.0


def test_two_calls_of_one_expert_are_two_samples() -> None:
    env = gym.make("ToolOrchestra-Math-v0", tools="full")
    differ = 0
    for seed in range(20):
        env.reset(seed=seed, options={"difficulty": 5})
        *_, info = env.step(calls_of("ask_llama_3_3_70b", "ask_llama_3_3_70b", context=["request"]))
        one, other = info["calls"]
        differ += one.value != other.value
        assert one.tokens != other.tokens or one.end != other.end
    assert 0 < differ < 20
    env.close()


def test_roles_use_the_available_tools() -> None:
    env = gym.make("ToolOrchestra-MultiHopQA-v0", tools="full")
    env.reset(seed=0)

    def children(*names: str) -> list[list[str]]:
        *_, info = env.step(calls_of(*names, context=["request"]))
        return [[child.name for child in call.children] for call in info["calls"]]

    assert children("query_gpt_5", "ask_gpt_5") == [["gpt-5", "local_search", "gpt-5"], ["gpt-5"]]
    assert set(children("code_gpt_5")[0]) == {"gpt-5", "python"}
    env.reset(seed=0, options={"tools": ["code_gpt_5", "local_search"]})
    assert children("code_gpt_5") == [["gpt-5"]]  # there is no Python
    env.close()


@pytest.mark.parametrize("name", ["ask_gpt_5", "code_gpt_5"])
def test_searching_first_makes_an_expert_right(name: str) -> None:
    """Facts of a made-up world are known from its passages alone."""
    env = gym.make("ToolOrchestra-MultiHopQA-v0", tools="full")
    right = {False: 0, True: 0}
    for seed in range(30):
        for searched in right:
            env.reset(seed=seed, options={"difficulty": 1})
            task = env.unwrapped.task
            if searched:
                env.step([{"name": call.name, "arguments": call.arguments} for call in task.reference_calls])
            shown = ["request", *(call.id for call in env.unwrapped.episode.calls)]
            *_, info = env.step(calls_of(name, context=shown))
            value = info["calls"][0].value or {"answer": ""}
            _, reward, *_ = env.step(value["answer"])
            right[searched] += reward == 1.0
    assert right[True] > 24
    assert right[False] < 8
    env.close()


# ----------------------------------------------------------------------------------------------- search, Python


def test_the_manual_of_the_place_can_be_searched(make_env: Make) -> None:
    env = make_env(tools="basic")
    env.reset(seed=0)
    *_, info = env.step(calls_of("local_search", query_list=["cancel an order"]))
    (found,) = info["calls"][0].value
    assert "The tool cancel_order" in [passage["title"] for passage in found["passages"]]


def test_passages_of_ones_own_can_be_searched(make_env: Make, tmp_path: Path) -> None:
    corpus = tmp_path / "passages.jsonl"
    corpus.write_text('{"id": "1", "title": "Tern", "text": "A bird of the coast."}\n')
    env = make_env(tools="basic", corpus=str(corpus))
    env.reset(seed=0)
    *_, info = env.step(calls_of("local_search", query_list=["coast"]))
    assert info["calls"][0].value[0]["passages"][0]["title"] == "Tern"


# --------------------------------------------------------------------------------------------------- preferences


def test_a_preference_may_name_experts(make_env: Make) -> None:
    env = make_env(tools="full", preference={"ask_gpt_5": 0.5, "outcome": 1})
    _, info = env.reset(seed=0)
    assert info["preference"][info["tool_names"].index("ask_gpt_5")] == 0.5
    with pytest.raises(OptionError, match="Did you mean 'ask_gpt_5'"):
        env.reset(options={"preference": {"ask_gpt5": 1}})


def test_a_preference_may_name_what_a_random_tool_configuration_lacks(make_env: Make, mini: Domain) -> None:
    env = make_env(
        tools="full", tool_config="random", preference={"weights": {"ask_gpt_5": 0.5}, "instruction": "Ask gpt 5."}
    )
    weights = set()
    for task in mini.tasks()[:10]:
        observation, info = env.reset(options={"task_id": task.id})
        assert observation.endswith("Ask gpt 5.")
        weights.add(float(np.sum(info["preference"])))
    assert weights == {0.0, 0.5}


def test_pairs_made_for_all_tools_are_met(make_env: Make, tmp_path: Path) -> None:
    env = make_env(tools="full")
    env.reset(seed=0)
    facts = tool_facts(env.unwrapped.play.tools.values())
    assert next(fact for fact in facts if fact.name == "ask_gpt_5").price > 0.01
    pairs, _ = make_pairs(facts, 60)
    assert any(name.startswith(("ask_", "code_", "math_", "query_")) for pair in pairs for name in pair.rewarded)
    file = tmp_path / "pairs.jsonl"
    write_jsonl(file, pairs)
    _, info = env.reset(seed=0, options={"preference": str(file)})
    assert info["preference"].shape == (len(info["tool_names"]) + 3,)


# ----------------------------------------------------------------------------------------------------- real experts


@pytest.fixture
def real(make_env: Make, catalog: Any, fake_server: Any) -> Callable[..., Any]:
    """Make an environment with four real experts, all at the fake server."""

    def make(**options: Any) -> Any:
        endpoint = {"base_url": fake_server.url, "max_retries": 0}
        file = catalog(**{name: expert(endpoint=endpoint) for name in ("ada", "bob", "cleo", "dan")})
        return make_env(tools="full", tool_config="ours", catalog=file, experts="real", **options)

    return make


ALL = ("ask_ada", "ask_bob", "ask_cleo", "ask_dan")


def test_real_experts_are_asked_at_the_same_time(real: Make, fake_server: Any) -> None:
    together = threading.Barrier(4, timeout=60)  # none is answered before all four have been asked

    def respond(body: Any) -> Any:
        together.wait()
        return fake_server.completion("<answer>done</answer>")

    env = real()
    env.reset(seed=0)
    fake_server.respond = respond
    *_, info = env.step(calls_of(*ALL))
    assert [call.value for call in info["calls"]] == [{"answer": "done"}] * 4


def test_a_failing_a_malformed_and_a_hanging_call_leave_the_fourth_intact(real: Make, fake_server: Any) -> None:
    go_on = threading.Event()

    def respond(body: Any) -> Any:
        if body["model"] == "ada":
            return 500, {"error": {"message": "out of order"}}
        if body["model"] == "cleo":
            go_on.wait(60)
        return fake_server.completion('So: <tool_call>{"name": "count_orders", "arguments": {}}</tool_call>')

    fake_server.respond = respond
    env = real(timeout=2.0, outages="observed")
    env.reset(seed=0)
    calls = [*calls_of("ask_ada"), *calls_of("ask_bob", qeustion="What?"), *calls_of("ask_cleo", "ask_dan")]
    *_, info = env.step(calls)
    go_on.set()
    ada, bob, cleo, dan = info["calls"]
    assert [call.status for call in info["calls"]] == ["EXEC_ERR", "PARSE_ERR", "TIMEOUT", "OK"]
    assert "out of order" in ada.error
    assert "Did you mean 'question'" in bob.error
    assert "has not answered within 2 s" in cleo.error
    assert dan.value == {"call": {"name": "count_orders", "arguments": {}}}
    assert (dan.tokens, dan.cost) == ((100, 10), pytest.approx(120e-6))
    assert env.unwrapped.episode.cost_parts["tools"] == pytest.approx(120e-6)


def half(text: bytes) -> Iterator[bytes]:
    yield text
    raise ConnectionError


FAULTS: dict[str, Callable[[Any], Any]] = {
    "500": lambda server: (500, {"error": {"message": "out of order"}}),
    "401": lambda server: (401, b""),
    "garbage": lambda server: (200, b"<html>welcome</html>"),
    "hangs up": lambda server: (0, b""),
    "half a body": lambda server: (200, half(b'data: {"choi')),
    "negative usage": lambda server: (200, {**server.completion("hm")[1], "usage": {"prompt_tokens": -5_000_000}}),
    "hangs": lambda server: server.completion("late"),
}


@pytest.mark.parametrize("outages", ["infra_error", "observed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_outage_of_an_expert_is_no_failure_of_the_policy_unless_it_should_cope(
    real: Make, fake_server: Any, fault: str, outages: str
) -> None:
    go_on = threading.Event()

    def respond(body: Any) -> Any:
        if body["model"] != "bob":
            return fake_server.completion("done")
        if fault == "hangs":
            go_on.wait(60)
        return FAULTS[fault](fake_server)

    fake_server.respond = respond
    env = real(timeout=2.0 if fault == "hangs" else 60.0, outages=outages)
    env.reset(seed=0)
    env.step(calls_of("ask_ada"))
    *_, truncated, info = env.step(calls_of("ask_ada", "ask_bob"))
    go_on.set()
    episode = env.unwrapped.episode
    assert episode.cost >= 0
    if outages == "infra_error":
        assert (truncated, info["outcome"], episode.reward) == (True, "infra_error", None)
        assert "bob" in info["verdict"]
    else:
        assert not truncated
        assert [call.status for call in info["calls"]] == ["OK", "TIMEOUT" if fault == "hangs" else "EXEC_ERR"]


def test_what_a_working_expert_refuses_is_the_policys_failure(real: Make, fake_server: Any) -> None:
    fake_server.respond = lambda body: fake_server.completion("done")
    env = real()
    env.reset(seed=0)
    env.step(calls_of("ask_ada"))
    fake_server.respond = lambda body: (400, {"error": {"message": "the context is too long"}})
    *_, info = env.step(calls_of("ask_ada"))
    (call,) = info["calls"]
    assert (call.status, env.unwrapped.episode.outcome) == ("EXEC_ERR", None)
    assert "the context is too long" in call.error


def test_there_are_two_kinds_of_outages(make_env: Make) -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown value of `outages` 'observe'\. Did you mean 'observed'"):
        make_env(outages="observe")


def test_a_real_expert_reads_the_conversation_and_never_the_reference_answer(
    real: Make, fake_server: Any, mini: Domain
) -> None:
    fake_server.respond = lambda body: fake_server.completion("<answer>no</answer>")
    env = real()
    task = next(task for task in mini.tasks() if len(task.reference_calls) > 2)
    env.reset(options={"task_id": task.id})
    env.step("Let me see. " + '<tool_call>{"name": "count_orders", "arguments": {}}</tool_call>')
    env.step([{"name": "ask_ada", "arguments": {"question": "And now?", "context": ["request", "call_1"]}}])
    (body,) = fake_server.bodies
    text = body["messages"][1]["content"]
    for part in (task.instruction, "Let me see.", '"result":40', "And now?", "cancel_order", mini.spec.title):
        assert part in text
    assert task.answer not in text
    assert msgspec.json.encode(task.reference_calls[-1].arguments).decode() not in text
    assert "ground_truth" not in body


# ------------------------------------------------------------------------------------------------------- the whole


def test_an_episode_with_context_tools_continues_the_same_from_a_snapshot(make_env: Make) -> None:
    env, fresh = make_env(tools="full", tool_config="random"), make_env(tools="full", tool_config="random")
    env.reset(seed=5)
    (name, *_) = [name for name in env.unwrapped.episode.tools if name.startswith("ask_")]
    env.step(calls_of(name))
    snapshot = env.unwrapped.snapshot()

    def going_on(env: Any) -> list[Any]:
        seen = [env.step(calls_of(name, name))[0], env.step("Done.")[4]["messages"]]
        return [*seen, env.unwrapped.episode.to_json(), env.unwrapped.snapshot().generator]

    expected = going_on(env)
    for target in (env, fresh):
        target.unwrapped.restore(snapshot)
        assert going_on(target) == expected


@pytest.mark.parametrize("policy", ["oracle", "random", "noisy-oracle"])
def test_policies_play_it(make_env: Make, policy: str) -> None:
    env = make_env(tools="full")
    info = play_episode(env, make_policy(policy), seed=0)
    assert info["outcome"] in ("solved", "failed")
    assert len(info["M"]) == len(info["tool_names"]) + 3


def test_doing_nothing_solves_nothing(make_env: Make) -> None:
    assert play_episode(make_env(tools="full"), NullPolicy(), seed=0)["outcome"] == "failed"


def test_the_checks_pass_with_all_tools(quick_folder: Path) -> None:
    report = check_environment(
        "ToolOrchestra-Custom-v0",
        domain=str(quick_folder),
        tools="full",
        checks=["gymnasium", "determinism", "oracle", "snapshot", "hostile"],
        hostile=100,
    )
    assert report, str(report)
