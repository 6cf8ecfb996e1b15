"""Chat models, experts, catalogues and policies can be pickled and copied, also in the middle of an episode."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import toolorchestra  # noqa: F401  (registers the environments)
from examples.baselines import BASELINES, AgentHead, EvaluationBank
from examples.baselines.routing import RoutingEvaluation
from toolorchestra.agents.builtin import CompactRenderer
from toolorchestra.agents.chat import ChatRequest, OpenAIChat, RecordingChat, ReplayChat, ScriptedChat
from toolorchestra.agents.experts import Catalog, SimulatedChat
from toolorchestra.agents.policies import (
    ChatPolicy,
    ConsensusPolicy,
    ExplorerPolicy,
    HumanPolicy,
    NoisyOraclePolicy,
    NullPolicy,
    OraclePolicy,
    Policy,
    QueryingOraclePolicy,
    RandomPolicy,
)
from toolorchestra.agents.policies.baselines import Baseline
from toolorchestra.agents.policies.registry import POLICIES as REGISTERED
from toolorchestra.agents.problems import GroundTruth, Problem
from toolorchestra.toolscale.common.errors import ExpertError

COPIES = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy}
REQUEST = ChatRequest(
    [{"role": "user", "content": "What is 5 + 7?"}],
    ground_truth=GroundTruth(Problem.chain("sum", "math", 3, "12", wrong=("13",))),
)
BANK = EvaluationBank([RoutingEvaluation("How many?", "gpt-oss-20b", True, 1.0)])
LEARNT: dict[str, dict[str, Any]] = {
    **{name: {"bank": BANK} for name in ("avengers", "frugal-gpt", "irt-router", "knn-router", "route-llm")},
    "puppeteer": {"head": AgentHead(("stop", "answer:gpt_oss_20b"), ((0.0,) * 18, (1.0,) * 18))},
    "router-r1": {"head": AgentHead(("answer", "gpt_oss_20b"), ((0.0,) * 19, (1.0,) * 19))},
    "trinity": {"head": AgentHead(("gpt_oss_20b", "thinker", "worker", "verifier"), ((1.0,) * 9,) * 4)},
}
"""What baselines that learn are made with."""


@pytest.fixture(params=COPIES)
def duplicate(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return COPIES[request.param]


def test_a_scripted_model_goes_on_where_it_was(duplicate: Callable[[Any], Any]) -> None:
    chat = ScriptedChat(["one", "two"])
    chat.complete([REQUEST])
    twin = duplicate(chat)
    assert twin.complete([REQUEST]) == chat.complete([REQUEST])
    assert twin.meter.usage == chat.meter.usage
    assert twin.meter is not chat.meter


def test_a_simulated_model_answers_the_same(duplicate: Callable[[Any], Any]) -> None:
    chat = SimulatedChat(Catalog.load().simulated("qwen3-32b"))
    assert duplicate(chat).complete([REQUEST]) == chat.complete([REQUEST])


def test_a_catalogue_configures_the_same(duplicate: Callable[[Any], Any]) -> None:
    catalog = Catalog.load()
    twin = duplicate(catalog)
    assert twin.draw(3, instance="a") == catalog.draw(3, instance="a")
    assert duplicate(catalog.configure("evaluation")) == catalog.configure("evaluation")


def test_a_replayed_record_goes_on_where_it_was(duplicate: Callable[[Any], Any], tmp_path: Path) -> None:
    with RecordingChat(ScriptedChat(["one", "two"]), tmp_path / "record.jsonl") as recording:
        recording.complete([REQUEST, REQUEST])
    chat = ReplayChat(tmp_path / "record.jsonl")
    chat.complete([REQUEST])
    assert [answer.text for answer in duplicate(chat).complete([REQUEST])] == ["two"]


def test_a_client_connects_anew_when_it_is_used(duplicate: Callable[[Any], Any]) -> None:
    chat = OpenAIChat("http://127.0.0.1:1/v1", "m", max_retries=0, requests_per_minute=5)
    twin: Any = duplicate(chat)
    assert twin._client._session is None
    with chat, twin:
        with pytest.raises(ExpertError, match="expected a server"):
            twin.complete([REQUEST])
        assert twin._client._session is not None


def test_a_pickle_holds_the_name_of_a_keys_variable_and_not_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    with OpenAIChat("http://localhost:1/v1", "m", api_key_env="SOME_KEY") as chat:
        written = pickle.dumps(chat)
    assert b"sk-secret" not in written
    assert b"SOME_KEY" in written


def test_a_renderer_reads_and_writes_the_same(duplicate: Callable[[Any], Any]) -> None:
    renderer = CompactRenderer.build([], ["How much is the soup?"], {"dish": ["Smoked Duck"]})
    twin = duplicate(renderer)
    assert (twin.tokens, twin.kinds) == (renderer.tokens, renderer.kinds)
    assert twin.words("How much is the Smoked Duck?") == renderer.words("How much is the Smoked Duck?")


POLICIES: dict[str, tuple[str, dict[str, Any], Callable[[], Policy]]] = {
    "null": ("ToolOrchestra-Restaurant-v0", {}, NullPolicy),
    "random": ("ToolOrchestra-Restaurant-v0", {}, RandomPolicy),
    "oracle": ("ToolOrchestra-Restaurant-v0", {}, OraclePolicy),
    "noisy": ("ToolOrchestra-Restaurant-v0", {}, lambda: NoisyOraclePolicy(error=0.5)),
    "chat": ("ToolOrchestra-Restaurant-v0", {}, lambda: ChatPolicy(ScriptedChat(["Hm."] * 50))),
    "querying": ("ToolOrchestra-Restaurant-v0", {"tools": "full", "sandbox": "process"}, QueryingOraclePolicy),
    "explorer": ("ParaManager-Math-v0", {"sandbox": "process"}, ExplorerPolicy),
    "consensus": ("ParaManager-Math-v0", {"sandbox": "process"}, ConsensusPolicy),
    **{
        name: ("ParaManager-Math-v0", {"sandbox": "process"}, lambda name=name, kind=kind: kind(**LEARNT.get(name, {})))
        for name, kind in (REGISTERED | BASELINES).items()
        if issubclass(kind, Baseline)
    },
}


@pytest.mark.parametrize("name", POLICIES)
def test_an_unused_policy_can_be_copied(name: str, duplicate: Callable[[Any], Any]) -> None:
    _, _, make = POLICIES[name]
    assert first_actions(name, duplicate(make())) == first_actions(name, make())


def first_actions(name: str, policy: Policy) -> list[Any]:
    env_id, options, _ = POLICIES[name]
    env = gymnasium.make(env_id, **options)
    observation, info = env.reset(seed=5)
    policy.reset(env, observation, info)
    actions = []
    for _ in range(3):
        actions.append(policy.act(observation, info))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        if terminated or truncated:
            break
    return actions


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_plays_on_like_the_policy(name: str, kind: str) -> None:
    env_id, options, make = POLICIES[name]
    env, policy = gymnasium.make(env_id, **options), make()
    observation, info = env.reset(seed=5)
    policy.reset(env, observation, info)
    play: Any = env.unwrapped.play  # type: ignore[attr-defined]  # every environment of the library has it
    shared = [env.unwrapped, play.world, *play.tools.values()]
    for _ in range(10):
        twin = copy_beside(policy, shared, kind)
        action = policy.act(observation, info)
        assert twin.act(observation, info) == action
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break


def copy_beside(policy: Policy, shared: list[Any], kind: str) -> Policy:
    """Return a copy of a policy in the same environment: what is shared is not copied."""
    if kind == "deepcopy":
        return copy.deepcopy(policy, {id(one): one for one in shared})
    places = {id(one): place for place, one in enumerate(shared)}

    class Pickler(pickle.Pickler):
        def persistent_id(self, one: Any) -> int | None:
            return places.get(id(one))

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, place: int) -> Any:
            return shared[place]

    file = io.BytesIO()
    Pickler(file).dump(policy)
    file.seek(0)
    found: Policy = Unpickler(file).load()
    return found


def test_a_human_policy_can_be_copied(duplicate: Callable[[Any], Any]) -> None:
    assert isinstance(duplicate(HumanPolicy()), HumanPolicy)
