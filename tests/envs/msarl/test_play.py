from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolorchestra.envs.msarl import MSARLEnv, raw_env
from toolorchestra.envs.msarl.play import CodeBlock, is_well_formed, read_block
from toolorchestra.envs.msarl.teacher import inject_error, program, teach
from toolorchestra.envs.sources.math.programs import PROGRAMS
from toolorchestra.envs.sources.questions import QuestionSource, QuestionWorld
from toolorchestra.envs.tools.python import PythonTool
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tools.tool import Status

CODE = "```python\nprint(6 * 7)\n```"
TOOLS: Any = {"python": None, "local_search": None}


def new(source: str = "Math", seed: int = 0, **options: Any) -> MSARLEnv:
    env = raw_env(source, **({"python": "simulated"} | options))
    env.reset(seed=seed)
    return env


@pytest.mark.parametrize(
    ("message", "block"),
    [
        ("```python\nprint(1)\n```", CodeBlock("python", "print(1)")),
        ("```py\nprint(1)\n```", CodeBlock("python", "print(1)")),
        ("``` Python\n  a = 1\n  print(a)\n```", CodeBlock("python", "a = 1\nprint(a)")),
        ("```python\nprint(1)", CodeBlock("python", "print(1)")),  # the model stopped at the fence
        ("```python\nA\n```\nno,\n```python\nB\n```\n```output\n3\n```", CodeBlock("python", "B")),  # the latest block
        ("```local_search\nold mill\nmayor\n```", CodeBlock("local_search", "old mill\nmayor")),
        ("```rust\nfn main() {}\n```", None),
        ("no code", None),
        ("```", None),
    ],
)
def test_blocks_are_read(message: str, block: CodeBlock | None) -> None:
    assert read_block(message, TOOLS) == block


@given(st.text(alphabet="`python\n {}\\boxed", max_size=80))
def test_reading_never_raises(message: str) -> None:
    read_block(message, TOOLS)
    is_well_formed(message)


def test_a_right_answer_in_a_box_gives_both_the_reward() -> None:
    env = new()
    env.step(CODE)
    env.step("42")
    env.step(f"So {env.task.answer}.")
    assert env.rewards == {"reasoner": 1.0, "helper": 1.0}
    assert env.terminations == {"reasoner": True, "helper": True}


def test_a_right_answer_without_a_box_ends_nothing_and_has_no_reward() -> None:
    env = new()
    env.step(f"The answer is {env.task.communicate[0][0]}")
    assert not env.play.over
    assert env.agent_selection == "reasoner"
    assert "boxed" in env.observe("reasoner")


def test_a_wrong_answer_has_the_reward_0() -> None:
    env = new()
    env.step(r"\boxed{-123456789}")
    assert env.rewards == {"reasoner": 0.0, "helper": 0.0}
    assert env.episode.outcome == "failed"


def test_a_box_beside_code_that_runs_is_no_answer() -> None:
    env = new()
    env.step(f"{CODE}\nIt will print 42, so {env.task.answer}")
    assert env.agent_selection == "helper"
    assert not env.play.over


def test_code_beyond_the_calls_is_ignored() -> None:
    env = new(max_calls=1)
    env.step(CODE)
    env.step("42")
    env.step("```python\nprint(1)\n```")
    assert len(list(env.episode.calls)) == 1
    assert env.agent_selection == "reasoner"
    assert "not run" in env.observe("reasoner")
    env.step(f"```python\nprint(1)\n```\n{env.task.answer}")  # ignored code beside an answer does no harm
    assert env.episode.outcome == "solved"


def test_no_calls_are_reasoning_in_text_alone() -> None:
    env = new(max_calls=0)
    env.step(CODE)
    assert env.agent_selection == "reasoner"
    assert not list(env.episode.calls)


def test_as_many_blocks_run_as_there_are_calls() -> None:
    env = new(max_calls=3)
    for _ in range(3):
        env.step(CODE)
        env.step("42")
    env.step(CODE)
    assert len(list(env.episode.calls)) == 3


def test_the_helper_observes_the_error_of_a_program() -> None:
    env = new()
    env.step("```python\nprint(1 / 0)\n```")
    assert env.observe("helper").endswith("EXEC_ERR: ZeroDivisionError: division by zero")


def test_long_output_and_interpretations_are_cut() -> None:
    env = new(noise=500, output_characters=100, interpretation_characters=20)
    env.step(CODE)
    assert len(env.observe("helper").split("Output:\n")[1]) < 120
    env.step("9" * 500)
    assert len(env.observe("reasoner")) < 80


def test_tools_of_the_world_are_called_by_fences() -> None:
    env = new(python="none")
    env.step("```calculator\n1/3 + 1/6\n```")
    assert '"exact":"\\\\frac{1}{2}"' in env.observe("helper")
    env = new("MultiHopQA")
    env.step("```local_search\nold mill\nmayor of the town\n```")
    (call,) = env.episode.calls
    assert (call.status, call.arguments and call.arguments["query_list"]) == (
        Status.OK,
        ["old mill", "mayor of the town"],
    )


def test_each_tool_can_have_a_helper_of_its_own() -> None:
    env = new(helpers="per_tool")
    assert env.possible_agents == ["reasoner", "python_helper", "calculator_helper"]
    env.step("```calculator\n2 + 2\n```")
    assert env.agent_selection == "calculator_helper"
    assert len(env.infos["python_helper"]["messages"]) == 1
    env.step("4")
    assert env.agent_selection == "reasoner"


def test_without_helpers_the_reasoner_reads_raw_output() -> None:
    env = new(helpers="none", noise=3)
    assert env.possible_agents == ["reasoner"]
    prompt = env.play.histories["reasoner"][0]["content"]
    assert "raw output in <output>" in prompt
    assert "interpretation" not in prompt
    env.step("```python\nprint(2 ** 10)\n```")
    assert env.agent_selection == "reasoner"
    observation = env.observe("reasoner")
    assert (observation[:9], observation[-10:]) == ("<output>\n", "\n</output>")
    assert "1024" in observation
    env.step(env.task.answer)
    assert (env.episode.outcome, len(env.episode.turns)) == ("solved", 2)
    env = new(helpers="none", noise=30, output_characters=40)
    env.step("```python\nprint(2 ** 10)\n```")
    assert env.observe("reasoner").endswith("… (cut)\n</output>")


def test_an_environment_without_any_tool_is_refused() -> None:
    source = raw_env("Math", python="simulated").source
    bare = QuestionSource("Bare", QuestionWorld("bare", ""), source.tasks("test"))
    with pytest.raises(OptionError, match="Bare has no tool"):
        raw_env(bare, python="none")


def test_the_prompt_names_the_fences_and_the_calls() -> None:
    prompt = new(max_calls=2).play.histories["reasoner"][0]["content"]
    for words in ("```python", "```calculator", "At most 2 of your blocks are run", r"\boxed{…}"):
        assert words in prompt


@pytest.mark.parametrize(("helpers", "messages"), [("one", 3), ("none", 2)])
@pytest.mark.parametrize("family", PROGRAMS)
def test_the_teacher_solves_every_problem_that_it_has_a_program_for(family: str, helpers: str, messages: int) -> None:
    env = new(noise=30, helpers=helpers)
    for task in (task for task in env.source.tasks("all") if task.intent == family):
        env.reset(seed=1, options={"task_id": task.id})
        while not env.play.over:
            env.step(teach(env.play))
        assert (env.episode.outcome, len(env.episode.turns)) == ("solved", messages)


@pytest.mark.parametrize("helpers", ["one", "none"])
@pytest.mark.parametrize("family", PROGRAMS)
def test_an_injected_error_is_a_mistake(family: str, helpers: str) -> None:
    env = new(noise=30, helpers=helpers)
    tasks = [task for task in env.source.tasks("train") if task.intent == family]
    for wrong_turn in range(2):  # the program, or how its output is read
        solved = 0
        for task in tasks:
            env.reset(seed=1, options={"task_id": task.id})
            while not env.play.over:
                now = len(env.episode.turns) == wrong_turn
                env.step(inject_error(env.play, random.Random(0)) if now else teach(env.play))
            solved += env.episode.outcome == "solved"
        assert solved < 0.2 * len(tasks)


def test_the_teacher_names_a_task_that_it_cannot_demonstrate() -> None:
    env = new()
    task = next(task for task in env.source.tasks("train") if program(task) is None)
    env.reset(options={"task_id": task.id})
    with pytest.raises(OptionError, match="power_remainder"):
        teach(env.play)


@pytest.mark.filterwarnings("ignore:ProcessSandbox does not isolate")  # it runs the teacher's programs only
def test_the_simulated_python_prints_what_a_sandbox_does() -> None:
    simulated, real = new(python="simulated"), new(python=PythonTool("process"))
    tasks = {task.intent: task for task in real.source.tasks("train") if program(task)}
    for task in tasks.values():
        outputs = []
        for env in (simulated, real):
            env.reset(options={"task_id": task.id})
            env.step(teach(env.play))
            outputs.append(env.observe("helper").strip())
        assert outputs[0] == outputs[1]
