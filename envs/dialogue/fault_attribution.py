"""Which agent caused the failure of a dialogue.

A *tool* is at fault when it raised or timed out; the *user* when its messages or calls contradict its scenario, when it
withheld a fact, or ended the dialogue too early or never; the *orchestrator* when the database or its texts are wrong.
Faults are in this order, because later ones may follow from earlier ones.

Messages are read as `ScriptedUser` reads them, by phrases. Some errors of a model's user are not recognised, and the
fault is then the orchestrator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from toolorchestra.envs.dialogue.scenario import ORCHESTRATOR, STOP, USER, received_and_replied
from toolorchestra.envs.dialogue.user import facts_not_given, unhelpful
from toolorchestra.envs.dialogue.user_reading import asks_if_done, reports_done, requested_facts, requests
from toolorchestra.envs.records.episode import CallRecord
from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.tasks.verify import Verdict
from toolorchestra.toolscale.tools.tool import Status


class AttributedFault(msgspec.Struct, frozen=True):
    """Something that went wrong.

    Attributes:
        agent: The agent at fault.
        kind: Of a tool ``error``, ``timeout``. Of the user ``contrary`` (stated a value that it does not know),
            ``withheld`` (a fact), ``early`` (ended its part before a report that all is done), ``endless`` (did not
            end it), ``call`` (a malformed call, or one with invented values), ``refused`` (a call that it was asked
            for). Of the orchestrator ``execution``, ``completeness``, ``fidelity`` (the criteria of verification),
            ``malformed`` (calls), ``gave up`` (the user did), ``unfinished``.
        message: Description of the fault.
    """

    agent: Literal["tool", "user", "orchestrator"]
    kind: str
    message: str


def attributed(play: Any, verdict: Verdict) -> tuple[AttributedFault, ...]:
    """Return what went wrong in an episode that ends unsolved, the decisive fault first; there is at least one.

    `play` is a `toolorchestra.envs.dialogue.play.DialoguePlay`, `verdict` that on the orchestrator's texts so far.
    """
    late = [call for call in play.episode.calls if call.status is Status.TIMEOUT]
    faults = [AttributedFault("tool", "timeout", f"{call.name}: {call.error}") for call in late]
    faults += [*_of_user(play, verdict), *_of_orchestrator(play, verdict)]
    unfinished = AttributedFault(ORCHESTRATOR, "unfinished", "did not end the dialogue")
    return tuple(dict.fromkeys(faults or [unfinished]))


def _of_user(play: Any, verdict: Verdict) -> Iterator[AttributedFault]:
    scenario, history = play.scenario, play.histories[USER]
    conversation = received_and_replied(history)
    yield from _invented(play)
    for number, (received, reply) in enumerate(conversation[1:], 1):
        requested = facts_not_given(requested_facts(received, scenario.facts), conversation[:number])
        replied = reply and STOP not in reply
        if requested and replied and len(facts_not_given(requested, [("", reply)])) == len(requested):
            for fact in facts_not_given(requested, conversation):
                yield AttributedFault(USER, "withheld", f"was asked for the {fact.label} and did not tell it")
    made = [(call.name, call.arguments) for call in _calls(play, USER)]
    wanted = [call for received, _ in conversation for call in requests(received, scenario.tools)]
    for call in wanted:
        if (call.name, call.arguments) not in made and call.name not in [name for name, given in made if given is None]:
            yield AttributedFault(USER, "refused", f"was asked to call {call.name} and did not")
    for name, given in made:
        if given is None and name not in [call.name for call in wanted]:
            yield AttributedFault(USER, "call", f"made a call of {name or 'no tool'} that cannot be read")
    received = conversation[-1][0]
    if play.truncated:
        if verdict.solved and any(reports_done(received) for received, _ in conversation):
            yield AttributedFault(
                USER, "endless", "did not end the conversation after it was told that everything is done"
            )
    elif play.user_left and unhelpful(scenario, history) <= scenario.persona.max_unhelpful:
        done = len(conversation) > 1 and reports_done(received, after_question=asks_if_done(conversation[-2][1]))
        if not done or facts_not_given(requested_facts(received, scenario.facts), conversation):
            yield AttributedFault(USER, "early", "ended the conversation before it was told that everything is done")


def _invented(play: Any) -> Iterator[AttributedFault]:
    """Yield the values in the user's texts and calls that are neither in its goal nor in earlier observations."""
    nouns = {fact.noun for fact in play.scenario.facts}
    known = tokens(play.scenario.goal)
    for turn in play.episode.turns:
        if turn.agent == USER and not turn.calls:
            for span in play.vocabulary.spans(turn.observations.get(ORCHESTRATOR, "")):
                telling = span.noun in nouns or any(c.isdigit() for c in span.value)
                if telling and not mentions(known, span.value):
                    yield AttributedFault(USER, "contrary", f"said {span.noun} {span.value!r}, which it does not know")
        elif turn.agent == USER:
            for call in turn.calls:
                for value in _values(call):
                    if not mentions(known, value):
                        message = f"called {call.name} with {value!r}, which it had from nowhere"
                        yield AttributedFault(USER, "call", message)
        known += tokens(turn.observations.get(USER, ""))


def _values(call: CallRecord) -> Iterator[str]:
    for value in (call.arguments or {}).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str | int | float) and not isinstance(item, bool):
                yield str(item)


def _of_orchestrator(play: Any, verdict: Verdict) -> Iterator[AttributedFault]:
    for failure in verdict.failures:
        yield AttributedFault(ORCHESTRATOR, failure.criterion, failure.message)
    for call in _calls(play, ORCHESTRATOR):
        if call.status is Status.PARSE_ERR:
            yield AttributedFault(ORCHESTRATOR, "malformed", f"{call.name or 'a call'}: {call.error}")
    if play.user_left and unhelpful(play.scenario, play.histories[USER]) > play.scenario.persona.max_unhelpful:
        yield AttributedFault(ORCHESTRATOR, "gave up", "brought the user no further until it gave up")


def _calls(play: Any, agent: str) -> list[CallRecord]:
    return [call for turn in play.episode.turns if turn.agent == agent for call in turn.calls]
