"""Sub-agents as tools: what they are asked, by whom, and what is booked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.envs.paramanager.tools import ROLES, UNITS, conclusions
from toolorchestra.envs.sources.questions import QuestionSource
from toolorchestra.envs.tools.python import PythonTool
from toolorchestra.toolscale.tools.tool import ToolContext, ToolResult

Make = Callable[..., Any]
Say = Callable[..., str]
Scripted = Callable[..., ScriptedChat]


def prompt_of(model: ScriptedChat, number: int = -1) -> str:
    return str(model.requests[number].messages[-1]["content"])


def test_the_table_is_the_paper_s() -> None:
    assert UNITS == {
        "standard_reasoner": 1,
        "critical_reviewer": 1,
        "knowledge_searcher": 1,
        "code_reasoner": 1,
        "ensemble_solver": 4,
        "final_answer": 1,
    }
    assert list(ROLES) == list(UNITS)


def test_parameters_are_a_subtask_and_a_model_of_the_pool(make_env: Make) -> None:
    env = make_env()
    _, info = env.reset(seed=0)
    schemas = {schema["function"]["name"]: schema["function"]["parameters"] for schema in info["tools"]}
    assert list(schemas) == [
        "standard_reasoner", "critical_reviewer", "knowledge_searcher", "code_reasoner", "local_search", "python",
        "ensemble_solver", "final_answer",
    ]  # fmt: skip
    for name in list(schemas)[:4]:
        assert list(schemas[name]["properties"]) == ["subtask", "model_id"]
        assert schemas[name]["properties"]["model_id"]["enum"] == ["gpt-oss-20b", "qwen3-30b-2507", "qwen3-coder-30b"]
        assert schemas[name]["properties"]["model_id"]["default"] == "gpt-oss-20b"
        assert schemas[name]["required"] == []
    assert schemas["ensemble_solver"]["properties"] == schemas["final_answer"]["properties"] == {}
    assert schemas["local_search"]["required"] == ["query_list"]
    assert schemas["python"]["required"] == ["code"]


def test_a_subtask_is_asked_of_the_model_named_and_the_problem_of_the_default(
    make_env: Make, say: Say, scripted: Scripted
) -> None:
    ada, bob = scripted("ada"), scripted("bob")
    env = make_env(experts={"ada": ada, "bob": bob})
    env.reset(seed=0, options={"task_id": "sums/3"})
    env.step(say("standard_reasoner", ("standard_reasoner", {"subtask": "What is 3 + 3?", "model_id": "bob"})))
    assert "Add 3 to 3 and double the sum." in prompt_of(ada)
    assert "Whole numbers." in prompt_of(ada)
    assert "What is 3 + 3?" in prompt_of(bob)
    assert "double" not in prompt_of(bob)
    assert [request.temperature for request in (*ada.requests, *bob.requests)] == [1.0, 1.0]


def test_a_subtask_beside_the_problem_is_no_answer_to_it(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    subtasks = ("What is the weather in Paris?", "Sing a song.", "Who painted the Mona Lisa?")
    *_, info = env.step(say(*(("standard_reasoner", {"subtask": subtask}) for subtask in subtasks)))
    right = env.unwrapped.task.communicate[0][0]
    for call in info["calls"]:
        assert call.cost > 0
        assert right not in call.value
    play = env.unwrapped.play
    assert conclusions(ToolContext(None, play.task, play.world, play.episode, play.messages, play.tools)) == ()


def test_only_the_reviewer_and_the_summariser_see_the_history(make_env: Make, say: Say, scripted: Scripted) -> None:
    ada = scripted("ada", r"<reasoning>Six.</reasoning><answer>\boxed{6}</answer>")
    env = make_env(experts={"ada": ada})
    env.reset(seed=0)
    shown = []
    for calls, thought in (
        (["standard_reasoner"], "Let us see."),
        (["standard_reasoner"], ""),
        (["critical_reviewer"], ""),
        (["ensemble_solver", "final_answer"], "Enough."),
    ):
        before = len(ada.requests)
        env.step(say(*calls, thought=thought))
        shown.append(["Let us see." in prompt_of(ada, number) for number in range(before, len(ada.requests))])
    assert shown == [[False], [False], [True], [*[False] * 4, True]]
    summary = prompt_of(ada)
    assert summary.index("Let us see.") < summary.index("Six.") < summary.index("Enough.") < summary.index("ensemble_s")
    assert summary.count("Votes of 4") == 1  # what came in its own round


def test_real_models_never_see_the_truth(make_env: Make, say: Say, scripted: Scripted) -> None:
    ada = scripted("ada")
    env = make_env(experts={"ada": ada})
    env.reset(seed=0)
    env.step(say(*ROLES))
    assert ada.requests
    assert all(request.ground_truth is None for request in ada.requests)


def test_inner_calls_are_children_and_their_costs_the_call_s(make_env: Make, say: Say) -> None:
    env = make_env()
    env.reset(seed=0)
    *_, info = env.step(say("ensemble_solver", "code_reasoner", "knowledge_searcher", "critical_reviewer"))
    ensemble, code, searcher, reviewer = info["calls"]
    assert [child.name for child in ensemble.children] == ["gpt-oss-20b"] * 4
    assert {child.start for child in ensemble.children} == {0.0}
    assert "python" in [child.name for child in code.children]
    assert [child.name for child in reviewer.children] == ["gpt-oss-20b"]
    assert searcher.children[0].name == "gpt-oss-20b"
    for call in info["calls"]:
        assert call.cost == pytest.approx(sum(child.cost for child in call.children))
        assert call.end - call.start == pytest.approx(max(child.end for child in call.children))
        assert call.tokens[0] == sum(child.tokens[0] for child in call.children)


def test_two_calls_of_a_round_are_two_samples_and_a_seed_repeats_them(make_env: Make, say: Say) -> None:
    env = make_env()
    samples = []
    for seed in (1, 1, 2):
        env.reset(seed=seed, options={"task_id": "sums/3"})
        *_, info = env.step(say("standard_reasoner", "standard_reasoner"))
        samples.append([call.tokens for call in info["calls"]])
    assert samples[0] == samples[1] != samples[2]
    assert samples[0][0] != samples[0][1]


def test_the_orchestrator_s_own_conclusion_is_one_vote(make_env: Make, say: Say) -> None:
    """Eq. 7: the summariser writes the answer from the history, of which the last reasoning is a part."""
    env = make_env()
    env.reset(seed=0, options={"task_id": "sums/3"})
    env.step(say("ensemble_solver", "critical_reviewer"))
    env.step(say("final_answer", thought=r"So \boxed{99}."))
    assert env.episode.answer == r"\boxed{12}"  # two to one
    assert "99 (1 times)" in env.episode.turns[-1].calls[0].value
    assert "is one vote" in env.play.messages[0]["content"]
    env.reset(seed=0, options={"task_id": "sums/3"})
    env.step(say("final_answer", thought=r"So \boxed{99}."))
    assert env.episode.answer == r"\boxed{99}"  # nothing else is in the history


def test_the_summariser_follows_the_orchestrator_s_own_conclusion_if_that_is_final(make_env: Make, say: Say) -> None:
    env = make_env(final="orchestrator")
    for reasoning, expected in ((r"So \boxed{99}.", "99"), ("So 99.", "12"), (r"So \boxed{99.", "12")):
        env.reset(seed=0, options={"task_id": "sums/3"})
        env.step(say("ensemble_solver", "critical_reviewer"))
        env.step(say("final_answer", thought=reasoning))
        assert env.episode.answer == rf"\boxed{{{expected}}}"


def test_a_conclusion_has_as_many_boxes_as_answers_are_wanted(sums: QuestionSource, make_env: Make, say: Say) -> None:
    world, task = sums.world(sums.task("sums/3")), sums.task("sums/3")
    both = msgspec.structs.replace(task, communicate=(("6",), ("12",)))
    for chosen, expected in ((task, "12"), (both, "6, 12")):
        env = make_env(source=QuestionSource("One", world, [chosen]))
        env.reset(seed=0)
        env.step(say("final_answer", thought=r"First \boxed{5}? No: \boxed{6}, then \boxed{12}."))
        assert env.episode.answer == rf"\boxed{{{expected}}}"


def test_programs_of_real_models_run_in_the_sandbox(
    make_env: Make, say: Say, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(self: PythonTool, arguments: dict[str, Any], session: Any) -> ToolResult:
        ran.append(arguments["code"])
        return ToolResult.ok("12\n")

    monkeypatch.setattr(PythonTool, "run", run)

    def program(request: ChatRequest) -> str:
        return "<code>\nprint(6 + 6)\n</code>"

    env = make_env(experts={"ada": scripted("ada", program)})
    env.reset(seed=0)
    *_, info = env.step(say("code_reasoner", ("python", {"code": "print(12)"})))
    assert sorted(ran) == ["print(12)", "print(6 + 6)"]
    assert "<execution_result>\n12\n" in info["calls"][0].value


def test_real_models_are_asked_at_the_same_time(make_env: Make, say: Say, scripted: Scripted) -> None:
    together = threading.Barrier(3, timeout=60)  # none is answered before all three have been asked

    def meet(request: ChatRequest) -> str:
        together.wait()
        return "The answer is \\boxed{12}."

    env = make_env(experts={"ada": scripted("ada", meet), "bob": scripted("bob", meet)})
    env.reset(seed=0)
    *_, info = env.step(say("standard_reasoner", "critical_reviewer", ("standard_reasoner", {"model_id": "bob"})))
    assert [str(call.status) for call in info["calls"]] == ["OK"] * 3


def test_a_real_model_that_hangs_is_a_timeout_while_the_others_answer(
    make_env: Make, say: Say, scripted: Scripted
) -> None:
    going = threading.Event()

    def hang(request: ChatRequest) -> str:
        going.wait(60)
        return ""

    env = make_env(experts={"ada": scripted("ada"), "slow": scripted("slow", hang)}, timeout=1.0, outages="observed")
    env.reset(seed=0)
    *_, info = env.step(say(("standard_reasoner", {"model_id": "slow"}), "standard_reasoner"))
    going.set()
    assert [str(call.status) for call in info["calls"]] == ["TIMEOUT", "OK"]
    assert "has not answered within 1 s" in info["calls"][0].error
    assert info["budget"]["cost"] == 14.0


def test_search_finds_what_there_is_to_read_or_a_corpus(make_env: Make, say: Say, tmp_path: Path) -> None:
    corpus = tmp_path / "birds.jsonl"
    corpus.write_text('{"id": "1", "title": "Tern", "text": "A bird of whole coasts."}\n')
    for options, title in (({}, "Rules"), ({"corpus": corpus}, "Tern")):
        env = make_env(**options)
        env.reset(seed=0)
        *_, info = env.step(say(("local_search", {"query_list": ["whole"]})))
        (group,) = info["calls"][0].value
        assert [passage["title"] for passage in group["passages"]] == [title]
        assert info["calls"][0].cost == 0.0
