from __future__ import annotations

import inspect
import keyword
import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

import toolorchestra
from examples import trl_grpo
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.policies.reference import OraclePolicy
from toolorchestra.envs.bridges import trl as bridge
from toolorchestra.envs.records.episode import ORCHESTRATOR
from toolorchestra.toolscale.common.errors import OptionError

ENV = "ToolOrchestra-Restaurant-v0"
SEEDS = range(6)


@pytest.fixture(scope="module")
def restaurant() -> bridge.ToolMethods:
    return bridge.environment(ENV)()


def tools_of(one: bridge.ToolMethods) -> dict[str, Any]:
    """Return the tools that TRL finds."""
    found = inspect.getmembers(type(one), predicate=inspect.isfunction)
    return {
        name: getattr(one, name)
        for name, _ in found
        if not name.startswith("_") and name not in ("reset", "get_reward")
    }


def reference(seed: int, env_id: str = ENV) -> tuple[gym.Env[Any, Any], list[Any]]:
    """Return an environment in which the reference trajectory of a seed was played, and its messages."""
    env = gym.make(env_id)
    observation, info = env.reset(seed=seed)
    policy = OraclePolicy()
    policy.reset(env, observation, info)
    messages, over = [], False
    while not over:
        messages.append(policy.act(observation, info))
        observation, _, terminated, truncated, info = env.step(messages[-1])
        over = terminated or truncated
    return env, messages


def play(one: bridge.ToolMethods, messages: list[Any]) -> None:
    """Play messages as TRL does: the calls one by one."""
    tools = tools_of(one)
    for message in map(read_message, messages):
        for call in message.calls:
            arguments = msgspec.json.decode(call.arguments)
            named = {f"{name}_" if keyword.iskeyword(name) else name: value for name, value in arguments.items()}
            tools[bridge._method_name(call.name)](**named)
        if not message.calls:
            tools["submit"](answer={}, message=message.text)


def test_a_parameter_called_like_a_keyword_reaches_the_tool() -> None:
    shop = bridge.environment("ToolOrchestra-Ecommerce-v0")()
    shop.reset(seed=0)
    shop.get_return(return_="R99")  # type: ignore[attr-defined]
    assert shop.episode.turns[-1].calls[0].arguments == {"return": "R99"}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_episode_has_the_reward_of_gymnasiums_environment(restaurant: bridge.ToolMethods, seed: int) -> None:
    env, messages = reference(seed)
    restaurant.reset(seed=seed)
    play(restaurant, messages)
    assert bridge.reward(environments=[restaurant]) == [env.unwrapped.episode.reward] == [1.0]  # type: ignore[attr-defined]
    restaurant.reset(seed=seed)
    play(restaurant, ["I do not know."])
    assert bridge.reward(environments=[restaurant]) == [0.0]


def test_costs_and_times_are_those_of_the_same_messages(restaurant: bridge.ToolMethods) -> None:
    env, messages = reference(3)
    calls = [
        [{"name": call.name, "arguments": msgspec.json.decode(call.arguments)}]
        for message in messages
        for call in read_message(message).calls
    ]
    env.reset(seed=3)
    for message in calls:
        env.step(message)
    restaurant.reset(seed=3)
    play(restaurant, messages)
    expected = env.unwrapped.episode  # type: ignore[attr-defined]
    assert bridge.cost(environments=[restaurant]) == [-expected.cost]
    assert bridge.latency(environments=[restaurant]) == [-expected.clock]
    assert restaurant.episode.turns == expected.turns


def test_methods_have_the_schemas_of_the_tools(restaurant: bridge.ToolMethods) -> None:
    get_json_schema = pytest.importorskip("transformers.utils").get_json_schema
    for env_id in (ENV, "ToolOrchestra-Ecommerce-v0", "ToolOrchestra-Weather-v0", "ParaManager-Math-v0"):
        env = gym.make(env_id)
        _, info = env.reset(seed=0)
        methods = tools_of(bridge.environment(env_id)())
        for tool in info["tools"]:
            wanted = tool["function"]
            made = get_json_schema(methods[bridge._method_name(wanted["name"])])["function"]
            assert made["description"] == " ".join(wanted["description"].split())
            assert [name.rstrip("_") for name in made["parameters"].get("required", [])] == wanted["parameters"][
                "required"
            ]
            for name, about in wanted["parameters"]["properties"].items():
                found = made["parameters"]["properties"][f"{name}_" if keyword.iskeyword(name) else name]
                assert found["type"] == about["type"], (env_id, wanted["name"], name)
                assert found.get("enum") == about.get("enum")
                assert found["description"] == " ".join(about["description"].split())
        assert len(methods) == len(info["tools"]) + ("submit" not in methods)


def test_after_the_end_every_tool_says_so_and_does_nothing(restaurant: bridge.ToolMethods) -> None:
    restaurant.reset(seed=0)
    tools = tools_of(restaurant)
    assert "over" in tools["submit"](answer={}, message="Goodbye.")
    record = restaurant.episode.to_json()
    assert tools["submit"](answer={}) == tools["list_menu"]() == bridge.ENDED
    assert restaurant.episode.to_json() == record


def test_what_a_model_gets_wrong_is_an_observation(restaurant: bridge.ToolMethods) -> None:
    restaurant.reset(seed=0)
    shown = msgspec.json.decode(tools_of(restaurant)["get_dish"](dish=["no"], nonsense=1))
    assert shown["status"] == "PARSE_ERR"
    assert "get_dish" in shown["error"]


def test_a_last_message_without_calls_is_the_answer_where_none_was_given() -> None:
    one = bridge.environment("ToolOrchestra-Math-v0")()
    env = gym.make("ToolOrchestra-Math-v0")
    env.reset(seed=1)
    right = env.unwrapped.right_answer(env.unwrapped.task)  # type: ignore[attr-defined]
    for text, wanted in ((right, 1.0), ("I give up.", 0.0)):
        one.reset(seed=1)
        said = [{"role": "assistant", "content": text}]
        assert bridge.reward(environments=[one], completions=[said], prompts=[None]) == [wanted]
    one.reset(seed=1)
    cut = [{"role": "assistant", "content": "", "tool_calls": [{}]}, {"role": "tool", "content": right}]
    assert bridge.reward(environments=[one], completions=[cut]) == [0.0]
    assert tools_of(one)["submit"](answer=right) == bridge.ENDED  # it cannot be given any more


def test_a_question_is_answered_with_submit_too() -> None:
    one = bridge.environment("ToolOrchestra-Math-v0")()
    assert list(tools_of(one)) == ["calculator", "submit"]
    for text, wanted in ((None, 1.0), ("0 or 1", 0.0)):
        assert one.reset(seed=1).endswith("by calling the tool `submit`: that ends the episode.")
        right = one._env.task.communicate[0][0]
        assert "The answer was given" in tools_of(one)["submit"](answer=right if text is None else text)
        assert bridge.reward(environments=[one]) == [wanted]
    assert list(tools_of(bridge.environment("ToolOrchestra-Math-v0", tools="none")())) == ["answer"]


def test_an_infrastructure_error_is_no_reward(restaurant: bridge.ToolMethods) -> None:
    restaurant.reset(seed=0)
    restaurant.episode.outcome = "infra_error"
    assert bridge.reward(environments=[restaurant]) == [None] == bridge.cost(environments=[restaurant])


def test_a_factory_survives_pickling_and_makes_environments_of_one_class() -> None:
    factory = pickle.loads(pickle.dumps(bridge.environment(ENV, max_turns=3)))
    first, second = factory(), factory()
    assert type(first) is type(second)
    assert pickle.loads(pickle.dumps(factory))().reset(seed=2) == first.reset(seed=2)


def test_a_design_is_written_as_the_answer() -> None:
    one = bridge.environment("MASOrchestra-Low-Math-v0")()
    assert list(tools_of(one)) == ["answer"]
    env, messages = reference(0, "MASOrchestra-Low-Math-v0")
    one.reset(seed=0)
    one.answer(messages[0])  # type: ignore[attr-defined]
    assert bridge.reward(environments=[one]) == [env.unwrapped.episode.reward]  # type: ignore[attr-defined]


def test_what_cannot_be_trained_on_is_refused(restaurant: bridge.ToolMethods) -> None:
    with pytest.raises(OptionError, match=r"needs a `seed` or a `task_id`.*prompt"):
        restaurant.reset(prompt=[])
    with pytest.raises(OptionError, match="cannot be called 'list_menu'"):
        bridge.environment(ENV, answer="list_menu")()
    with pytest.raises(OptionError, match="no environment of one agent"):
        bridge.environment("MSARLSingle-Math-v0")()
    with pytest.raises(OptionError, match="`schemas` must be full, got short: TRL shows the tools"):
        bridge.environment(ENV, schemas="short")()
    tasks = [gym.make(f"ToolOrchestra-{name}-v0").unwrapped.source.tasks("train")[0].id for name in ("Sport", "Travel")]  # type: ignore[attr-defined]
    mixed = bridge.environment("ToolOrchestra-All-v0")()
    with pytest.raises(OptionError, match="other tools than the first one"):
        assert [mixed.reset(task_id=task) for task in tasks]


def test_other_columns_of_a_row_are_left_alone(restaurant: bridge.ToolMethods) -> None:
    restaurant.reset(seed=4, prompt=[], split="test", color="red", difficulty=None)
    assert restaurant.episode.split == "test"
    task = restaurant.episode.task_id
    restaurant.reset(task_id=task, prompt=[])
    assert restaurant.episode.task_id == task


# ------------------------------------------------------------------------------------------------------- training


def written(name: str, **arguments: Any) -> str:
    call = msgspec.json.encode({"name": name, "arguments": arguments}).decode()
    return f"<tool_call>\n{call}\n</tool_call>"


def tiny_model(tokenizer: Any) -> Any:
    """Return a random model of Qwen3's kind over the words of a tokenizer."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


@pytest.mark.filterwarnings("ignore")
def test_the_python_of_the_page_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_words: Any) -> None:
    """With a tiny model in place of Qwen3-0.6B, on its device and for one step; all else is as on the page."""
    pytest.importorskip("torch", reason="pip install 'toolorchestra[train]'")
    trl = pytest.importorskip("trl", reason="pip install 'toolorchestra[train]'")
    page = Path(__file__).parents[3] / "docs" / "bridges" / "trl.md"
    (code,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    tokenizer = whole_words([written("submit", answer={}), written("get_order", customer="A")])
    folder = tmp_path / "model"
    tiny_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    small = {"output_dir": str(tmp_path / "run"), "max_steps": 1, "use_cpu": True, "report_to": "none"}
    small |= {"per_device_train_batch_size": 2, "num_generations": 2, "max_completion_length": 16}
    whole = trl.GRPOConfig
    monkeypatch.setattr(trl, "GRPOConfig", lambda **options: whole(**options | small))
    scope: dict[str, Any] = {}
    exec(compile(code.replace('"Qwen/Qwen3-0.6B"', repr(str(folder))), str(page), "exec"), scope)
    assert scope["trainer"].state.global_step == 1
    (log,) = (log for log in scope["trainer"].state.log_history if "rewards/reward/mean" in log)
    assert 0.0 <= log["rewards/reward/mean"] <= 1.0
    assert log["rewards/cost/mean"] < 0


@pytest.mark.filterwarnings("ignore")
def test_trls_own_trainer_learns_with_it(tmp_path: Path, whole_words: Any) -> None:
    torch = pytest.importorskip("torch", reason="pip install 'toolorchestra[train]'")
    pytest.importorskip("trl", reason="pip install 'toolorchestra[train]'")
    from datasets import Dataset
    from transformers import set_seed
    from trl import GRPOConfig, GRPOTrainer

    env_id = "ToolOrchestra-Math-v0"
    env = gym.make(env_id)
    env.reset(seed=1)
    right = env.unwrapped.right_answer(env.unwrapped.task)  # type: ignore[attr-defined]
    texts = [written("submit", answer=text) for text in (right, "0", "I do not know.")]
    texts.append(written("calculator", expression="2 + 2"))
    tokenizer = whole_words(texts)
    set_seed(0)
    torch.set_num_threads(1)
    played: list[tuple[list[Any], float | None]] = []

    def seen(**columns: Any) -> list[float | None]:
        rewards = toolorchestra.trl.reward(**columns)
        played.extend(zip((one.episode.copied() for one in columns["environments"]), rewards, strict=True))
        return rewards

    factory = toolorchestra.trl.environment(env_id)
    trainer = GRPOTrainer(
        tiny_model(tokenizer),
        reward_funcs=seen,
        args=GRPOConfig(
            output_dir=str(tmp_path),
            max_steps=24,
            per_device_train_batch_size=8,
            num_generations=8,
            max_completion_length=200,
            max_tool_calling_iterations=3,
            learning_rate=5e-3,
            lr_scheduler_type="constant",
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            use_cpu=True,
            disable_tqdm=True,
        ),
        processing_class=tokenizer,
        train_dataset=Dataset.from_list([factory.rows(1, seed=1)[0]] * 8),
        environment_factory=factory,
    )
    trainer.train()
    rewards = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    assert sum(rewards[:3]) < 2.0 < 2.4 < sum(rewards[-3:])
    assert any(len(episode.turns) > 1 for episode, _ in played)  # calls, then an answer
    for episode, reward in played:
        env.reset(seed=1)
        total = sum(float(env.step(turn.message)[1]) for turn in episode.turns)
        assert reward == total
        assert [turn.observations.get(ORCHESTRATOR) for turn in episode.turns] == [
            turn.observations.get(ORCHESTRATOR)
            for turn in env.unwrapped.episode.turns  # type: ignore[attr-defined]
        ]


def test_half_of_the_demonstrations_of_the_example_are_right() -> None:
    shown = trl_grpo.demonstrations(bridge.environment(trl_grpo.DOMAIN)())
    assert [len(messages) > 4 for messages in shown[:4]] == [True, False, True, False]
    assert all(bridge._DONE in messages[-2]["content"] for messages in shown)


@pytest.mark.long  # a random model writes 512 tokens in each of 64 episodes
@pytest.mark.filterwarnings("ignore")
def test_the_example_learns_from_demonstrations_then_from_rewards(tmp_path: Path, monkeypatch: Any) -> None:
    pytest.importorskip("trl", reason="pip install 'toolorchestra[train]'")
    monkeypatch.chdir(tmp_path)  # for what the trainers write
    (reward,) = trl_grpo.learned(sft_steps=2, grpo_steps=1)
    assert 0.0 <= reward <= 1.0
