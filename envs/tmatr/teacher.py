r"""A teacher of TMATR: decides, selects and computes as it should, and answers what was returned; and how it may slip.

It has lessons for some families of the source `Math` (`LESSONS`): a tool and what to put into it, one formula over
what the problem gives. Some it knows by heart, and then needs no tool. For any other task it has none, and cannot teach
it. Its messages are short and in one form: what a small model can learn to say. What an agent should say follows from
what it was told, so the teacher finds its way back when others have gone wrong.
"""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec

from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.sources.math.programs import PROGRAMS
from toolorchestra.envs.tmatr.actions import CALL, REASON, Action
from toolorchestra.envs.tmatr.play import TMATRPlay
from toolorchestra.envs.tools.simulated_python import result_lines
from toolorchestra.toolscale.answers import boxed
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Status

COMPUTE, RECALL, GIVE = "Compute what is asked.", "Recall what is asked.", "The answer is"
"""Goals: of a call; of an answer known by heart; and, with the answer, of giving what a call returned."""
_TELL, _WONDER = "Step 1: Tell the answer.", "Step 1: Think it over."
_NUMBER = re.compile(r"\d+")


class Lesson(msgspec.Struct, frozen=True):
    """How the problems of a family are solved.

    Attributes:
        tool: Name of the tool that computes the answer.
        input: What to put into it, over what is given in the problem.
        mistake: What is likely to be put into it instead.
        levels: Levels of the problems for which that is right.
        by_heart: The answer is known without the tool.
    """

    tool: str
    input: str
    mistake: str
    levels: tuple[int, ...] = (1, 2, 3)
    by_heart: bool = False


LESSONS = {
    "power_remainder": Lesson("python", PROGRAMS["power_remainder"], "print(pow({n}, {a}, {m}))"),
    "other_number": Lesson("python", PROGRAMS["other_number"], "print({lcm} // {a})"),
    "box_diagonal": Lesson(
        "calculator",
        "sqrt({edges[0]}^2 + {edges[1]}^2 + {edges[2]}^2)",
        "sqrt({edges[0]}^2 + {edges[1]}^2)",
        levels=(1, 2),
    ),
    "chord_length": Lesson("calculator", "2 * sqrt({r}^2 - {d}^2)", "sqrt({r}^2 - {d}^2)", levels=(1,)),
    "shared_work": Lesson(
        "calculator", "1 / (1/{hours[0]} + 1/{hours[1]})", "1/{hours[0]} + 1/{hours[1]}", levels=(1,)
    ),
    "committee": Lesson("calculator", "binomial({women}, {k})", "{women} * {k}", levels=(1,), by_heart=True),
}
"""Lessons by family of problems."""


def lesson(task: Task) -> Lesson | None:
    """Return the lesson of a task, its formulas filled in, or None if there is none."""
    known = LESSONS.get(task.intent) if task.domain == "math" else None
    if known is None or task.difficulty not in known.levels:
        return None
    given = task.bindings["given"]
    return msgspec.structs.replace(known, input=known.input.format(**given), mistake=known.mistake.format(**given))


def options(hardness: float) -> dict[str, Any]:
    """Return the options with which it teaches, however hard the game is to be: a simulated Python."""
    return {"python": "simulated"}


def knows(task: Task) -> bool:
    """Return whether the teacher can teach a task."""
    return lesson(task) is not None


def teach(play: TMATRPlay) -> str:
    """Return what the agent to move should say.

    Raises:
        OptionError: There is no lesson for the task.
    """
    known = _known(play)
    match play.atom:
        case Action.DECIDE:
            if known.by_heart:
                return _decision(REASON, RECALL)
            values = [
                _value(call) for call in play.episode.calls if (call.name, call.status) == (known.tool, Status.OK)
            ]
            return _decision(REASON, f"{GIVE} {values[-1]}") if values else _decision(CALL, COMPUTE)
        case Action.SELECT:
            return _selection(known.tool)
        case Action.EXECUTE:
            return _input(known.input)
        case Action.PLAN:
            return _plan(_TELL)
        case _:
            return _inference(_answer(play))


def inject_error(play: TMATRPlay, rng: random.Random) -> str:
    """Return a wrong decision of the agent to move, in the form in which `teach` writes the right one.

    DECIDE takes the other branch, or gives a number that is not the result; SELECT takes another tool; EXECUTE makes
    the mistake of the lesson; PLAN leads to no answer; INFER gives none or another one, or one where it should give
    none. Mistakes are made in few ways, so that a small model learns two ways of deciding and not to spell badly.

    Raises:
        OptionError: There is no lesson for the task.
    """
    known = _known(play)
    match play.atom:
        case Action.DECIDE:
            right = teach(play)
            if CALL in right:
                return _decision(REASON, RECALL)
            if RECALL in right or rng.random() < 0.5:
                return _decision(CALL, COMPUTE)
            return _decision(REASON, f"{GIVE} {_other_number(play, right)}")
        case Action.SELECT:
            return _selection(rng.choice([name for name in play.tools if name != known.tool]))
        case Action.EXECUTE:
            return _input(known.mistake)
        case Action.PLAN:
            return _plan(_WONDER)
        case _:
            answer = _answer(play)
            if answer is not None and rng.random() < 0.5:
                return _inference(None)
            return _inference(_other_number(play, answer or ""))


def _known(play: TMATRPlay) -> Lesson:
    known = lesson(play.task)
    if known is None:
        families = ", ".join(LESSONS)
        raise OptionError(f"There is no lesson for {play.task.id}; there are for the families {families}.")
    return known


def _answer(play: TMATRPlay) -> str | None:
    """Return the answer that follows from goal and plan, or None if none does."""
    if play.plan == _WONDER:
        return None
    if play.goal.startswith(GIVE):
        return play.goal[len(GIVE) :].strip()
    return boxed(play.task.answer) if play.goal == RECALL and _known(play).by_heart else None


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
    known = set(_NUMBER.findall(right))
    return next((number for number in numbers if number not in known), "0")


def _decision(branch: str, goal: str) -> str:
    return f"<ACTION>{branch}</ACTION><GOAL>{goal}</GOAL>"


def _selection(tool: str) -> str:
    return f"<REASON>It computes.</REASON><SELECTED_TOOL>{tool}</SELECTED_TOOL>"


def _input(text: str) -> str:
    return f"<TOOL_INPUT>{text}</TOOL_INPUT>"


def _plan(steps: str) -> str:
    return f"<REASONING_STEPS>{steps}</REASONING_STEPS>"


def _inference(answer: str | None) -> str:
    if answer is None:
        return "<THINK>Step 1: I do not know it.</THINK>"
    return rf"<THINK>Step 1: It is {answer}.</THINK><ANSWER>\boxed{{{answer}}}</ANSWER>"
