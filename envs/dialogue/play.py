"""The rules of the dialogue, with no environment around them.

The *user* knows what it wants; the *orchestrator* has the tools. They talk: a text without calls goes to the other one,
and calls are run for who makes them, their results shown to it alone. The user begins, and ends the talk; then the
episode is judged by what has become of the database, and by what the orchestrator's texts told the user.

    user ──text──▶ orchestrator ──calls──▶ tools          user ──###STOP###──▶ verdict
         ◀──text──              ◀─results──

With tools of its own the user has a part in the work (dual control): there are things that only it can do.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from toolorchestra.envs.dialogue.fault_attribution import AttributedFault, attributed
from toolorchestra.envs.dialogue.request_facts import FactVocabulary
from toolorchestra.envs.dialogue.scenario import MAX_TEXT_CHARACTERS, ORCHESTRATOR, STOP, USER, Scenario
from toolorchestra.envs.episode import Outcome
from toolorchestra.envs.parsing import Message, parse
from toolorchestra.envs.play import Play, PlayStart
from toolorchestra.envs.tool_calling import shared_limit, shown_result
from toolorchestra.toolscale.tool import Tool


class DialoguePlay(Play):
    """An episode of user and orchestrator.

    The record's ``details`` have the ``persona``, and at the end of an episode that is not solved the ``faults``.

    Args:
        scenario: What the user knows.
        vocabulary: The values that the tools speak of.

    `start` is that of `Play`.

    Attributes:
        faults: What went wrong, and who caused it, the decisive one first; empty if the episode is solved.
    """

    def __init__(
        self,
        start: PlayStart,
        *,
        scenario: Scenario,
        vocabulary: FactVocabulary,
    ) -> None:
        super().__init__(start)
        self.scenario = scenario
        self.vocabulary = vocabulary
        self.faults: tuple[AttributedFault, ...] = ()
        self.own: dict[str, Mapping[str, Tool]] = {
            USER: {name: tool for name, tool in self.world.tools.items() if name in scenario.tools},
            ORCHESTRATOR: {name: tool for name, tool in self.world.tools.items() if name not in scenario.tools},
        }

    @property
    def told_user(self) -> str:
        """What the orchestrator has told the user so far."""
        return "\n\n".join(
            turn.observations[USER]
            for turn in self.episode.turns
            if turn.agent == ORCHESTRATOR and USER in turn.observations
        )

    def _take(self, agent: str, message: Message) -> None:
        written, message = message.text, parse(message.text)
        if message.calls:
            self._run(agent, message)
        elif agent == USER and STOP in written:
            self.judge(self.told_user)
        elif message.spoken:
            other = USER if agent == ORCHESTRATOR else ORCHESTRATOR
            self.observe(other, message.spoken[:MAX_TEXT_CHARACTERS])
            self.pass_to(other)
        else:
            self.observe(agent, "Nobody heard anything. Write to the other one, or call a tool.")

    def _run(self, agent: str, message: Message) -> None:
        """Run the calls of a message and show their results to who made them."""
        records = self.run_calls(message.calls, self.own[agent], message.text)
        limit = shared_limit(self.limits.result_characters, len(records))
        shown = (f"<tool_response>\n{shown_result(record, limit)}\n</tool_response>" for record in records)
        self.observe(agent, "\n".join(shown))

    def close(self, *, solved: bool, why: str) -> None:
        """End the episode; if it is not solved, say who caused that."""
        faults: tuple[AttributedFault, ...] = ()
        if not solved:
            try:
                verdict = self.world.verify(self.task, self.session, self.told_user)
            except Exception as error:  # a fault of the verifier must not be graded as an agent's
                self._break_off("judge_error", error)
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
