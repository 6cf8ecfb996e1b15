"""The rules of an episode, independent of any environment interface.

A `Play` takes the message of the current agent, gives agents their observations, chooses the next agent, runs calls on
a session, keeps histories, clock and costs, and at the end asks for the verdict. The Gymnasium and PettingZoo
environments translate between their interfaces and this class; evaluation, search and learners that branch episodes
may use it directly. The rules of a protocol are a subclass with one method, `Play._on_message`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec

from toolorchestra.agents.messages.model_message import ModelMessage, ParsedCall
from toolorchestra.agents.messages.reading import read_text
from toolorchestra.agents.messages.token_counts import BYTES, opening_size, text_size
from toolorchestra.envs.executor import Outages, execute
from toolorchestra.envs.judge.model_judge import ModelJudge, review
from toolorchestra.envs.orchestrator_rates import OrchestratorRates
from toolorchestra.envs.records.episode import ABANDONED, CallRecord, Episode, Outcome, Turn, measured
from toolorchestra.envs.records.recorded_calls import RecordedCalls
from toolorchestra.envs.records.unjudged import INVALID_OUTCOMES, error_text, no_answer_after
from toolorchestra.envs.world import World, WorldSession
from toolorchestra.toolscale.answers.answers import in_form
from toolorchestra.toolscale.answers.prose_answers import JUDGED_LABEL, LABEL
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tasks.verify import Failure, Verdict
from toolorchestra.toolscale.tools.tool import Tool, ToolContext


@dataclass(frozen=True)
class EpisodeLimits:
    """When an episode ends without an answer.

    Attributes:
        turns: Maximum number of messages, of all agents together (ToolOrchestra §4.4: 50).
        cost: Maximum US dollars, those of the agents' own messages included, or None.
        seconds: Maximum virtual seconds, likewise, or None.
        result_characters: Maximum characters of a result in an observation; longer results are cut.
    """

    turns: int = 50
    cost: float | None = None
    seconds: float | None = None
    result_characters: int = 16_384

    def __post_init__(self) -> None:
        limits = {"max_turns": self.turns, "max_cost": self.cost, "max_seconds": self.seconds}
        for name, value in {**limits, "result_characters": self.result_characters}.items():
            if value is not None and not value > 0:
                raise OptionError(f"`{name}` must be positive, got {value!r}.")


Rewrite = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
"""Makes another history of one, without changing it."""
_Spent = tuple[tuple[int, int], float, float]  # tokens read and written, US dollars, virtual seconds


class PlayStart(msgspec.Struct, frozen=True, gc=False):
    """What an episode begins with.

    Attributes:
        world: Where it takes place.
        session: A session of the world; it is reset.
        task: The task.
        episode: The record to be filled, with the agents, the prompt and the names of the tools.
        limits: When it ends without an answer.
        tools: Tools that can be called, by name; those of the world that the record names by default.
        typed: The slots of the final answer and what is right in them, if it is not prose.
        rates: Price and speed of the agents' own messages; None: they cost nothing and take no time.
        judge: A model that judges answers in prose, if there is one.
        outages: What an outage of a model or server behind a tool is: ``infra_error`` ends the episode unjudged,
            ``observed`` is the result of the call.
        repair: Whether calls in other forms than those asked for are made.
    """

    world: World
    session: WorldSession
    task: Task
    episode: Episode
    limits: EpisodeLimits
    tools: Mapping[str, Tool] | None = None
    typed: TypedAnswer | None = None
    rates: OrchestratorRates | None = None
    judge: ModelJudge | None = None
    outages: Outages = "infra_error"
    repair: bool = True


@dataclass(frozen=True)
class PlaySnapshot:
    """The whole state of a `Play`: a copy of it without a session, and the state of the session."""

    play: Play
    session: Any

    def restored(self, session: WorldSession) -> Play:
        """Return a play in this state, on a session of the same world."""
        play = self.play.fork(session)
        session.restore(self.session)
        return play


class Play(ABC):
    """An episode of `task` in `world`, in which the agents of `episode` take turns.

    Override `_on_message`: it reads a message of the current agent and applies the rules by calling `observe`,
    `run_calls`, `pass_to`, `judge` and `close`. A protocol with other actions than text overrides `_read`; one whose
    reward is not the outcome overrides `_set_reward`. The other methods need not be overridden. State that a subclass
    keeps outside of the record must be immutable, or be copied in `fork`.

    Args:
        start: What an episode begins with. A protocol's rules take further arguments of their own.

    Attributes:
        episode: The record so far.
        tools: Tools that can be called, by name.
        measured: Names of the tools in the order of M.
        typed: The slots of the final answer and what is right in them, if it is not prose.
        current_agent: The agent that writes the next message.
        histories: The private history of each agent, as OpenAI messages.
        closed_histories: The histories of agents before they were rewritten (`rewrite`), by agent, the oldest first.
        verdict: The judgement, once an answer was given.
        truncated: Whether a limit or an infrastructure error ended it.
        rates: Price and speed of the agents' own messages, if they cost anything.
        model_judge: A model that judges answers in prose, if there is one.
        outages: What an outage of a model or server is.
        repair: Whether calls in other forms than those asked for are made.
        schemas_size: Bytes of the schemas of its tools that an agent reads beside its history.
    """

    human_agents: ClassVar[tuple[str, ...]] = ()
    """Agents who are people: what they write costs nothing."""
    recorded: RecordedCalls | None = None
    """The calls of the record whose messages are taken again; None: this episode is no replay."""

    def __init__(self, start: PlayStart) -> None:
        world, episode, tools = start.world, start.episode, start.tools
        self.world = world
        self.session: Any = start.session
        self.task = start.task
        self.episode = episode
        self.limits = start.limits
        self.typed = start.typed
        if start.typed is None and isinstance(world, Domain):
            episode.details = {**episode.details, "answer": LABEL if start.judge is None else JUDGED_LABEL}
        every = world.tools
        if tools is None:
            tools = every if len(episode.tools) == len(every) else {name: every[name] for name in episode.tools}
        self.tools = tools
        self.measured = measured(episode.tools)
        self.current_agent = episode.agents[0]
        self.histories = {agent: episode.opening(agent) for agent in episode.agents}
        self.closed_histories: dict[str, tuple[list[dict[str, Any]], ...]] = {}
        self.verdict: Verdict | None = None
        self.truncated = False
        self.rates = start.rates
        self.model_judge = start.judge
        self.outages: Outages = start.outages
        self.repair = start.repair
        self.schemas_size = 0
        self._conversations: dict[str, int] = {}  # bytes read and written by agents who wrote something
        self._calls_made = 0
        self._calls: list[CallRecord] = []
        self._rewrites: dict[str, Rewrite] = {}
        self._observations: dict[str, str] = {}
        self._observed_messages: dict[str, Sequence[dict[str, Any]]] = {}
        start.session.reset()

    # --- the rules: override these

    @abstractmethod
    def _on_message(self, agent: str, message: ModelMessage) -> None:
        """Apply the rules to `message` of the current agent, `agent`."""

    def _read(self, action: Any) -> ModelMessage:
        """Return an action as a message without calls: what has no text counts as an empty one."""
        return read_text(action)

    def _written(self, message: ModelMessage) -> dict[str, Any]:
        """Return a message as it stands in the record and in the history of its agent."""
        return message.recorded

    def _set_reward(self, *, solved: bool) -> None:
        """Set the rewards of an episode that is over and judged, when its last turn is recorded."""
        self._reward(float(solved))

    # --- methods for the rules

    def observe(self, agent: str, text: str, messages: Sequence[dict[str, Any]] | None = None) -> None:
        """Give `agent`, and no other, an observation; several texts of a turn are joined.

        Args:
            agent: The agent that observes it.
            text: The text.
            messages: The same as messages of its history; one user message by default.
        """
        observations = self._observations
        observations[agent] = f"{observations[agent]}\n\n{text}" if agent in observations else text
        if messages is not None:
            self._observed_messages[agent] = messages

    def rewrite(self, agent: str, rewritten: Rewrite) -> None:
        """Let `agent` go on with another history, which a function makes of the present one.

        It takes effect after the message in progress, before its observations. What was in the history is charged again
        when the agent reads it, and stays in `closed_histories`.
        """
        self._rewrites[agent] = rewritten

    def pass_to(self, agent: str) -> None:
        """Let `agent` write the next message; otherwise the current one goes on."""
        self.current_agent = agent

    def call(self, name: str, arguments: Mapping[str, Any]) -> CallRecord:
        """Run one tool for the current agent and return its record; see `run_calls`."""
        return self.run_calls([ParsedCall(name, msgspec.json.encode(arguments))])[0]

    def run_calls(
        self, calls: Sequence[ParsedCall], tools: Mapping[str, Tool] | None = None, text: str = ""
    ) -> list[CallRecord]:
        """Run calls of the current agent, add their costs, and let the clock pass to the end of the last one.

        Args:
            calls: The calls.
            tools: Tools that the agent may call; all by default.
            text: Text of its message beside the calls.
        """
        if tools is None:
            tools = self.tools
        episode, history = self.episode, self.histories[self.current_agent]
        context = ToolContext(self.session, self.task, self.world, episode, history, tools, text, typed=self.typed)
        run = execute if self.recorded is None else self.recorded.replay
        records = run(calls, context, clock=episode.clock, first=self._calls_made + 1, outages=self.outages)
        self._book(records)
        return records

    def stated(self, answer: str, form: Callable[[str], str] = in_form) -> str:
        """Return a final answer as it is judged: to a question, a bare one is put into a box, or into another form."""
        of_question = self.task.communicate and not isinstance(self.world, Domain)
        return form(answer) if of_question else answer

    def judge(self, answer: str) -> None:
        """End the episode with a final answer.

        An answer that makes the verifier fail is wrong: it is a judge error only where the reference answer makes it
        fail too. It is one as well where a model should judge, and does not.
        """
        verdict = self.verdict_on(answer)
        if isinstance(verdict, Exception):
            self._break_off("judge_error", verdict)
        else:
            self.verdict, self.episode.answer = verdict, answer
            self.close(solved=verdict.solved, why=str(verdict))

    def verdict_on(self, answer: str) -> Verdict | Exception:
        """Return the verdict on an answer, or the verifier's error if the reference answer causes one too.

        A model judges it in the end, if there is one; the record notes it. Its failure is returned likewise.
        """
        try:
            verdict = self._verified(answer)
        except Exception as caused:
            why = f"the answer cannot be judged ({type(caused).__name__})"
        else:
            return verdict if self.model_judge is None else self._reviewed(self.model_judge, answer, verdict)
        try:
            self.world.verify(self.task, self.session, self.task.answer)
        except Exception as error:  # an error of the verifier is not the agent's failure
            return error
        return Verdict((Failure("answer", why),))

    def _verified(self, answer: str) -> Verdict:
        if self.typed is None:
            return self.world.verify(self.task, self.session, answer)
        assert isinstance(self.world, Domain), "only tasks in domains have typed answers"
        return self.world.verify(self.task, self.session, answer, self.typed)

    def _reviewed(self, judge: ModelJudge, answer: str, verdict: Verdict) -> Verdict | Exception:
        try:
            records = [*self.episode.calls, *self._calls]  # those of the turn in progress too
            reviewed = review(judge, self.task, answer, verdict, records)
        except Exception as error:  # a chat model of the user's own, or its record, has a fault
            return error
        if reviewed is None:
            return verdict
        self.episode.details = {**self.episode.details, "judge": reviewed.note}
        return reviewed.verdict

    def close(self, *, solved: bool, why: str) -> None:
        """End the episode; rewards are set when its last turn is recorded."""
        self.episode.outcome, self.episode.why = "solved" if solved else "failed", why

    def _book(self, records: Sequence[CallRecord]) -> None:
        """Add calls to the turn, their costs to the episode's, and let the clock pass to the end of the last one."""
        self._calls += records
        self._calls_made += len(records)
        episode = self.episode
        cost, clock = episode.cost, episode.clock
        for record in records:
            cost += record.cost
            if record.end > clock:
                clock = record.end
        episode.cost, episode.clock = cost, clock

    def _reward(self, reward: float, parts: Mapping[str, float] | None = None) -> None:
        """Give every agent the same reward, which may have parts."""
        episode = self.episode
        episode.reward, episode.rewards = reward, dict.fromkeys(episode.agents, reward)
        if parts is not None:
            episode.reward_parts = dict(parts)

    def _break_off(self, outcome: Outcome, error: Exception | str) -> None:
        """End the episode by an infrastructure error."""
        self.truncated = True
        self.episode.outcome = outcome
        self.episode.why = error if isinstance(error, str) else error_text(error)

    # --- machinery

    @property
    def may_block(self) -> bool | None:
        """Whether a message may wait for something outside this process: a tool, or a model that judges.

        None: not known.
        """
        return self.model_judge is not None or any(tool.blocking for tool in self.tools.values())

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.episode.outcome is not None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history of the first agent, which is the conversation where there is no other."""
        return self.histories[self.episode.agents[0]]

    def act(self, action: Any) -> Turn:
        """Take an action of the current agent and return the turn; never raises for what the action says."""
        episode, agent = self.episode, self.current_agent
        if self.episode.outcome is not None:
            raise OptionError("The episode is over. Call reset() to begin another.")
        self._calls = []
        observations = self._observations = {}
        shown = self._observed_messages = {}
        rewrites = self._rewrites = {}
        message = self._read(action)
        spent = None
        try:
            if self.rates is not None and agent not in self.human_agents:
                spent = self._charge(agent, message, self.rates)
            self._on_message(agent, message)
        except Exception as error:  # an error of the library or its tools, not of the policy
            self._break_off("infra_error", error)
        written = self._written(message)
        paid = () if spent is None else (None, None, *spent)
        turn = Turn(written, tuple(self._calls), observations, agent, *paid)
        if repaired := message.repaired:
            turn = msgspec.structs.replace(turn, repaired=repaired)
        episode.turns.append(turn)
        histories, conversations = self.histories, self._conversations
        histories[agent].append(written)
        for name, rewritten in rewrites.items():
            self.closed_histories[name] = (*self.closed_histories.get(name, ()), histories[name])
            histories[name] = rewritten(histories[name])
            conversations.pop(name, None)
        for name, text in observations.items():
            if name in conversations:
                conversations[name] += len(text) if text.isascii() else text_size(text)
            if name in shown:
                histories[name] += shown[name]
            else:
                histories[name].append({"role": "user", "content": text})
        if episode.outcome is None and (reason := self._limit_reached()):
            self.stop(reason)
        elif episode.outcome == "solved" or episode.outcome == "failed":
            self._set_reward(solved=episode.outcome == "solved")
        return turn

    def stop(self, why: str, outcome: Outcome = "failed") -> None:
        """End the episode from outside, between two messages; nothing happens if it is over.

        It is ``failed`` with the reward as by a limit of its own, or one of `INVALID_OUTCOMES` without any.
        """
        if self.over:
            return
        if outcome in INVALID_OUTCOMES:
            self._break_off(outcome, why)
        else:
            self.truncated = True
            self.close(solved=False, why=why)
        if self.episode.outcome == "failed":
            self._set_reward(solved=False)

    def _charge(self, agent: str, message: ModelMessage, rates: OrchestratorRates) -> _Spent:
        """Let an agent's message cost money and take time; return its tokens, read and written, and both."""
        size = self._conversations.get(agent)
        if size is None:
            size = self.schemas_size
            for entry in self.histories[agent]:
                size += opening_size(entry["content"])
        length = message.size
        self._conversations[agent] = size + length
        read = -(-size // BYTES)
        written = -(-length // BYTES) + 1  # and the end of the message
        read_price, written_price, pace = rates
        cost, seconds = read * read_price + written * written_price, written * pace
        episode = self.episode
        episode.cost += cost
        episode.clock += seconds
        return (read, written), cost, seconds

    def sampled(self, token_ids: Sequence[int], logprobs: Sequence[float]) -> None:
        """Note the policy's own tokens of the last message, and their log-probabilities, in the record."""
        turns = self.episode.turns
        turns[-1] = msgspec.structs.replace(turns[-1], token_ids=tuple(token_ids), logprobs=tuple(logprobs))

    def new_messages(self, agent: str) -> list[dict[str, Any]]:
        """Return the observations of an agent since its last message; before its first message, its opening."""
        history = self.histories[agent]
        spoken = next((n for n in reversed(range(len(history))) if history[n]["role"] == "assistant"), -1)
        return history[spoken + 1 :]

    def fork(self, session: WorldSession | None) -> Self:
        """Return a play in the same state, which goes on apart from this one, on a session in the same state."""
        twin = object.__new__(type(self))  # copy.copy would open a session of its own, for nothing
        twin.__dict__.update(self.__dict__)
        twin.session = session
        twin.episode = self.episode.copied()
        twin._observed_messages, twin._rewrites = {}, {}
        twin._conversations = dict(self._conversations)
        twin.closed_histories = dict(self.closed_histories)
        twin.histories = {agent: list(history) for agent, history in self.histories.items()}
        return twin

    def branch(self) -> Self:
        """Return a play in the same state, which goes on apart from this one, on a new session."""
        session = self.world.session()
        twin = self.fork(session)
        session.restore(self.session.snapshot())
        return twin

    def snapshot(self) -> PlaySnapshot:
        """Return the whole state of the episode, from which any number of episodes can go on."""
        return PlaySnapshot(self.fork(None), self.session.snapshot())

    def check_continues(self, other: Episode) -> None:
        """Raise `OptionError` unless another record continues this one."""
        mine, turns = self.episode, self.episode.turns
        same = (mine.task_id, mine.seed, mine.noise_seed) == (other.task_id, other.seed, other.noise_seed)
        if not same or other.turns[: len(turns)] != turns:
            raise OptionError("Costs are kept from a snapshot of the episode in progress only; this is another's.")

    def keep_costs(self, left: Episode) -> None:
        """Count what a continuation of this episode cost that was taken back."""
        episode, before = self.episode, left.details.get(ABANDONED, {})
        calls = (sum(len(turn.calls) for turn in one.turns) for one in (left, episode))
        spent = {
            "turns": before.get("turns", 0) + len(left.turns) - len(episode.turns),
            "calls": before.get("calls", 0) + next(calls) - next(calls),
            "cost": left.cost - episode.cost + episode.details.get(ABANDONED, {}).get("cost", 0.0),
            "clock": left.clock - episode.clock + episode.details.get(ABANDONED, {}).get("clock", 0.0),
        }
        episode.details = {**episode.details, ABANDONED: spent}
        episode.cost, episode.clock = left.cost, left.clock

    def __getstate__(self) -> dict[str, Any]:
        """Leave the session behind: a copy begins with one of its own, in the same state."""
        if self.session is None:  # of a snapshot
            return dict(self.__dict__)
        return {**self.__dict__, "session": None, "_session_state": self.session.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = "_session_state" in state
        session_state = state.pop("_session_state", None)
        self.__dict__.update(state)
        self.current_agent = sys.intern(self.current_agent)  # records tell the default agent by identity
        if held:
            self.session = self.world.session()
            self.session.restore(session_state)

    def _limit_reached(self) -> str:
        """Return which limit is reached, or nothing."""
        episode, limits = self.episode, self.limits
        if limits.cost is not None and episode.cost > limits.cost:
            return f"the budget of ${limits.cost:g} is spent"
        if limits.seconds is not None and episode.clock > limits.seconds:
            return f"the time of {limits.seconds:g} s is spent"
        if len(episode.turns) >= limits.turns:
            return no_answer_after(limits.turns)
        return ""
