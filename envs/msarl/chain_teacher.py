r"""How the scripted teacher of MSARL plays the tasks of `toolorchestra.envs.sources.chains`.

The reasoner writes a program for one value after the other. What a program printed comes to it as an interpretation
(``a 42``, or ``error`` after a failure); without helpers it notes the same itself, at the head of its next message.
A program that failed is run again. So teams and single agents write the same words, and read different things.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from toolorchestra.envs.msarl.play import REASONER, MSARLPlay
from toolorchestra.envs.sources.chains import formulas
from toolorchestra.envs.tools.simulated_python import last_value

ERROR = "error"
"""What is said of a program that failed."""
_LABEL = re.compile(r"print\('(\w+)'")
_NOTE = re.compile(r"^([a-z]) (\d+)\s*$", re.MULTILINE)


def teach(play: MSARLPlay) -> str:
    """Return the right message of the current agent, given what it has been told."""
    if play.current_agent != REASONER:
        return reading(*_code_and_output(play))
    note = _own_reading(play)
    return _next(play, {**dict(_told(play)), **dict(_NOTE.findall(note))}, note)


def inject_error(play: MSARLPlay, rng: random.Random) -> str:
    """Return a wrong message: an older value than the one printed, or a program with another number at its end."""
    if play.current_agent != REASONER:
        return misreading(*_code_and_output(play))
    told = dict(_told(play))
    if (output := _raw_output(play)) is not None and rng.random() < _MISREAD:
        note = misreading(_last_program(play), output)
        return _next(play, {**told, **dict(_NOTE.findall(note))}, note)
    message = teach(play)
    numbers: list[str] = sorted({*re.findall(r"\d+", play.task.instruction), *told.values()})
    last = re.search(r"\d+(?=\D*$)", message)
    others = [number for number in numbers if last is not None and number != last[0]]
    if last is None or not others:
        return message
    return message[: last.start()] + rng.choice(others) + message[last.end() :]


_MISREAD = 0.5  # share of the errors of an agent without helpers that are of reading: it reads and programs


def reading(code: str, output: str) -> str:
    r"""Return what the output of a program says.

    >>> reading("print('a', 40 + 2)", "a 17\nb 30\na 42\nb 8")
    'a 42'
    >>> reading("print('a', 40 + 2)", "EXEC_ERR: a 17\nTraceback (most recent call last):\n…")
    'error'
    """
    label = _LABEL.search(code)
    value = None if label is None or output.startswith("EXEC_ERR") else last_value(output, label[1])
    return ERROR if label is None or value is None else f"{label[1]} {value}"


def misreading(code: str, output: str) -> str:
    r"""Return what an output says if an older value is taken for the one printed; a failure is overlooked so too.

    >>> misreading("print('a', 40 + 2)", "a 17\nb 30\na 42\nb 8")
    'a 17'
    """
    label = _LABEL.search(code)
    if label is None:
        return ERROR
    output = output.removeprefix("EXEC_ERR: ")
    values = re.findall(rf"^{label[1]} (\d+)$", output, re.MULTILINE)
    others = values if reading(code, output) == ERROR else [value for value in values if value != values[-1]]
    last = re.findall(r"^\w (\d+)$", output, re.MULTILINE)
    return f"{label[1]} {(others or last or ['0'])[-1]}"


def _next(play: MSARLPlay, known: dict[str, str], note: str) -> str:
    """Return a program for the first value that is not known, or the answer, below a note."""
    chain = formulas(play.task)
    missing = next((formula for formula in chain if formula.name not in known), None)
    program = None if missing is None or not play.calls_left else missing.program(known)
    answer = rf"\boxed{{{known.get(chain[-1].name, '0')}}}"
    message = answer if program is None else f"```python\n{program}\n```"
    return f"{note}\n{message}" if note else message


def _told(play: MSARLPlay) -> Iterator[tuple[str, str]]:
    """Yield the values that the reasoner was told, or noted itself, in their order."""
    for message in play.histories[REASONER][2:]:
        text = str(message["content"])
        if message["role"] == "assistant" or text.startswith(("<interpretation>", "<answer>")):
            yield from _NOTE.findall(text)


def _own_reading(play: MSARLPlay) -> str:
    """Return what a reasoner without helpers notes of the output that it reads; nothing if there is none."""
    output = _raw_output(play)
    return "" if output is None else reading(_last_program(play), output)


def _raw_output(play: MSARLPlay) -> str | None:
    text = str(play.histories[REASONER][-1]["content"])
    return text.removeprefix("<output>\n").removesuffix("\n</output>") if text.startswith("<output>") else None


def _last_program(play: MSARLPlay) -> str:
    return str(play.histories[REASONER][-2]["content"])


def _code_and_output(play: MSARLPlay) -> tuple[str, str]:
    text = str(play.new_messages(play.current_agent)[-1]["content"])
    code, _, output = text.partition("\nOutput:\n")
    return code, output
