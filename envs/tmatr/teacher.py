r"""The scripted teacher of TMATR: demonstrations, and injected errors.

It can demonstrate some families of the source `Math`, those of `MathParity` (`DEMONSTRATIONS`), and no other task: by a
tool and its input, a formula over the numbers of the problem, or by the answer alone, known or guessed. Its messages
are short and all in one form, so that a small model can learn to write them. They follow from what the agent has
observed, so the teacher recovers when another agent has made a mistake.
"""

from __future__ import annotations

import random
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.envs.sources.math.parity import WORDS
from toolorchestra.envs.sources.math.programs import PROGRAMS
from toolorchestra.envs.tmatr.actions import CALL, REASON, Action
from toolorchestra.envs.tmatr.play import TMATRPlay
from toolorchestra.envs.tools.simulated_python import result_lines
from toolorchestra.toolscale.answers.answers import boxed
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Status

COMPUTE, RECALL, GIVE = "Compute what is asked.", "Recall what is asked.", "The answer is"
"""Goals: of a call; of an answer known by heart; and, with the answer, of giving what a call returned."""
_GIVE_ANSWER, _NO_ANSWER = "Step 1: Tell the answer.", "Step 1: Think it over."
_NUMBER = re.compile(r"\d+")


class ToolDemonstration(msgspec.Struct, frozen=True):
    """How the problems of a family are solved.

    Attributes:
        tool: Name of the tool that computes the answer.
        input: The tool's input: a formula over the numbers of the problem.
        mistake: A likely wrong input.
        levels: Levels of the problems for which `input` is right.
        by_heart: The teacher knows the answer without the tool.
        guessed: Without the tool it guesses between `WORDS`, which is right half of the time.
        domain: World of the family.
    """

    tool: str
    input: str
    mistake: str
    levels: tuple[int, ...] = (1, 2, 3)
    by_heart: bool = False
    guessed: bool = False
    domain: str = "math"


_FAMILIES = read_yaml(Path(__file__).with_name("demonstrations.yaml"))
DEMONSTRATIONS = {
    family: convert({"input": PROGRAMS.get(family)} | fields, ToolDemonstration) for family, fields in _FAMILIES.items()
}
"""Demonstrations by family of problems."""


def demonstration_of(task: Task) -> ToolDemonstration | None:
    """Return the demonstration of a task with its numbers filled in, or None if there is none."""
    demonstration = DEMONSTRATIONS.get(task.intent)
    if demonstration is None or task.domain != demonstration.domain or task.difficulty not in demonstration.levels:
        return None
    given = task.bindings["given"]
    right, wrong = demonstration.input.format(**given), demonstration.mistake.format(**given)
    return msgspec.structs.replace(demonstration, input=right, mistake=wrong)


def options(hardness: float) -> dict[str, Any]:
    """Return the options of an environment for demonstrations, at any hardness: a simulated Python."""
    return {"python": "simulated"}


def knows(task: Task) -> bool:
    """Return whether the teacher can demonstrate a task."""
    return demonstration_of(task) is not None


def teach(play: TMATRPlay) -> str:
    """Return the message that the current agent should write.

    Raises:
        OptionError: There is no demonstration of the task.
    """
    demonstration = _known(play)
    match play.action:
        case Action.DECIDE:
            if demonstration.by_heart:
                return _decision(REASON, RECALL)
            called = (demonstration.tool, Status.OK)
            values = [_value(call) for call in play.episode.calls if (call.name, call.status) == called]
            return _decision(REASON, f"{GIVE} {values[-1]}") if values else _decision(CALL, COMPUTE)
        case Action.SELECT:
            return _message(REASON="It computes.", SELECTED_TOOL=demonstration.tool)
        case Action.EXECUTE:
            return _message(TOOL_INPUT=demonstration.input)
        case Action.PLAN:
            return _message(REASONING_STEPS=_GIVE_ANSWER)
        case _:
            return _inference(_answer(play))


def inject_error(play: TMATRPlay, rng: random.Random) -> str:
    """Return a wrong message of the current agent, in the form in which `teach` writes the right one.

    DECIDE takes the other branch, or gives a number that is not the result (where the answer can be guessed it does no
    more than guess in the first turn, since a guess later on would be no error); SELECT takes another tool; EXECUTE
    makes the mistake of the demonstration; PLAN leads to no answer; INFER gives none or another one, or one where it
    should give none. There are few kinds of mistakes, so that a small model learns other decisions and not other
    spellings.

    Raises:
        OptionError: There is no demonstration of the task.
    """
    demonstration = _known(play)
    match play.action:
        case Action.DECIDE:
            right = teach(play)
            if demonstration.guessed and play.turn > 1:
                return right
            if CALL in right:
                return _decision(REASON, RECALL)
            if RECALL in right or rng.random() < 0.5:
                return _decision(CALL, COMPUTE)
            return _decision(REASON, f"{GIVE} {_other_number(play, right)}")
        case Action.SELECT:
            others = [name for name in play.tools if name != demonstration.tool]
            return _message(REASON="It computes.", SELECTED_TOOL=rng.choice(others))
        case Action.EXECUTE:
            return _message(TOOL_INPUT=demonstration.mistake)
        case Action.PLAN:
            return _message(REASONING_STEPS=_NO_ANSWER)
        case _:
            answer = _answer(play)
            if answer is not None and rng.random() < 0.5:
                return _inference(None)
            return _inference(_other_number(play, answer or ""))


def _known(play: TMATRPlay) -> ToolDemonstration:
    demonstration = demonstration_of(play.task)
    if demonstration is None:
        families = ", ".join(DEMONSTRATIONS)
        raise OptionError(f"There is no demonstration of {play.task.id}; there are some of the families {families}.")
    return demonstration


def _answer(play: TMATRPlay) -> str | None:
    """Return the answer that follows from goal and plan, or None if none does."""
    if play.plan == _NO_ANSWER:
        return None
    if play.goal.startswith(GIVE):
        return play.goal[len(GIVE) :].strip()
    if play.goal != RECALL:
        return None
    demonstration = _known(play)
    if demonstration.guessed:
        return WORDS[zlib.crc32(play.task.id.encode()) % 2]
    return boxed(play.task.answer) if demonstration.by_heart else None


def _value(call: CallRecord) -> str:
    """Return what a call computed."""
    if isinstance(call.value, dict):
        return str(call.value["exact"])
    lines = str(call.value).strip().splitlines()
    return (result_lines(str(call.value)) or lines or [""])[-1]


def _other_number(play: TMATRPlay, right: str) -> str:
    """Return a number that is not in the right message: the last one that was returned, or else in the problem."""
    texts = (str(play.new_messages(play.current_agent)[-1]["content"]).split("\n\n")[0], play.task.instruction)
    numbers: list[str] = [number for text in texts for number in reversed(_NUMBER.findall(text))]
    excluded = set(_NUMBER.findall(right))
    return next((number for number in numbers if number not in excluded), "0")


def _decision(branch: str, goal: str) -> str:
    return _message(ACTION=branch, GOAL=goal)


def _inference(answer: str | None) -> str:
    if answer is None:
        return _message(THINK="Step 1: I do not know it.")
    return _message(THINK=f"Step 1: It is {answer}.", ANSWER=rf"\boxed{{{answer}}}")


def _message(**sections: str) -> str:
    return "".join(f"<{tag}>{text}</{tag}>" for tag, text in sections.items())
