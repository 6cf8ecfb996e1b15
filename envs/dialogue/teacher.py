"""A teacher of the dialogue: an orchestrator that knows the reference trajectory, and the scripted user.

It asks for what the request leaves open, plays the reference calls stage by stage, asks the user for those that only
the user can make, and reports.
"""

from __future__ import annotations

import random
from itertools import takewhile

from toolorchestra.agents.policies.base import write_calls
from toolorchestra.envs.dialogue.play import DialoguePlay
from toolorchestra.envs.dialogue.scenario import ORCHESTRATOR, USER, heard_and_said
from toolorchestra.envs.dialogue.user import reply, untold
from toolorchestra.envs.dialogue.user_reading import request
from toolorchestra.envs.parsing import MAX_CALLS
from toolorchestra.toolscale.task import Task

DONE = "Everything is done."
"""What an orchestrator says at last."""


def teach(play: DialoguePlay) -> str:
    """Return what the agent to move should say."""
    if play.current_agent == USER:
        return reply(play.scenario, play.histories[USER])
    left_open = [fact for fact in play.scenario.facts if f"[{fact.label}]" in play.scenario.request]
    if wanted := untold(left_open, heard_and_said(play.histories[USER])):
        return f"Please tell me the {', the '.join(fact.label for fact in wanted)}."
    rest = play.task.reference_calls[sum(1 for _ in play.episode.calls) :]
    if not rest:
        return f"{play.task.answer} {DONE}"
    first = rest[0]
    users = first.name in play.scenario.tools
    now = list(takewhile(lambda call: (call.stage, call.name in play.scenario.tools) == (first.stage, users), rest))
    if users:
        return "Please do this: " + "; ".join(map(request, now))
    return write_calls(now[:MAX_CALLS])


def knows(task: Task) -> bool:
    """Return whether it can teach a task: every one in a domain."""
    return True


def inject_error(play: DialoguePlay, rng: random.Random) -> str:
    """Return what the agent to move might say by mistake: that all is done, or nothing that it was asked."""
    return DONE if play.current_agent == ORCHESTRATOR else rng.choice(play.scenario.persona.insists)
