"""The rules of the dialogue, with no environment around them.

The *user* knows what it wants; the *orchestrator* has the tools. They talk: a text without calls goes to the other one,
and calls are run for who makes them, their results shown to it alone. The user begins, and ends the talk; then the
episode is judged by what has become of the database, and by what the orchestrator's texts told the user.

    user ──text──▶ orchestrator ──calls──▶ tools          user ──###STOP###──▶ verdict
         ◀──text──              ◀─results──

With tools of its own the user has a part in the work (dual control): there are things that only it can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolorchestra.envs.dialogue.fault_attribution import AttributedFault, attributed
from toolorchestra.envs.dialogue.request_facts import FactVocabulary
from toolorchestra.envs.dialogue.scenario import MAX_TEXT_CHARACTERS, ORCHESTRATOR, STOP, USER, Scenario
from toolorchestra.envs.episode import Outcome
from toolorchestra.envs.executor import execute
from toolorchestra.envs.multiagent.play import JointPlay
from toolorchestra.envs.multiagent.record import JointEpisode
from toolorchestra.envs.parsing import ParsedCall, parse
from toolorchestra.envs.play import MAX_OBSERVATION_CHARACTERS, World, WorldSession, shown_result
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Tool, ToolContext


class DialogueEpisode(JointEpisode, omit_defaults=True, kw_only=True):
    """The record of a dialogue.

    Attributes:
        persona: Who the user was.
        faults: What went wrong, and whose fault it was, the decisive one first; empty if the episode is solved.
    """

    persona: str
    faults: tuple[AttributedFault, ...] = ()


class DialoguePlay(JointPlay):
    """An episode of user and orchestrator.

    Args:
        world: Where it takes place; it judges the episode.
        session: A session of it.
        task: What the user wants.
        episode: The record to be filled.
        scenario: What the user knows.
        vocabulary: The values that the tools speak of.
        max_moves: Messages after which the episode is truncated.
        result_characters: Longest result shown.
    """

    episode: DialogueEpisode

    def __init__(
        self,
        world: World,
        session: WorldSession,
        task: Task,
        episode: DialogueEpisode,
        *,
        scenario: Scenario,
        vocabulary: FactVocabulary,
        max_moves: int,
        result_characters: int,
    ) -> None:
        super().__init__(world, session, task, episode, tools=world.tools, max_moves=max_moves)
        self.scenario = scenario
        self.vocabulary = vocabulary
        self.result_characters = result_characters
        self.own: dict[str, Mapping[str, Tool]] = {
            USER: {name: tool for name, tool in world.tools.items() if name in scenario.tools},
            ORCHESTRATOR: {name: tool for name, tool in world.tools.items() if name not in scenario.tools},
        }

    @property
    def told(self) -> str:
        """What the orchestrator has told the user so far."""
        return "\n\n".join(
            move.told[USER] for move in self.episode.turns if move.agent == ORCHESTRATOR and USER in move.told
        )

    def _take(self, agent: str, said: str) -> None:
        message = parse(said)
        if message.calls:
            self.tell(agent, self._run(agent, message.calls, message.text))
        elif agent == USER and STOP in said:
            self.judge(self.told)
        elif message.spoken:
            other = USER if agent == ORCHESTRATOR else ORCHESTRATOR
            self.tell(other, message.spoken[:MAX_TEXT_CHARACTERS])
            self.pass_to(other)
        else:
            self.tell(agent, "Nobody heard anything. Write to the other one, or call a tool.")

    def _run(self, agent: str, calls: Sequence[ParsedCall], said: str) -> str:
        """Run the calls of a message, book what they cost and take, and return their results as text."""
        episode, tools = self.episode, self.own[agent]
        records = execute(
            calls,
            tools,
            self.session,
            clock=episode.clock,
            first=sum(1 for _ in episode.calls) + 1,
            context=ToolContext(self.session, self.task, self.world, episode, self.histories[agent], tools, said),
        )
        self._calls += records
        episode.cost += sum(record.cost for record in records)
        episode.clock = max(episode.clock, *(record.end for record in records))
        limit = min(self.result_characters, MAX_OBSERVATION_CHARACTERS // (2 * len(records)) - 1_000)
        return "\n".join(f"<tool_response>\n{shown_result(record, limit)}\n</tool_response>" for record in records)

    def close(self, *, solved: bool, why: str) -> None:
        """End the episode; if it is not solved, say whose fault it is."""
        faults: tuple[AttributedFault, ...] = ()
        if not solved:
            try:
                verdict = self.world.verify(self.task, self.session, self.told)
            except Exception as error:  # a fault of the verifier must not be graded as an agent's
                self._break_off("judge_error", error)
                return
            faults = attributed(self, verdict)
            first = faults[0]
            why = f"{first.agent}: {why}" if first.message in why else f"{first.agent}: {first.message}; {why}"
        super().close(solved=solved, why=why)
        self.episode.faults = faults

    def _break_off(self, outcome: Outcome, error: Exception) -> None:
        super()._break_off(outcome, error)
        self.episode.faults = (AttributedFault("tool", "error", self.episode.why),)
