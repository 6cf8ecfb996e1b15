"""What an orchestrator's own messages cost, in every protocol."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.envs import make_multiagent
from toolorchestra.envs.masorchestra.design_runner import was_run
from toolorchestra.envs.orchestrator_rates import OrchestratorRates
from toolorchestra.envs.records.episode import TOOLS, Episode
from toolorchestra.envs.records.recording import Tally
from toolorchestra.envs.records.render import episode_text
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

RESTAURANT = "ToolOrchestra-Restaurant-v0"
CALL = {"name": "get_dish", "arguments": {"dish_id": "D07"}}
WRITTEN = '<tool_call>{"name": "get_dish", "arguments": {"dish_id": "D07"}}</tool_call>'


def made(env_id: str = RESTAURANT, **options: Any) -> Any:
    """Make an environment; a message without calls is the answer in domains, too."""
    env = gym.make(env_id, **{"answer": "text", **options}).unwrapped
    env.reset(seed=0)
    return env


def played(*actions: Any, **options: Any) -> Episode:
    env = made(**options)
    for action in actions:
        env.step(action)
    episode: Episode = env.episode
    return episode


# ----------------------------------------------------------------------------------------------------- the rule


def test_a_message_costs_the_conversation_that_was_read_and_the_text_that_was_written() -> None:
    env = made()
    rates = env.rates
    schemas = len(json.dumps(env.play.tools["get_dish"].schema)) // 2
    opening = sum(len(message["content"].encode()) for message in env.play.messages)
    read = -(-(env.play.schemas_size + opening) // 4)
    assert env.play.schemas_size > schemas
    observation, *_ = env.step(WRITTEN)
    first = env.episode.turns[0]
    length = len(WRITTEN) - WRITTEN.count(" ")
    assert first.tokens == (read, -(-length // 4) + 1)
    assert first.cost == first.tokens[0] * rates.read + first.tokens[1] * rates.written
    assert first.seconds == first.tokens[1] * rates.seconds
    env.step("It is 7.")
    second = env.episode.turns[1]
    conversation = env.play.schemas_size + opening + length + len(observation.encode())
    assert second.tokens == (-(-conversation // 4), 2 + 1)


def test_calls_begin_when_the_message_is_written() -> None:
    episode = played(WRITTEN)
    assert episode.turns[0].calls[0].start == episode.turns[0].seconds > 0
    assert episode.clock == episode.turns[0].calls[0].end


def test_an_empty_message_costs_what_was_read_and_one_token() -> None:
    turn = played("").turns[0]
    assert turn.tokens[1] == 1
    assert turn.cost > 0
    assert turn.seconds > 0


def test_a_long_thought_costs_more_than_none() -> None:
    short, long = played("It is 7."), played(f"<think>{'Let me see. ' * 8_334}</think>It is 7.")
    assert len(str(long.turns[0].message["content"])) > 100_000
    assert long.turns[0].tokens[1] - short.turns[0].tokens[1] > 25_000
    assert long.cost > 2 * short.cost
    assert long.clock > short.clock + 30
    assert long.metrics is not None
    assert short.metrics is not None
    assert long.metrics[-2] < short.metrics[-2]
    assert long.metrics[-1] < short.metrics[-1]


def test_a_thought_is_paid_for_again_whenever_it_is_read() -> None:
    short, long = played(WRITTEN, "7"), played("x" * 4_000 + WRITTEN, "7")
    assert long.turns[1].tokens[0] - short.turns[1].tokens[0] == 1_000


FORMS = [
    WRITTEN,
    f"\n{WRITTEN}\n",
    '<tool_call>\n{"name":"get_dish","arguments":{"dish_id":"D07"}}\n</tool_call>',
    f"<tool_call>\n{json.dumps(CALL, indent=2)}\n</tool_call>",
    [CALL],
    [{**CALL, "id": "a"}],
    {"content": "", "tool_calls": [CALL]},
    {"content": None, "tool_calls": [{"id": "b", "type": "function", "function": CALL}]},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": {**CALL, "arguments": '{"dish_id": "D07"}'}}],
    },
]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_costs_the_same_in_every_form(form: Any) -> None:
    one, other = played(WRITTEN).turns[0], played(form).turns[0]
    assert (other.tokens, other.cost, other.seconds) == (one.tokens, one.cost, one.seconds)


@pytest.mark.parametrize("place", ["Zürich", 'the "Löwe" \\ 東京 🙂', "a\nb"])
def test_arguments_cost_the_same_whether_escaped_or_not(place: str) -> None:
    call = {"name": "find", "arguments": {"place": place}}
    written = [json.dumps(call), json.dumps(call, ensure_ascii=False)]
    sizes = {read_message(f"Wait.\n<tool_call>{text}</tool_call>").size for text in written}
    sizes.add(read_message({"content": "Wait.", "tool_calls": [call]}).size)
    openai = {"name": "find", "arguments": json.dumps(call["arguments"])}
    sizes.add(read_message({"content": "Wait.", "tool_calls": [{"function": openai}]}).size)
    assert len(sizes) == 1


@pytest.mark.parametrize(
    "action",
    [
        WRITTEN.replace("D07", "D07" + "x" * 100_000),
        WRITTEN.replace('"arguments"', f'"thought": "{"x" * 100_000}", "arguments"'),
        [{**CALL, "thought": "x" * 100_000}],
        [{"thought": "x" * 100_000}],
        [CALL] * 64 + [{"thought": "x" * 100_000}],
        {"content": "", "reasoning_content": "x" * 100_000, "tool_calls": [CALL]},
        {"content": "It is 7.", "reasoning": "x" * 100_000},
        {"content": "x" * 100_000, "tool_calls": [CALL]},
        {"content": "x" * 100_000, "tool_calls": 7},
        WRITTEN + " " * 100_000,
        f"{WRITTEN[:-12]}{' ' * 100_000}</tool_call>",
        "<tool_call>" + "x" * 100_000,
        "\n" * 100_000,
        "x" * 1_000_001,
    ],
)
def test_no_text_is_written_for_free(action: Any) -> None:
    assert played(action).turns[0].tokens[1] > 25_000


@pytest.mark.parametrize("action", [None, 7, b"x", [], {}, [object()], [[]], {"tool_calls": [None]}, "\ud800"])
def test_what_is_no_message_costs_little_and_raises_nothing(action: Any) -> None:
    assert 1 <= played(action).turns[0].tokens[1] < 50


# ---------------------------------------------------------------------------------------------------- the option


def test_by_default_an_orchestrator_is_priced_as_qwen3_8b() -> None:
    assert made().rates == OrchestratorRates.of("qwen3-8b") == made(orchestrator="qwen3-8b").rates
    spec = Catalog.load().spec("qwen3-8b")
    assert OrchestratorRates.of(spec) == OrchestratorRates.of("qwen3-8b")


def test_an_orchestrator_may_be_free() -> None:
    episode = played(WRITTEN, "It is 7.", orchestrator=None)
    assert episode.cost_parts == {"orchestrator": 0.0, TOOLS: episode.cost}
    assert [turn.tokens for turn in episode.turns] == [(0, 0), (0, 0)]
    assert "tokens" not in episode.to_json().decode()


def test_a_dearer_model_costs_more_for_the_same_actions() -> None:
    cheap, dear = played(WRITTEN, "7"), played(WRITTEN, "7", orchestrator="gpt-5")
    assert dear.cost_parts["orchestrator"] > 5 * cheap.cost_parts["orchestrator"]
    assert dear.cost_parts[TOOLS] == cheap.cost_parts[TOOLS]
    assert [turn.tokens for turn in dear.turns] == [turn.tokens for turn in cheap.turns]


def test_a_catalogue_of_ones_own_may_price_the_orchestrator(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("experts: {qwen3-8b: {price: {input: 2, output: 2}}}\n")
    mine, shipped = played("7", catalog=file), played("7")
    assert mine.cost == pytest.approx(10 * shipped.cost)
    assert made("ParaManager-Math-v0", catalog=file).rates == made(catalog=file).rates


def test_a_wrong_orchestrator_is_refused_with_the_way_out() -> None:
    with pytest.raises(UnknownNameError, match=r"qwen3-8"):
        gym.make(RESTAURANT, orchestrator="qwen3-8")
    with pytest.raises(OptionError, match=r"name of a model of the catalogue, an ExpertSpec, or None for free, got 7"):
        gym.make(RESTAURANT, orchestrator=7)


@pytest.mark.parametrize("env_id", ["ParaManager-Math-v0", "MASOrchestra-Low-Math-v0", "TMATRSingle-Math-v0"])
def test_every_environment_of_one_agent_takes_the_option(env_id: str) -> None:
    costs = []
    for orchestrator in (None, "qwen3-8b", "gpt-5"):
        env = made(env_id, orchestrator=orchestrator)
        env.step("<thinking>Hm.</thinking><answer>7</answer>")
        costs.append(env.episode.cost)
    assert 0 == costs[0] < costs[1] < costs[2]


@pytest.mark.parametrize("env_id", ["MSARL-Math-v0", "TMATR-Math-v0"])
def test_every_environment_of_several_agents_takes_the_option(env_id: str) -> None:
    costs = []
    for orchestrator in (None, "qwen3-8b", "gpt-5"):
        env = make_multiagent(env_id, python="simulated", orchestrator=orchestrator)
        env.reset(seed=0)
        env.step("It is 7.")
        costs.append(env.infos[env.possible_agents[0]]["cost"])
    assert 0 == costs[0] < costs[1] < costs[2]


# ---------------------------------------------------------------------------------------------------- the limits


def test_the_orchestrators_own_messages_can_spend_the_budget() -> None:
    own = played(WRITTEN).turns[0].cost
    assert played(WRITTEN, max_cost=own / 2).why == f"the budget of ${own / 2:g} is spent"
    assert played(WRITTEN, max_cost=own / 2, orchestrator=None).outcome is None


def test_the_orchestrators_own_messages_can_spend_the_time() -> None:
    assert played(f"<think>{'x' * 40_000}</think>{WRITTEN}", max_seconds=5).why == "the time of 5 s is spent"
    assert played(f"<think>{'x' * 40_000}</think>{WRITTEN}", max_seconds=5, orchestrator=None).outcome is None


def test_no_agent_of_a_design_starts_when_the_design_has_spent_the_budget() -> None:
    from toolorchestra.envs.masorchestra.orchestrators import make_orchestrator

    free, priced = (made("MASOrchestra-High-Math-v0", max_cost=1e-6, orchestrator=one) for one in (None, "qwen3-8b"))
    for env in (free, priced):
        observation, info = env.reset(seed=3)
        policy = make_orchestrator("single", seed=0)
        policy.reset(env, observation, info)
        env.step(policy.act(observation, info))
    assert any(map(was_run, free.episode.calls))
    assert not any(map(was_run, priced.episode.calls))


# ------------------------------------------------------------------------------------------------ whose part it is


def test_cost_and_clock_are_the_sum_of_their_parts() -> None:
    episode = played([{"name": "ask_gpt_5_mini", "arguments": {}}], "It is 7.", tools="full")
    assert list(episode.cost_parts) == list(episode.clock_parts) == ["orchestrator", TOOLS]
    assert sum(episode.cost_parts.values()) == pytest.approx(episode.cost)
    assert sum(episode.clock_parts.values()) == pytest.approx(episode.clock)
    assert episode.cost_parts[TOOLS] == sum(call.cost for call in episode.calls) > 0
    assert episode.metrics is not None
    assert episode.metrics[-2:] == (-episode.cost, -episode.clock)


def test_the_transcript_says_which_part_is_whose() -> None:
    episode = played(WRITTEN, "It is 7.")
    cost, clock = episode.cost_parts, episode.clock_parts
    lines = episode_text(episode).splitlines()
    own = f"orchestrator ${cost['orchestrator']:.4f}, {clock['orchestrator']:.1f} s"
    assert f"{own} · tools ${cost[TOOLS]:.4f}, {clock[TOOLS]:.1f} s" in lines
    assert "tools $" not in episode_text(played(WRITTEN, "It is 7.", orchestrator=None))


def test_a_tally_says_what_the_agents_own_messages_cost_on_average() -> None:
    episodes = [played(WRITTEN, "It is 7."), played("It is 7.")]
    summary = Tally(episodes).summary()
    assert summary["own_cost"] == pytest.approx(sum(one.cost_parts["orchestrator"] for one in episodes) / 2)
    assert summary["own_clock"] == pytest.approx(sum(one.clock_parts["orchestrator"] for one in episodes) / 2)


def test_every_message_of_every_agent_counts() -> None:
    env = make_multiagent("MSARL-Math-v0", python="simulated")
    env.reset(seed=0)
    env.step("```python\nprint(2 ** 10)\n```")
    assert env.agent_selection == "helper"
    env.step("It printed 1024.")
    env.step("\\boxed{1024}")
    parts = env.episode.cost_parts
    assert list(parts) == ["reasoner", "helper", TOOLS]
    assert min(parts["reasoner"], parts["helper"]) > 0
    first, helped, last = env.episode.turns
    assert helped.tokens[0] < last.tokens[0]  # each reads its own history
    interpretation = "<interpretation>\nIt printed 1024.\n</interpretation>"
    opening = sum(len(message["content"].encode()) for message in env.episode.opening("reasoner"))
    wrote = len("```python\nprint(2 ** 10)\n```")
    assert first.tokens == (-(-opening // 4), -(-wrote // 4) + 1)
    assert last.tokens[0] == -(-(opening + wrote + len(interpretation)) // 4)


def test_agents_of_a_hierarchy_each_cost_something() -> None:
    env = make_multiagent("TMATR-Math-v0", python="simulated")
    env.reset(seed=0)
    env.step("<ACTION>text_reasoning</ACTION><GOAL>Find it.</GOAL>")
    env.step("<REASONING_STEPS>Step 1: Think.</REASONING_STEPS>")
    env.step("<THINK>Step 1: It is known.</THINK><ANSWER>\\boxed{1}</ANSWER>")
    assert env.play.over
    assert all(env.episode.cost_parts[agent] > 0 for agent in env.possible_agents)
    assert env.episode.clock == pytest.approx(sum(env.episode.clock_parts.values()))


def test_a_user_is_a_person_and_costs_nothing_but_is_read() -> None:
    costs = []
    for text in ("Hello.", "Hello. " * 100):
        env = make_multiagent("Dialogue-Restaurant-v0")
        env.reset(seed=0)
        env.step(text)
        assert env.episode.cost == 0
        env.step("Good morning.")
        costs.append(env.episode.cost_parts)
    assert costs[0]["user"] == costs[1]["user"] == 0
    assert costs[1]["orchestrator"] > costs[0]["orchestrator"] > 0


def test_the_budget_line_of_paramanager_is_read_too() -> None:
    env = made("ParaManager-Math-v0")
    opening = sum(len(message["content"].encode()) for message in env.play.messages) + env.play.schemas_size
    observation, *_ = env.step("Hm.")
    env.step("Hm.")
    first, second = env.episode.turns
    assert first.tokens[0] == -(-opening // 4)
    assert second.tokens[0] == -(-(opening + 3 + len(observation.encode())) // 4)


# --------------------------------------------------------------------------------------------------- the machinery


def test_an_episode_goes_on_at_the_same_cost_after_a_snapshot_or_a_copy() -> None:
    env = made()
    env.step(WRITTEN)
    snapshot, twin, pickled = env.snapshot(), copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    env.step("It is 7.")
    whole = env.episode.to_json()
    for other in (twin, pickled):
        other.step("It is 7.")
        assert other.episode.to_json() == whole
    env.restore(snapshot)
    branch = env.play.branch()
    env.step("It is 7.")
    branch.act("It is 7.")
    assert env.episode.to_json() == branch.episode.to_json() == whole


def test_the_same_actions_always_cost_the_same() -> None:
    assert played(WRITTEN, "It is 7.").to_json() == played(WRITTEN, "It is 7.").to_json()
