"""Messages in the format of MSARL's paper (§3.2, Appendix B, C), typed by hand, are read as the paper means them."""

from __future__ import annotations

import pytest

from toolorchestra.envs.msarl import MSARLEnv, raw_env
from toolorchestra.envs.msarl.play import CodeBlock, read_block
from toolorchestra.envs.tools.python import PythonTool

TIR = r"""To find the remainder, I will use Python's built-in power function, which is efficient for large exponents.

Here is the plan:
1. Compute $17^{53} \bmod 10$.
2. Print the result.

```python
# the last digit of 17^53
base = 17
exponent = 53
last_digit = pow(base, exponent, 10)
print(last_digit)
```
```output
"""
"""A message as the paper's reasoner writes it: prose, a program, and the fence at which generation pauses."""
MADE_UP = r"""3
```
The output is 3, so the last digit is $\boxed{3}$. Let me check by another program.

```python
print(pow(17, 53, 100))
```
"""
"""What a model goes on with that does not pause: an output that nothing computed."""
DIAGONAL = r"""We diagonalize the matrix and use the decomposition.
```python
import sympy as sp
A = sp.Matrix([[1, 1], [0, 1]])
P, D = A.diagonalize()
print(P)
```
```output"""
HELPER = r"""The code computes the last digit of 17^53 by modular exponentiation.
<answer>
The last digit is 7.
</answer>"""


def new(**options: object) -> MSARLEnv:
    env = raw_env("Math", **options)  # type: ignore[arg-type]
    env.reset(seed=0)
    return env


def test_generation_pauses_at_the_fence_of_the_output_and_the_latest_program_is_run() -> None:
    env = new(tag="answer")
    env.step(TIR)
    assert env.agent_selection == "helper"
    (call,) = env.episode.calls
    assert call.arguments is not None
    assert call.arguments["code"].startswith("# the last digit of 17^53\nbase = 17")
    assert env.observe("helper").endswith("Output:\n7")


def test_an_output_that_the_model_made_up_and_all_after_it_do_not_count() -> None:
    assert read_block(TIR + MADE_UP, {"python": None}) == read_block(TIR, {"python": None})
    assert read_block("```output\n3\n```\n" + TIR, {"python": None}) is None
    env = new()
    env.step(TIR + MADE_UP)
    assert not env.play.over
    assert env.observe("helper").endswith("Output:\n7")


def test_of_several_programs_before_the_pause_the_latest_is_extracted() -> None:
    message = "```python\nprint(1)\n```\nor rather\n```python\nprint(2)\n```\n```output\n"
    assert read_block(message, {"python": None}) == CodeBlock("python", "print(2)")


def test_what_the_helper_says_is_inserted_into_the_answer_field() -> None:
    env = new(tag="answer")
    env.step(TIR)
    env.step(HELPER)
    assert env.observe("reasoner") == "<answer>\nThe last digit is 7.\n</answer>"
    assert "<answer> … </answer>" in env.play.histories["reasoner"][0]["content"]


def test_the_final_answer_is_in_a_box_with_the_prose_around_it() -> None:
    env = new()
    env.step(TIR)
    env.step(HELPER)
    env.step(f"Since the computation confirms it, the final answer is ${env.task.answer}$.\n")
    assert env.episode.outcome == "solved"


def test_beyond_the_maximum_of_calls_code_is_ignored_and_reasoning_goes_on_in_text() -> None:
    env = new()
    env.step(TIR)
    env.step(HELPER)
    env.step(TIR)
    assert len(list(env.episode.calls)) == 1
    assert env.agent_selection == "reasoner"


@pytest.mark.filterwarnings("ignore:ProcessSandbox does not isolate")  # it runs this program only
def test_an_exception_reaches_the_helper_as_the_last_lines_of_a_traceback() -> None:
    env = new(python=PythonTool("process"))
    env.step(DIAGONAL.replace("import sympy as sp\n", "").replace("sp.Matrix", "list").replace("diagonalize", "sort"))
    output = env.observe("helper").split("Output:\n")[1]
    assert "EXEC_ERR" in output
    assert "TypeError: cannot unpack non-iterable NoneType object" in output
