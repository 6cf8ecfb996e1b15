"""The rules of a world stand in every prompt that leaves for an expert or a sub-agent, under every protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.agents.builtin.design_renderer import ROLES
from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.specification import Role
from toolorchestra.envs.masorchestra.design import Agent, Design, to_text
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.toolscale.tools.tool import ToolContext

pytestmark = pytest.mark.filterwarnings("ignore:ProcessSandbox does not isolate")  # it runs 1 / 0 only
MODULUS, UNDEFINED = "All arithmetic is modulo 23", "What no statement defines is 0."


def speak(request: ChatRequest) -> str:
    """Write what the roles write, so that all of their requests are made."""
    system = str(request.messages[0]["content"])
    if "by programming" in system:
        return "<code>\n1 / 0\n</code>"
    if "Write what to search for" in system or "what to search for next" in system:
        return "<query>\nthe calculator\n</query>"
    if "You criticise" in system:
        return "<correct>False</correct>\n<answer>\n\\boxed{4}\n</answer>"
    return f"<answer>\n\\boxed{{{len(asked(request)) % 7}}}\n</answer>"


def asked(request: ChatRequest) -> str:
    return "\n".join(str(message["content"]) for message in request.messages)


@pytest.fixture
def model() -> ScriptedChat:
    return ScriptedChat(speak, name="ada")


def assert_told(model: ScriptedChat, *texts: str, least: int = 1) -> None:
    assert len(model.requests) >= least
    for request in model.requests:
        for text in texts:
            assert text in asked(request)
        assert request.ground_truth is None


def test_sub_agents_of_paramanager_are_told_the_rules_with_a_subtask_and_without(model: ScriptedChat) -> None:
    env = gym.make("ParaManager-MASBenchDepth-v0", experts={"ada": model}, sandbox="process", max_calls=5)
    env.reset(seed=0)
    roles = ("standard_reasoner", "critical_reviewer", "knowledge_searcher", "code_reasoner")
    for arguments in ({"subtask": "How many Galley Nooks does Ketch have?"}, {}):
        env.step([{"name": role, "arguments": arguments} for role in roles])
    env.step([{"name": name, "arguments": {}} for name in ("ensemble_solver", "final_answer")])
    assert_told(model, MODULUS, UNDEFINED, least=17)
    env.close()


def test_sub_agents_of_paramanager_are_told_the_house_rules_and_tools_of_a_domain(model: ScriptedChat) -> None:
    env: Any = gym.make("ParaManager-Restaurant-v0", experts={"ada": model}, sandbox="process")
    env.reset(seed=0)
    env.step([{"name": "standard_reasoner", "arguments": {"subtask": "Which call looks up the order of Edgar?"}}])
    assert_told(model, env.unwrapped.play.world.rules, '"name":"get_order"', "<tool_call>")
    assert env.unwrapped.play.task.instruction not in asked(model.requests[0])  # no more than is needed
    env.close()


def test_agents_of_a_design_are_told_the_rules_though_they_read_nothing_but_their_input(model: ScriptedChat) -> None:
    env = gym.make("MASOrchestra-High-MASBenchDepth-v0", model=model)
    env.reset(seed=0)
    kinds = ("CoTAgent", "SCAgent", "ReflexionAgent", "DebateAgent")
    agents = [
        Agent(f"A{number}", kind, "How many Galley Nooks does Ketch have?", "", ROLES if kind == "DebateAgent" else ())
        for number, kind in enumerate(kinds)
    ]
    references = ", ".join(f"${{{agent.id}}}" for agent in agents)
    agents.append(Agent("Z", "CoTAgent", f"Compare {references}.", ""))
    edges = tuple((agent.id, "Z") for agent in agents[:-1])
    env.step(to_text(Design(dom="high", thinking="All kinds.", agents=tuple(agents), edges=edges)))
    assert_told(model, MODULUS, UNDEFINED, least=12)
    env.close()


@pytest.mark.parametrize("role", ["generalist", "math", "code", "query"])
@pytest.mark.parametrize("question", [None, "How many Galley Nooks does Ketch have?"])
def test_experts_are_told_the_rules(model: ScriptedChat, role: Role, question: str | None) -> None:
    env: Any = gym.make("ToolOrchestra-MASBenchDepth-v0", tools="basic", sandbox="process")
    env.reset(seed=0)
    play = env.unwrapped.play
    tool = ExpertTool(role, "ada", Catalog.load().spec("gpt-5"), lambda spec: model, 9.0)
    context = ToolContext(play.session, play.task, play.world, play.episode, play.messages, play.tools)
    tool.run({"question": question, "context": None}, context)
    assert_told(model, MODULUS, UNDEFINED)
    env.close()


@pytest.fixture
def several() -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(env_id: str, **options: Any) -> Any:
        made.append(make_multiagent(env_id, **options))
        made[-1].reset(seed=0)
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.mark.parametrize(
    ("env_id", "agents"), [("TMATR-Math-v0", ("planner", "inferencer")), ("MSARL-Math-v0", ("reasoner",))]
)
def test_agents_that_see_the_question_are_told_the_rules(
    several: Callable[..., Any], env_id: str, agents: tuple[str, ...]
) -> None:
    env = several(env_id, python="simulated")
    for agent in agents:
        assert env.play.world.rules in env.infos[agent]["messages"][0]["content"]
