"""One episode that several agents play: the rules of the game, with no environment around them.

A `JointPlay` takes the message of the agent whose turn it is, and says who is told what and who is next. Each agent has
a private history: what it was told and what it said, and nothing else. The environments translate between PettingZoo's
interface and this class; learners that branch episodes fork it.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec

from toolorchestra.envs.episode import CallRecord, Outcome
from toolorchestra.envs.executor import execute
from toolorchestra.envs.multiagent.record import JointEpisode, Move
from toolorchestra.envs.parsing import MAX_MESSAGE_CHARACTERS, ParsedCall
from toolorchestra.envs.play import World, WorldSession
from toolorchestra.toolscale.errors import OptionError
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Tool, ToolContext


class JointPlay(ABC):
    """An episode of `task` in `world`, in which the agents of `episode` take turns.

    Override `_take`, which reads a message of the agent to move and by `tell`, `call`, `pass_to` and `judge` does what
    the rules say. Everything else is machinery. A subclass keeps its state in the record (or overrides `fork`).

    Args:
        world: Where it takes place.
        session: A session of the world; it is reset.
        task: What is asked.
        episode: The record to be filled, with the agents and their openings.
        tools: Tools that the rules may call, by name.
        max_moves: Messages, of all agents together, after which the episode is truncated.

    Attributes:
        current_agent: The agent whose turn it is.
        histories: The private history of each agent, as OpenAI messages.
        truncated: Whether the limit or an error of ours ended it.
    """

    def __init__(
        self,
        world: World,
        session: WorldSession,
        task: Task,
        episode: JointEpisode,
        *,
        tools: Mapping[str, Tool],
        max_moves: int,
    ) -> None:
        self.world = world
        self.session = session
        self.task = task
        self.episode = episode
        self.tools = tools
        self.max_moves = max_moves
        self.current_agent = episode.agents[0]
        self.histories: dict[str, list[dict[str, Any]]] = {
            agent: list(episode.openings[agent]) for agent in episode.agents
        }
        self.truncated = False
        self._told: dict[str, str] = {}
        self._calls: list[CallRecord] = []
        session.reset()

    @abstractmethod
    def _take(self, agent: str, said: str) -> None:
        """Do what the rules say when `agent`, whose turn it is, says `said`."""

    # --- what the rules can do

    def tell(self, agent: str, text: str) -> None:
        """Show `agent`, and nobody else, a message; several ones of a move are joined."""
        self._told[agent] = f"{self._told[agent]}\n\n{text}" if agent in self._told else text

    def pass_to(self, agent: str) -> None:
        """Let `agent` move next; the one that moved goes on otherwise."""
        self.current_agent = agent

    def call(self, name: str, arguments: Mapping[str, Any], said: str = "") -> CallRecord:
        """Run a tool for the agent that moves, book what it costs and takes, and return the record."""
        episode = self.episode
        context = ToolContext(
            self.session,
            self.task,
            self.world,
            episode,
            self.histories[self.current_agent],
            self.tools,
            said,
            tuple(self._calls),
        )
        asked = ParsedCall(name, msgspec.json.encode(arguments))
        number = sum(1 for _ in episode.calls) + len(self._calls) + 1
        (record,) = execute([asked], self.tools, self.session, clock=episode.clock, first=number, context=context)
        episode.cost += record.cost
        episode.clock = max(episode.clock, record.end)
        self._calls.append(record)
        return record

    def judge(self, answer: str) -> None:
        """End the episode with a final answer, which earns every agent the same."""
        try:
            verdict = self.world.verify(self.task, self.session, answer)
        except Exception as error:  # a fault of the verifier must not be graded as a policy's
            self._break_off("judge_error", error)
        else:
            self.episode.answer = answer
            self.close(solved=verdict.solved, why=str(verdict))

    def close(self, *, solved: bool, why: str) -> None:
        """End the episode; every agent is paid the outcome."""
        episode = self.episode
        episode.outcome, episode.why, episode.reward = "solved" if solved else "failed", why, float(solved)
        episode.paid = dict.fromkeys(episode.agents, float(solved))

    # --- machinery

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.episode.outcome is not None

    def act(self, action: Any) -> Move:
        """Take a message of the agent to move and return what came of it; never raises for what it says.

        What is not a text counts as silence; one that is too long is cut.
        """
        if self.over:
            raise OptionError("The episode is over. Call reset() to begin another.")
        agent, said = self.current_agent, _readable(action)
        self._told, self._calls = {}, []
        try:
            self._take(agent, said)
        except Exception as error:  # a fault of the library or its tools, not of the policy
            self._break_off("infra_error", error)
        message = {"role": "assistant", "content": said}
        move = Move(message, tuple(self._calls), agent=agent, told=self._told)
        self.episode.turns.append(move)
        self.histories[agent].append(message)
        for name, text in self._told.items():
            self.histories[name].append({"role": "user", "content": text})
        if not self.over and len(self.episode.turns) >= self.max_moves:
            self.truncated = True
            self.close(solved=False, why=f"no answer after {self.max_moves} messages")
        return move

    def sampled(self, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Note the policy's own tokens of the last message, and their log-probabilities, in the record."""
        turns = self.episode.turns
        turns[-1] = msgspec.structs.replace(turns[-1], token_ids=tuple(token_ids), logprobs=tuple(logprobs))

    def new_messages(self, agent: str) -> list[dict[str, Any]]:
        """Return what an agent was told since it last spoke; its opening before it has."""
        history = self.histories[agent]
        spoken = next((n for n in reversed(range(len(history))) if history[n]["role"] == "assistant"), -1)
        return history[spoken + 1 :]

    def fork(self, session: WorldSession) -> Self:
        """Return a play in the same state, which goes on apart from this one, on a session in the same state."""
        twin = copy.copy(self)
        twin.session = session
        twin.episode = self.episode.copied()
        twin.histories = {agent: list(history) for agent, history in self.histories.items()}
        return twin

    def branch(self) -> Self:
        """Return a play in the same state, which goes on apart from this one, on a session of its own."""
        session = self.world.session()
        twin = self.fork(session)
        session.restore(self.session.snapshot())
        return twin

    def _break_off(self, outcome: Outcome, error: Exception) -> None:
        self.truncated = True
        self.episode.outcome, self.episode.why = outcome, f"{type(error).__name__}: {error}"


def _readable(action: Any) -> str:
    """Return what an agent said, without lone surrogates, which no file can hold."""
    if not isinstance(action, str):
        return ""
    return action[:MAX_MESSAGE_CHARACTERS].encode("utf-8", "replace").decode()
