from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

from toolorchestra.agents.policies.base import play_episode, write_calls
from toolorchestra.agents.policies.human import HumanPolicy
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.registration import make_multiagent
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld, make_question
from toolorchestra.envs.task_source import FileSource
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import builtin_domains
from toolorchestra.toolscale.tasks.answer_slots import SlotTable
from toolorchestra.toolscale.tools.tool import Tool, ToolContext, ToolResult


@pytest.fixture
def make(mini_folder: Path) -> Callable[..., Any]:
    """Make an environment of the mini domain whose answers are typed."""

    def made(protocol: str = "ToolOrchestra", **options: Any) -> Any:
        return gym.make(f"{protocol}-Custom-v0", domain=mini_folder, answer="typed", **options).unwrapped

    return made


def with_facts(env: Any) -> str:
    """Return the id of a task that communicates something and changes nothing."""
    return next(task.id for task in env.source.tasks("all") if task.intent == "ask_price")


def submit(answer: Any, **more: Any) -> dict[str, Any]:
    return {"name": "submit", "arguments": {"answer": answer, **more}}


def test_the_request_ends_with_its_slots_and_one_schema_is_the_same_for_all(make: Callable[..., Any]) -> None:
    env = make()
    schemas = set()
    for task in env.source.tasks("all"):
        observation, info = env.reset(options={"task_id": task.id})
        slots = ", ".join(map(str, info["slots"]))
        assert observation.endswith(f"{task.instruction}\n\nThe slots of the answer: {slots}")
        assert info["messages"][-1]["content"].endswith(slots)
        assert "call submit" in env.episode.prompt
        schemas.add(json.dumps(info["tools"][-1]))
    (schema,) = schemas
    function = json.loads(schema)["function"]
    assert (function["name"], function["parameters"]["required"]) == ("submit", ["answer"])
    assert function["parameters"]["properties"]["answer"]["type"] == "object"


def test_where_answers_are_prose_nothing_is_said_of_slots(mini_folder: Path) -> None:
    env: Any = gym.make("ToolOrchestra-Custom-v0", domain=mini_folder, answer="text").unwrapped
    observation, info = env.reset(seed=0)
    assert observation.endswith(env.task.instruction)
    assert "slots" not in info
    assert "submit" not in env.episode.tools
    assert env.right_answer(env.task) == env.task.answer


@pytest.mark.parametrize("tools", ["domain", "full", "none", ("get_order",)])
def test_submit_is_there_whatever_the_tools(make: Callable[..., Any], tools: Any) -> None:
    env = make(tools=tools)
    _, info = env.reset(options={"task_id": with_facts(env)})
    assert "submit" not in info["tool_names"]  # it is no tool of M
    assert [tool["function"]["name"] for tool in info["tools"]].count("submit") == 1
    assert env.step([submit({"price": 0})])[4]["outcome"] == "failed"


@pytest.mark.parametrize("protocol", ["ToolOrchestra", "ParaManager"])
def test_the_oracle_gives_the_typed_answer_of_every_task(make: Callable[..., Any], protocol: str) -> None:
    env, oracle = make(protocol), make_policy("oracle")
    for task in env.source.tasks("all"):
        info = play_episode(env, oracle, options={"task_id": task.id})
        assert info["outcome"] == "solved", (task.id, info["verdict"])


def test_submit_beside_other_calls_runs_last(make: Callable[..., Any]) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    (call,) = env.task.reference_calls
    right = json.loads(env.right_answer(env.task))["answer"]
    _, reward, terminated, _, info = env.step(
        [submit(right, message="Here you are."), {"name": call.name, "arguments": call.arguments}]
    )
    assert (reward, terminated, info["verdict"]) == (1.0, True, "solved")
    assert [(one.name, one.status) for one in info["calls"]] == [(call.name, "OK"), ("submit", "OK")]
    assert info["calls"][-1].arguments == {"answer": right, "message": "Here you are."}
    asked = env.episode.turns[-1].message["tool_calls"]
    assert [(one["function"]["name"], one["id"]) for one in asked] == [(one.name, one.id) for one in info["calls"]]


def test_a_message_without_a_call_is_answered_once_and_then_ends_the_episode(make: Callable[..., Any]) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    observation, reward, terminated, _, _ = env.step(env.task.answer)
    assert (reward, terminated) == (0.0, False)
    assert "Call submit with your answer" in observation
    (call,) = env.task.reference_calls
    env.step([{"name": call.name, "arguments": call.arguments}])
    snapshot = env.snapshot()
    assert env.step(env.task.answer)[2] is False  # another call came between
    _, reward, terminated, truncated, info = env.step(env.task.answer)
    assert (reward, terminated, truncated, info["outcome"]) == (0.0, True, False, "failed")
    assert info["verdict"] == "two messages without a call, the answer is given with submit"
    env.restore(snapshot)
    assert env.step(env.final(env.right_answer(env.task)))[4]["outcome"] == "solved"


@pytest.mark.parametrize(
    ("calls", "error"),
    [
        ([{"name": "submit", "arguments": {}}], "missing required field `answer`"),
        ([{"name": "submit", "arguments": {"answer": 12}}], "Expected `object`, got `int`"),
        ([submit({"price": 1}, note="or 2")], "unknown field `note`"),
        ([submit({"price": 1}), submit({"price": 2})], "submit stands more than once in this message"),
    ],
)
def test_a_submit_that_is_none_can_be_made_good(make: Callable[..., Any], calls: Any, error: str) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    observation, _, terminated, _, info = env.step(calls)
    assert not terminated
    assert [call.status for call in info["calls"]] == ["PARSE_ERR"] * len(calls)
    assert error in observation


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"answer": {}}', "the slot 'price' is missing"),
        ('{"answer": {"price": 1, "total": 2}}', "there is no slot 'total', only price"),
        ('{"answer": {"price": 1, "price": 17.5}}', "the slot 'price' stands there 2 times"),
        ('{"answer": {"price": "17.5 or 18"}}', "the slot 'price' has \"17.5 or 18\", expected 11"),
        ('{"answer": {"price": null}}', "the slot 'price' has null, expected 11"),
        ('{"answer": {"price": [11, 12]}}', "the slot 'price' has [11, 12], expected 11"),
    ],
)
def test_what_is_wrong_is_said_of_its_slot(make: Callable[..., Any], arguments: str, why: str) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    info = env.step(f'<tool_call>{{"name": "submit", "arguments": {arguments}}}</tool_call>')[4]
    assert info["outcome"] == "failed"
    assert f"fidelity: {why}" in info["verdict"]


@pytest.mark.parametrize("text", ["\ud800", "[" * 9000, "x" * 100_000, '{"answer": {"price": ' + "[" * 9000])
def test_hostile_answers_are_never_errors_of_the_judge(make: Callable[..., Any], text: str) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    for action in (text, f'<tool_call>{{"name": "submit", "arguments": {text}}}</tool_call>', [submit({text: text})]):
        if not env.play.over:
            env.step(action)
    assert env.episode.outcome in ("failed", None)
    msgspec.json.encode(env.episode)


def test_copies_of_the_environment_have_the_same_slots(make: Callable[..., Any]) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    others = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    assert [other.play.typed for other in others] == [env.play.typed] * 2
    assert [other.reset(seed=3)[0] for other in others] == [env.reset(seed=3)[0]] * 2


def test_the_checks_of_an_environment_pass_with_typed_answers(quick_folder: Path) -> None:
    checks = ("oracle", "null", "random", "hostile", "determinism", "snapshot")
    report = check_environment("ToolOrchestra-Custom-v0", checks=checks, domain=quick_folder, answer="typed")
    assert report, str(report)


def test_a_random_policy_fills_all_slots(make: Callable[..., Any]) -> None:
    env, policy = make(), make_policy("random", seed=1)
    for number in range(20):
        play_episode(env, policy, seed=number, options={"task_id": with_facts(env)})
        assert "missing" not in env.episode.why


def test_an_answer_in_prose_of_a_policy_that_knows_no_slots_is_wrong(make: Callable[..., Any]) -> None:
    env = make()
    env.reset(options={"task_id": with_facts(env)})
    assert "the slot 'price' is missing" in env.step(env.final("It is 11."))[4]["verdict"]


def test_a_person_is_asked_slot_by_slot(make: Callable[..., Any]) -> None:
    env = make()
    _, info = env.reset(options={"task_id": with_facts(env)})
    (call,) = env.task.reference_calls
    entered = iter([f"{call.name} {call.arguments['order_id']}", "answer Here you are.", "11"])
    asked = []

    def read(prompt: str) -> str:
        asked.append(prompt)
        return next(entered)

    person = HumanPolicy(read=read, show=lambda text: None)
    assert play_episode(env, person, options={"task_id": env.task.id})["outcome"] == "solved"
    assert asked == ["> ", "> ", f"{info['slots'][0]}: "]
    assert [*env.episode.calls][-1].arguments["message"] == "Here you are."


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("ToolOrchestra-Math-v0", {"tools": "none"}),
        ("ParaManager-MultiHopQA-v0", {}),
        ("MASOrchestra-High-Custom-v0", {"domain": "restaurant"}),
    ],
)
def test_where_nothing_but_a_text_answers_there_is_no_submit(env_id: str, options: dict[str, Any]) -> None:
    env: Any = gym.make(env_id, answer="typed", **options).unwrapped
    _, info = env.reset(seed=0)
    assert "slots" not in info
    assert "submit" not in env.episode.tools
    assert env.right_answer(env.task) == env.task.answer


def question(source: str = "Math", **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return an environment of questions with its first episode begun, and the info of its reset."""
    env: Any = gym.make(f"ToolOrchestra-{source}-v0", **options).unwrapped
    _, info = env.reset(seed=1)
    return env, info


@pytest.mark.parametrize("source", ["Math", "MultiHopQA", "MASBenchDepth"])
@pytest.mark.parametrize("tools", ["domain", "full"])
def test_to_questions_submit_takes_a_text(source: str, tools: str) -> None:
    env, info = question(source, tools=tools, **({"sandbox": "simulated"} if tools == "full" else {}))
    *_, submit_schema = (tool["function"] for tool in info["tools"])
    assert (submit_schema["name"], submit_schema["parameters"]["required"]) == ("submit", ["answer"])
    assert submit_schema["parameters"]["properties"]["answer"]["type"] == "string"
    assert "slots" not in info
    assert "submit" not in info["tool_names"]
    *_, info = env.step([submit(env.task.communicate[0][0], message="As you wished.")])
    assert (info["outcome"], len(info["M"])) == ("solved", len(info["tool_names"]) + 3)


def test_without_the_call_submit_questions_are_as_before() -> None:
    env, info = question(answer="text")
    assert [tool["function"]["name"] for tool in info["tools"]] == list(info["tool_names"])
    assert "Unknown tool 'submit'" in env.step([submit("1")])[0]
    assert env.step(env.task.answer)[1] == 1.0


@pytest.mark.parametrize("form", ["{}", r"\boxed{{{}}}", r" \boxed{{{}}} \boxed{{{}}} "])
def test_a_submitted_text_is_judged_like_the_content_of_a_box(form: str) -> None:
    env, _ = question()
    right = env.task.communicate[0][0]
    _, reward, terminated, _, info = env.step([submit(form.format(right, right))])
    assert (reward, terminated, info["outcome"]) == (1.0, True, "solved")
    assert f"\\boxed{{{right}}}" in env.episode.answer


@pytest.mark.parametrize(
    "form",
    [
        "{} or 1234",
        "not {}",
        "at least {}",
        "{}?",
        "It is {}.",
        r"\text{{not }} {}",
        r"\boxed{{{}}} \boxed{{1234}}",
        r"It may be \boxed{{{}}}",
        "<answer>{}</answer> or 1234",
        "{}}} or 1234 \\boxed{{{}",
        "{}</answer> or 1234 <answer>{}",
        "1234",
        "",
        "…",
        "x" * 32_000,
    ],
)
def test_a_submitted_text_counts_as_a_whole(form: str) -> None:
    env, _ = question()
    right = env.task.communicate[0][0]
    _, reward, terminated, _, info = env.step([submit(form.format(right, right))])
    assert (reward, terminated, info["outcome"]) == (0.0, True, "failed")
    assert info["verdict"].startswith("answer: ")


@pytest.mark.parametrize(("one", "between"), [("{}", ", "), (r"\boxed{{{}}}", " ")])
def test_several_answers_are_submitted_in_one_text(one: str, between: str) -> None:
    env, _ = question("MASBenchParallel")
    wanted = [accepted[0] for accepted in env.task.communicate]
    assert len(wanted) > 1
    assert env.step([submit(between.join(map(one.format, wanted)))])[1] == 1.0


def test_a_text_submitted_beside_other_calls_runs_last() -> None:
    env, _ = question()
    calculator = {"name": "calculator", "arguments": {"expression": "2 + 2"}}
    _, reward, _, _, info = env.step([submit(env.task.communicate[0][0]), calculator])
    assert [call.name for call in info["calls"]] == ["calculator", "submit"]
    assert reward == 1.0


@pytest.mark.parametrize(
    ("calls", "error"),
    [
        ([{"name": "submit", "arguments": {}}], "submit needs the argument 'answer'"),
        ([submit(12)], "Argument 'answer' of submit"),
        ([submit({"value": "12"})], "Argument 'answer' of submit"),
        ([submit(["12", "13"])], "Argument 'answer' of submit"),
        ([submit("x" * 40_000)], "Argument 'answer' of submit"),
        ([submit("12", note="or 2")], "'note'"),
        ([submit("12"), submit("13")], "submit stands more than once in this message"),
    ],
)
def test_a_submit_that_is_no_text_can_be_made_good(calls: Any, error: str) -> None:
    env, _ = question()
    observation, _, terminated, _, info = env.step(calls)
    assert not terminated
    assert [call.status for call in info["calls"]] == ["PARSE_ERR"] * len(calls)
    assert error in observation
    assert env.step([submit(env.task.communicate[0][0])])[1] == 1.0


class _Submit(Tool):
    """A tool of a world's own that is called like the call that answers."""

    def __init__(self) -> None:
        super().__init__("submit", "Hand in a form.", {"answer": ParameterSpec(type="string", description="a form")})

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult.ok("handed in")


def test_a_tool_of_that_name_is_refused_or_a_tool_as_any_other() -> None:
    task = make_question(id="q/a/0", domain="q", intent="a", split="train", difficulty=1, question="?", answers=["4"])
    source = QuestionSource("q", QuestionWorld("q", "", [_Submit()]), [task])
    with pytest.raises(OptionError, match="rename it, or give answer='text'"):
        gym.make("ToolOrchestra-Custom-v0", source=source).reset()
    env: Any = gym.make("ToolOrchestra-Custom-v0", source=source, answer="text").unwrapped
    env.reset()
    assert not env.step([submit("4")])[2]
    assert env.step(env.final("4"))[1] == 1.0


def test_a_file_of_tasks_has_the_slots_of_their_domain_and_of_its_own_branches(mini: Domain, tmp_path: Path) -> None:
    task = next(task for task in mini.tasks() if task.intent == "ask_price")
    other = msgspec.structs.replace(task, id="mini/ask_price/900", communicate=(("11",), ("O013",)))
    (tmp_path / "tasks.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, (task, other))))
    source = FileSource(tmp_path / "tasks.jsonl", mini)
    env: Any = gym.make("ToolOrchestra-Custom-v0", source=source).unwrapped
    slots = [env.reset(options={"task_id": one.id})[1]["slots"] for one in (task, other)]
    assert slots[0] == slots[1] != mini.slots.of(task).slots  # the number of slots tells nothing
    assert len(slots[0]) == 2


def test_the_slots_of_a_task_do_not_depend_on_which_came_before_it(mini: Domain) -> None:
    task = next(task for task in mini.tasks() if task.intent == "ask_price")
    other = msgspec.structs.replace(task, id="mini/ask_price/900", communicate=(("11",), ("O013",)))
    before = mini.slots.of(task)
    assert len(mini.slots.of(other).slots) == 2
    assert mini.slots.of(task) == before
    assert SlotTable([], mini.verifier.results, lambda task: ()).of(other).slots


def test_another_value_of_the_option_is_refused(mini_folder: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'typed'"):
        gym.make("ToolOrchestra-Custom-v0", domain=mini_folder, answer="type")


def test_agents_of_several_are_told_the_slots_and_may_answer_by_them() -> None:
    env = make_multiagent("TMATR-Custom-v0", domain="weather", python="simulated", answer="typed", roles="single")
    task = next(
        task for task in env.source.tasks("all") if [call.name for call in task.reference_calls] == ["get_station"]
    )
    env.reset(seed=0, options={"task_id": task.id})
    assert 'The answer is one JSON object {"answer": {slot: value, …}}' in env.observe("solver")
    assert "slots" in env.infos["solver"]
    call = task.reference_calls[0]
    for message in (
        "<ACTION>call_tool</ACTION><GOAL>Look it up.</GOAL>",
        f"<REASON>It shows it.</REASON><SELECTED_TOOL>{call.name}</SELECTED_TOOL>",
        f"<TOOL_INPUT>{call.arguments['station']}</TOOL_INPUT>",
        "<ACTION>text_reasoning</ACTION><GOAL>Answer.</GOAL>",
        "<REASONING_STEPS>\nStep 1: Answer.\n</REASONING_STEPS>",
        rf"<THINK>Step 1: Done.</THINK><ANSWER>\boxed{{{env.right_answer(task)}}}</ANSWER>",
    ):
        env.step(message)
    assert env.episode.outcome == "solved", env.episode.why


def attacks(right: dict[str, Any], other: dict[str, Any], outcomes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield wrong answers, made of the right one and of that of another task of the intent."""
    for outcome in outcomes:
        yield {**right, "outcome": outcome}
    yield other
    yield {**right, "more": 1}
    for name in [name for name in right if name != "outcome"][:1]:
        value, rival = right[name], other.get(name)
        yield {key: kept for key, kept in right.items() if key != name}
        for wrong in (
            rival,
            None,
            f"not {value}",
            f"at least {value}",
            f"{value} or {rival}",
            [value, rival],
            f"{value}x",
        ):
            yield {**right, name: wrong}


@pytest.mark.parametrize("name", builtin_domains())
def test_wrong_values_earn_nothing_although_everything_was_done(name: str) -> None:
    env: Any = gym.make(f"ToolOrchestra-{name.title()}-v0", answer="typed").unwrapped
    tasks = env.source.tasks("all")
    tries, paid = 0, []
    for task in random.Random(name).sample(tasks, 40):
        right = json.loads(env.right_answer(task))["answer"]
        like = (one for one in tasks if one.intent == task.intent)
        other = json.loads(env.right_answer(next((one for one in like if one.id != task.id), task)))["answer"]
        env.reset(options={"task_id": task.id})
        outcomes = next((slot.options for slot in env.play.typed.slots if slot.name == "outcome"), ())
        env.step(write_calls(task.whole_path))
        done = env.snapshot()
        for wrong in attacks(right, other, outcomes):
            if wrong != right:
                env.restore(done)
                tries += 1
                paid += [(task.id, wrong)] if env.step([submit(wrong)])[1] else []
        env.restore(done)
        assert env.step([submit(right)])[1] == 1.0, task.id
    assert tries > 200
    assert len(paid) <= 0.005 * tries, paid
