"""Programs that answer questions are run on the tests of the set, in a sandbox; the rows here are ours."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import toolorchestra  # noqa: F401 - registers the environments
from toolorchestra.envs.sources import code_questions
from toolorchestra.envs.sources.code_questions import CodeWorld
from toolorchestra.envs.sources.public import load_public
from toolorchestra.toolscale.common.errors import OptionError, SandboxError

pytestmark = pytest.mark.filterwarnings("ignore:.*does not isolate")  # programs of ours, where nothing better is

FUNCTION = {
    "question_title": "Pairs",
    "question_content": "Count the pairs of equal numbers.",
    "platform": "leetcode",
    "question_id": "3001",
    "contest_id": "weekly-1",
    "contest_date": "2025-01-11T00:00:00",
    "starter_code": "class Solution:\n    def pairs(self, nums: List[int], least: int) -> int:\n        ",
    "difficulty": "hard",
    "public_test_cases": json.dumps([{"input": "[1, 1, 2]\n0", "output": "1", "testtype": "functional"}]),
    "private_test_cases": json.dumps([{"input": "[3, 3, 3]\n0", "output": "3", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "pairs"}),
}
SOLVED = """
class Solution:
    def pairs(self, nums: List[int], least: int) -> int:
        print("looking")
        return sum(count * (count - 1) // 2 for count in Counter(nums).values() if count > least)
"""


def program(code: str) -> str:
    return f"Here it is.\n```python\n{code}\n```\n"


def load(tmp_path: Path, row: dict[str, Any]) -> tuple[CodeWorld, Any]:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row))
    source = load_public("livecodebench-v6", file)
    (task,) = source.tasks("test")
    world = source.world(task)
    assert isinstance(world, CodeWorld)
    return world, task


def stdin(tests: list[tuple[str, str]], **fields: Any) -> dict[str, Any]:
    cases = [{"input": given, "output": wanted, "testtype": "stdin"} for given, wanted in tests]
    return {**FUNCTION, "starter_code": "", "metadata": "{}", "public_test_cases": json.dumps(cases), **fields}


def test_a_method_is_called_with_the_arguments_of_each_test(tmp_path: Path):
    world, task = load(tmp_path, FUNCTION)
    assert "def pairs" in task.instruction
    assert (task.difficulty, task.intent, task.id) == (5, "leetcode", "livecodebench-v6/test/3001")
    assert world.verify(task, None, program(SOLVED)).solved
    assert world.verify(task, None, program(SOLVED.replace("return sum", "return 1 or sum"))).failures[0].message == (
        "test 2: the program returns something else"
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("print(3)", "should have a program in a fenced block"),
        (program("print(4)"), "prints something else"),
        (program("print(1/0)"), "ended with error"),
        (program("import sys; sys.exit(3)"), "ended with error"),
        (program("print(3)") + program("print(4)"), "prints something else"),
    ],
)
def test_what_fails_a_test_is_said(answer: str, why: str, tmp_path: Path):
    world, task = load(tmp_path, stdin([("1 2\n", "3\n")], private_test_cases="[]"))
    assert why in world.verify(task, None, answer).failures[0].message


def test_programs_are_run_as_scripts_and_methods_may_be_functions(tmp_path: Path):
    world, task = load(tmp_path, stdin([("4\n", "5\n")], private_test_cases="[]"))
    script = "def main():\n    print(int(input()) + 1)\n\nif __name__ == '__main__':\n    main()"
    assert world.verify(task, None, program(script)).solved
    world, task = load(tmp_path, {**FUNCTION, "private_test_cases": "[]"})
    assert world.verify(task, None, program("def pairs(nums, least):\n    return len(nums) - len(set(nums))")).solved


def test_output_is_compared_line_by_line_and_numbers_as_numbers(tmp_path: Path):
    world, task = load(tmp_path, stdin([("", "3.50 2\nyes\n")], private_test_cases="[]"))
    for code, right in [("print('3.5 2 ');print('yes')", True), ("print('3.5 2 yes')", False), ("print('x')", False)]:
        assert world.verify(task, None, program(code)).solved is right


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world, task = load(tmp_path, stdin([("1\n", "1\n")], private_test_cases="[]"))
    monkeypatch.setattr(world, "_limits", code_questions.ProgramLimits(seconds=0.3))
    assert "ended with timeout" in world.verify(task, None, program("while True: pass")).failures[0].message


def test_expected_results_do_not_enter_the_sandbox(tmp_path: Path):
    world, task = load(tmp_path, {**FUNCTION, "private_test_cases": "[]"})
    peek = """
import os
class Solution:
    def pairs(self, nums, least):
        found = " ".join(open(name).read() for name in os.listdir() if os.path.isfile(name) and name != "program.py")
        return 1 if '"output"' in found or "Count the pairs" in found else found
"""
    assert not world.verify(task, None, program(peek)).solved


class Harmful:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made-by-a-pickle",)


@pytest.mark.parametrize(
    "text", [base64.b64encode(zlib.compress(pickle.dumps(Harmful()))).decode(), "not base64", "e30=", ""]
)
def test_packed_tests_run_nothing(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({**FUNCTION, "public_test_cases": text, "private_test_cases": ""}))
    with pytest.raises(OptionError, match=r"row 1: expected the columns of livecodebench-v6"):
        load_public("livecodebench-v6", file)
    assert not Path("made-by-a-pickle").exists()


def test_a_broken_sandbox_is_no_fault_of_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(kind: str) -> Any:
        raise SandboxError("no sandbox")

    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(FUNCTION))
    env = gym.make("ToolOrchestra-Custom-v0", source=load_public("livecodebench-v6", file), split="test")
    monkeypatch.setattr(code_questions, "shared_sandbox", broken)
    env.reset(seed=0)
    *_, info = env.step(program(SOLVED))
    assert info["outcome"] == "judge_error"
    env.close()


def test_simulated_experts_cannot_play_what_has_no_known_answer(tmp_path: Path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(FUNCTION))
    env = gym.make("ParaManager-Custom-v0", source=load_public("livecodebench-v6", file), split="test")
    with pytest.raises(OptionError, match="simulated experts have nothing to err about"):
        env.reset(seed=0)
