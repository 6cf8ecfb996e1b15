r"""The scripted teacher of MSARL: it writes the right program, reads its output correctly, and boxes the result.

It knows programs for some families of the source `Math` (`PROGRAMS`), each one formula over the numbers of the problem,
and the tasks of the source `Chains`, a program for each value (`toolorchestra.envs.msarl.chain_teacher`). It cannot
demonstrate any other task. Its messages are short and all in one form, so that a small model can learn to write them.
"""

from __future__ import annotations

import random
import re
from typing import Any

from toolorchestra.envs.msarl import chain_teacher
from toolorchestra.envs.msarl.play import REASONER, MSARLPlay
from toolorchestra.envs.sources import chains
from toolorchestra.envs.sources.math.programs import PROGRAMS
from toolorchestra.envs.tools.simulated_python import result_lines
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Task

GROWING = ("noise", "stale")
"""Options that grow from 0 to what is given over the stages of a warm start."""
_NUMBER = re.compile(r"\d+")


def knows(task: Task) -> bool:
    """Return whether the teacher can demonstrate a task."""
    return task.domain == chains.NAME or program(task) is not None


def options(hardness: float) -> dict[str, Any]:
    """Return the options of an environment for demonstrations: a simulated Python, with more noise the harder it is."""
    return {"python": "simulated", "noise": round(8 * hardness)}


def program(task: Task) -> str | None:
    """Return a program that prints a task's answer, or None if none is known."""
    template = PROGRAMS.get(task.intent) if task.domain == "math" else None
    return None if template is None else template.format(**task.bindings["given"])


def teach(play: MSARLPlay) -> str:
    r"""Return the message that the current agent should write.

    Raises:
        OptionError: There is no program for the task.
    """
    if play.task.domain == chains.NAME:
        return chain_teacher.teach(play)
    if play.current_agent != REASONER:
        return _result(str(play.new_messages(play.current_agent)[-1]["content"]).split("\nOutput:\n", 1)[1])
    if play.calls_left and not any(play.episode.calls):
        written = program(play.task)
        if written is None:
            known = ", ".join(PROGRAMS)
            raise OptionError(f"There is no program for {play.task.id}; there are for the families {known}.")
        return f"```python\n{written}\n```"
    observed = _observed(play)
    return rf"\boxed{{{observed if play.readers else _result(observed)}}}"


def inject_error(play: MSARLPlay, rng: random.Random) -> str:
    """Return a wrong message: the last number of the output, or a program with its last two exchanged.

    A mistake is always of the same kind, so that a small model learns two ways of deciding, and not to spell badly.
    """
    if play.task.domain == chains.NAME:
        return chain_teacher.inject_error(play, rng)
    if play.current_agent != REASONER:
        return str(play.new_messages(play.current_agent)[-1]["content"]).split()[-1]
    if not play.readers and any(play.episode.calls):
        return rf"\boxed{{{(_observed(play).split() or [''])[-1]}}}"
    message = teach(play)
    numbers = list(dict.fromkeys(_NUMBER.findall(message)))
    exchange = dict(zip(numbers[-2:], reversed(numbers[-2:]), strict=True))
    return _NUMBER.sub(lambda found: exchange.get(found[0], found[0]), message)


def _observed(play: MSARLPlay) -> str:
    """Return the reasoner's observation of its call."""
    text = str(play.histories[REASONER][-1]["content"])
    for tag in ("interpretation", "answer", "output"):
        text = text.removeprefix(f"<{tag}>").removesuffix(f"</{tag}>")
    return text.strip()


def _result(output: str) -> str:
    """Return the line of an output with the word ``result``; the last one if there is none."""
    return (result_lines(output) or output.splitlines() or [""])[-1]
