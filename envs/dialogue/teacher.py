"""The scripted teacher of the dialogue: an orchestrator that knows the reference trajectory, and the scripted user.

It asks for the facts that the request leaves open, plays the look-ups and then the reference calls stage by stage, asks
the user for those that only the user can make, and gives the answer; where it is prose, with a report that all is done.
"""

from __future__ import annotations

import random
from itertools import takewhile

import msgspec

from toolorchestra.agents.messages.model_message import MAX_CALLS
from toolorchestra.agents.policies.base import write_calls
from toolorchestra.envs.dialogue.play import DialoguePlay
from toolorchestra.envs.dialogue.scenario import ORCHESTRATOR, USER, received_and_replied
from toolorchestra.envs.dialogue.user import facts_not_given, reply
from toolorchestra.envs.dialogue.user_reading import request
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.tasks.task import Call, Task

DONE = "Everything is done."
"""The report at the end."""


def teach(play: DialoguePlay) -> str:
    """Return the message that the current agent should write."""
    if play.current_agent == USER:
        return reply(play.scenario, play.histories[USER])
    left_open = [fact for fact in play.scenario.facts if f"[{fact.label}]" in play.scenario.request]
    if wanted := facts_not_given(left_open, received_and_replied(play.histories[USER])):
        return f"Please tell me the {', the '.join(fact.label for fact in wanted)}."
    rest = play.task.whole_path[sum(1 for _ in play.episode.calls) :]
    if not rest and play.typed is not None:
        return write_calls([Call(SUBMIT, {**msgspec.json.decode(play.typed.written()), "message": play.task.answer})])
    if not rest:
        return f"{play.task.answer} {DONE}"
    first = rest[0]
    users = first.name in play.scenario.tools
    now = list(takewhile(lambda call: (call.stage, call.name in play.scenario.tools) == (first.stage, users), rest))
    if users:
        return "Please do this: " + "; ".join(map(request, now))
    return write_calls(now[:MAX_CALLS])


def knows(task: Task) -> bool:
    """Return whether it can demonstrate a task: every task in a domain."""
    return True


def inject_error(play: DialoguePlay, rng: random.Random) -> str:
    """Return a wrong message of the current agent: a report that all is done, or a reply without the fact asked for."""
    return DONE if play.current_agent == ORCHESTRATOR else rng.choice(play.scenario.persona.insists)
