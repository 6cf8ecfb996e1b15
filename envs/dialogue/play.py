"""The rules of the dialogue, independent of any environment interface.

The *user* has a goal; the *orchestrator* has the tools. A text without calls goes to the other agent; calls are run,
and only the caller observes their results. The user begins the dialogue, and the orchestrator ends it with the call
`submit`; then the database and the answer are verified.

    user ──text──▶ orchestrator ──calls──▶ tools     orchestrator ──submit──▶ verdict
         ◀──text──              ◀─results──

A user that has enough writes ###STOP###; the orchestrator may then still call tools and submit, but nobody hears what
it writes. Where the answer is prose, ###STOP### ends the dialogue, and the orchestrator's texts are verified.

With tools of its own (dual control) there are actions that only the user can take.
"""

from __future__ import annotations

from typing import Any

import msgspec

from toolorchestra.agents.messages.model_message import ModelMessage
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.envs.dialogue.fault_attribution import AttributedFault, attributed
from toolorchestra.envs.dialogue.request_facts import FactVocabulary
from toolorchestra.envs.dialogue.scenario import MAX_TEXT_CHARACTERS, ORCHESTRATOR, STOP, USER, Scenario
from toolorchestra.envs.play import Play, PlayStart
from toolorchestra.envs.records.episode import Outcome
from toolorchestra.envs.tool_calling import shared_limit, shown_result, submit_last, submitted
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.tools.tool import Tool


class DialoguePlay(Play):
    """An episode of user and orchestrator.

    The record's ``details`` have the ``persona``, and at the end of an episode that is not solved the ``faults``.
    `scenario` is what the user knows, `vocabulary` has the values that occur in the tools' columns and choices.

    Attributes:
        user_left: Whether the user has ended its part.
        faults: What went wrong, and who caused it, the decisive one first; empty if the episode is solved.
    """

    human_agents = (USER,)

    def __init__(self, start: PlayStart, *, scenario: Scenario, vocabulary: FactVocabulary) -> None:
        super().__init__(start)
        self.scenario = scenario
        self.vocabulary = vocabulary
        self.user_left = False
        self.faults: tuple[AttributedFault, ...] = ()
        self.own: dict[str, dict[str, Tool]] = {USER: {}, ORCHESTRATOR: {}}
        for name, tool in self.world.tools.items():
            self.own[USER if name in scenario.tools else ORCHESTRATOR][name] = tool
        if SUBMIT in self.tools:
            self.own[ORCHESTRATOR][SUBMIT] = self.tools[SUBMIT]

    @property
    def answer(self) -> str:
        """What is verified if the dialogue ends now: nothing yet where the answer is typed, else `texts_to_user`."""
        return self.texts_to_user if self.typed is None else ""

    @property
    def texts_to_user(self) -> str:
        """The orchestrator's texts to the user so far."""
        return "\n\n".join(
            turn.observations[USER]
            for turn in self.episode.turns
            if turn.agent == ORCHESTRATOR and USER in turn.observations
        )

    def _read(self, action: Any) -> ModelMessage:
        message = read_message(action, self.own[self.current_agent], repair=self.repair)
        return submit_last(message) if self.typed is not None and self.current_agent == ORCHESTRATOR else message

    def _on_message(self, agent: str, message: ModelMessage) -> None:
        if message.calls:
            self._run(agent, message)
        elif agent == USER and STOP in message.text:
            self._end_of_user()
        elif self.user_left:
            self.close(solved=False, why=f"a message to nobody, the answer is given with {SUBMIT}")
        elif message.text:
            other = USER if agent == ORCHESTRATOR else ORCHESTRATOR
            self.observe(other, message.text[:MAX_TEXT_CHARACTERS])
            self.pass_to(other)
        else:
            self.observe(agent, "Nobody heard anything. Write to the other one, or call a tool.")

    def _end_of_user(self) -> None:
        self.user_left = True
        if self.typed is None:
            self.judge(self.texts_to_user)
        else:
            self.observe(ORCHESTRATOR, f"The user has ended the talk. Call {SUBMIT} with your answer.")
            self.pass_to(ORCHESTRATOR)

    def _run(self, agent: str, message: ModelMessage) -> None:
        """Run the calls of a message, of which `submit` ends the dialogue; only its agent observes their results."""
        records = self.run_calls(message.calls, self.own[agent], message.text)
        limit = shared_limit(self.limits.result_characters, len(records))
        results = (f"<tool_response>\n{shown_result(record, limit)}\n</tool_response>" for record in records)
        self.observe(agent, "\n".join(results))
        if (answer := submitted(message.calls, records)) is not None:
            self.judge(answer)

    def close(self, *, solved: bool, why: str) -> None:
        """End the episode; if it is not solved, attribute the faults."""
        faults: tuple[AttributedFault, ...] = ()
        if not solved:
            verdict = self.verdict or self.verdict_on(self.answer)
            if isinstance(verdict, Exception):  # a fault of the verifier must not be graded as an agent's
                self._break_off("judge_error", verdict)
                return
            faults = attributed(self, verdict)
            first = faults[0]
            why = f"{first.agent}: {why}" if first.message in why else f"{first.agent}: {first.message}; {why}"
        super().close(solved=solved, why=why)
        self._set_faults(faults)

    def _break_off(self, outcome: Outcome, error: Exception | str) -> None:
        super()._break_off(outcome, error)
        self._set_faults((AttributedFault("tool", "error", self.episode.why),))

    def _set_faults(self, faults: tuple[AttributedFault, ...]) -> None:
        self.faults = faults
        if faults:
            self.episode.details = {**self.episode.details, "faults": msgspec.to_builtins(faults)}
