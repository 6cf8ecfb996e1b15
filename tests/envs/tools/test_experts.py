"""Experts as tools: right as often as their skill has it, in every role, at the configured price."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest
from msgspec import structs

from toolorchestra.agents.chat.base import ChatModel, ChatRequest, Completion, Price, ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import ExpertSpec
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.agents.problems import Problem
from toolorchestra.envs.ground_truth.given import Given
from toolorchestra.envs.ground_truth.tool_calls import problem_for
from toolorchestra.envs.tools.experts import ExpertTool, Repriced, tool_name
from toolorchestra.envs.tools.manual import manual
from toolorchestra.envs.tools.python import PythonTool
from toolorchestra.envs.tools.toolkit import Toolkit
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Call
from toolorchestra.toolscale.tools.tool import Status, ToolContext, ToolResult

CATALOG = Catalog.load()


def simulated(spec: ExpertSpec) -> ChatModel:
    return SimulatedChat(SimulatedExpert("ada", spec))


def scripted(*texts: str) -> Callable[[ExpertSpec], ChatModel]:
    chat = ScriptedChat(texts)
    return lambda spec: chat


def scene_of(env: Any, number: int = 1) -> ToolContext:
    play = env.unwrapped.play
    return ToolContext(play.session, play.task, play.world, play.episode, play.messages, play.tools, "", (), number)


@pytest.fixture
def env(make_env: Callable[..., Any]) -> Any:
    env = make_env()
    env.reset(seed=0)
    return env


@pytest.fixture(scope="module")
def maths() -> Iterator[Any]:
    env = gym.make("ToolOrchestra-Math-v0")
    env.reset(seed=0)
    yield env
    env.close()


def ask(tool: ExpertTool, context: ToolContext, question: str | None = None) -> ToolResult:
    """Ask a question, or show the request without one."""
    return tool.run({"question": question, "context": ["request"] if question is None else None}, context)


def whole(context: ToolContext) -> Problem:
    return problem_for(context, Given(request=context.task.instruction))


@pytest.mark.parametrize("skill", [0.5, 0.9])
def test_a_proposal_is_right_as_often_as_skill_and_difficulty_allow(
    make_env: Callable[..., Any], mini: Domain, skill: float
) -> None:
    spec = structs.replace(CATALOG.spec("gpt-5"), skills={"other": skill}, own_noise=0.0)
    tool = ExpertTool(
        "generalist", "ada", spec, lambda spec: SimulatedChat(SimulatedExpert("ada", spec, shared_noise=0))
    )
    env = make_env()
    right = 0
    wanted = variance = 0.0
    for task in mini.tasks():
        env.reset(options={"task_id": task.id})
        for number in range(40):
            context = scene_of(env, number)
            problem = whole(context)
            chance = SimulatedExpert("ada", spec).chance(problem, 0)
            wanted += chance
            variance += chance * (1 - chance)
            value = ask(tool, context).value
            action = write_calls([Call(**value["call"])]) if "call" in value else value["answer"]
            right += action == problem.steps[0].answer
    assert abs(right - wanted) < 3 * variance**0.5


def test_harder_tasks_are_harder(make_env: Callable[..., Any], mini: Domain) -> None:
    env = make_env()
    expert = CATALOG.simulated("qwen3-32b")
    chances: dict[int, set[float]] = {}
    for task in mini.tasks():
        env.reset(options={"task_id": task.id})
        chances.setdefault(task.difficulty, set()).add(round(expert.chance(whole(scene_of(env)), 0), 6))
    assert all(len(found) == 1 for found in chances.values())
    ordered = [chances[level] for level in sorted(chances)]
    assert ordered == sorted(ordered, key=min, reverse=True)
    assert len(ordered) > 2


def test_the_call_in_a_reply_is_the_proposal(env: Any) -> None:
    text = 'First look.\n<tool_call>{"name": "get_order", "arguments": {"order_id": "O001"}}</tool_call>'
    tool = ExpertTool(
        "math", "ada", CATALOG.spec("gpt-5"), scripted(text, "<answer>All done.</answer>", "No idea"), 9.0
    )
    assert ask(tool, scene_of(env)).value == {"call": {"name": "get_order", "arguments": {"order_id": "O001"}}}
    assert ask(tool, scene_of(env)).value == {"answer": "All done."}
    assert ask(tool, scene_of(env)).value == {"answer": "No idea"}


def test_a_call_in_an_answer_to_a_question_is_no_call(maths: Any) -> None:
    text = '<answer><tool_call>{"name": "calculator", "arguments": {}}</tool_call></answer>'
    tool = ExpertTool("generalist", "ada", CATALOG.spec("gpt-5"), scripted(text), 9.0)
    assert set(ask(tool, scene_of(maths)).value) == {"answer"}


class NoPython(PythonTool):
    """Python in which every program fails."""

    def run(self, arguments: dict[str, Any], session: Any) -> ToolResult:
        return ToolResult.failed("ZeroDivisionError")


def test_programs_that_fail_for_good_are_an_error(maths: Any) -> None:
    context = structs.replace(scene_of(maths), tools={"python": NoPython("process")})
    programs = ("<code>\n1 / 0\n</code>", "<code>\n2 / 0\n</code>")
    tool = ExpertTool("code", "ada", CATALOG.spec("gpt-5"), scripted(*programs), 9.0)
    result = ask(tool, context)
    assert (result.status, result.value) == (Status.EXEC_ERR, None)
    assert "ZeroDivisionError" in str(result.error)
    assert [child.name for child in result.children] == ["scripted", "python", "scripted", "python"]


def test_a_question_of_its_own_costs_fewer_steps(maths: Any) -> None:
    maths.reset(seed=0, options={"difficulty": 4})
    tool = ExpertTool("math", "ada", CATALOG.spec("qwen2.5-math-7b"), simulated)
    first = maths.unwrapped.task.bindings["parts"][0]["question"]
    whole, part = ask(tool, scene_of(maths)), ask(tool, scene_of(maths), first)
    assert part.tokens[1] < whole.tokens[1]
    assert whole.seconds > part.seconds


def test_a_tool_configuration_sets_the_price_of_an_expert(env: Any) -> None:
    spec = CATALOG.spec("gpt-5")
    tool = ExpertTool("generalist", "gpt-5", spec, simulated)
    dear = tool.at(structs.replace(spec, price=Price(2.5, 20.0)))
    assert dear.mean_price == pytest.approx(2 * tool.mean_price)
    assert "$20 per million" in dear.description
    assert "$20 per million" not in tool.description
    assert ask(dear, scene_of(env)).cost == pytest.approx(2 * ask(tool, scene_of(env)).cost)


def test_a_real_model_costs_what_the_tool_configuration_says() -> None:
    chat = ScriptedChat([Completion("four", prompt_tokens=1_000_000, completion_tokens=500_000, cost=9.0)])
    priced = Repriced(chat, structs.replace(CATALOG.spec("gpt-5"), price=Price(2.0, 4.0)))
    assert priced.complete([ChatRequest([{"role": "user", "content": "2 + 2?"}])])[0].cost == 4.0
    assert priced.meter.usage.cost == 9.0
    assert priced.name == "scripted"


def test_typical_calls_have_a_price_and_a_time(mini: Domain) -> None:
    kit = Toolkit()
    tools = kit.tools(mini, "full", kit.configure("evaluation", 0, ""))
    large, small = tools["ask_gpt_5"], tools["ask_gpt_5_mini"]
    assert large.mean_price > small.mean_price > tools["python"].mean_price == 0
    assert (large.mean_latency, tools["code_gpt_5"].mean_latency) == (96, 31)
    assert (large.price, large.latency) == (0.0, 0.0)


def test_names_are_those_of_tools() -> None:
    assert tool_name("generalist", "gpt-5") == "ask_gpt_5"
    assert tool_name("query", "qwen3-30b-2507") == "query_qwen3_30b_2507"
    kit = Toolkit()
    for name in ("evaluation", "training", "random"):
        assert kit.pool(name)[:3] == ("web_search", "local_search", "python")
        assert len(set(kit.pool(name))) == len(kit.pool(name))
    assert set(kit.pool("random")) == set(kit.pool("training"))


def test_a_manual_describes_tools_and_tables_but_no_record(mini: Domain) -> None:
    passages = manual(mini)
    ids = [passage.id for passage in passages]
    assert len(set(ids)) == len(ids) == 1 + len(mini.tools) + len(mini.spec.tables)
    text = " ".join(passage.text for passage in passages)
    assert mini.rules in text
    names = {row[0] for row in mini.database.base.execute("SELECT name FROM customers")}
    assert names
    assert not any(name in text for name in names)
