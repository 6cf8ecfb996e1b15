"""verifiers: tasks as a taskset, and games with one agent configuration per role.

verifiers (0.4) finds a taskset and its environment by the name of a module without dots that exports one class of each,
so a game is three lines of your own, of which `examples/verifiers` has one for each protocol:

    from toolorchestra.envs.bridges.verifiers import VerifiersMSARL, VerifiersTaskset

    __all__ = ["VerifiersMSARL", "VerifiersTaskset"]

Each role can have a model, an endpoint and limits of its own (``--env.helper.model``). The game plays the users of
the agents: an observation is a user's message, and the reply's text is the action. Tools and calls stand in the
text, since a role has no tools on verifiers' side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import verifiers.v1 as vf

from toolorchestra.envs.bridges.served import Observed, Served, served_environment
from toolorchestra.envs.records.episode import ORCHESTRATOR
from toolorchestra.envs.step_threads import StepThreads

_THREADS = StepThreads(32)


def _role() -> Any:
    """Return the configuration of a role that answers in text, on this machine: nothing of it runs in a container."""
    return vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})


class VerifiersTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # there are no types where it is not installed
    """Which environment is played, and on which of its tasks.

    Attributes:
        game: Id of an environment, folder of a domain, or JSONL file of tasks.
        options: Arguments of the environment.
        split: Split of the tasks.
        difficulty: Level of the tasks; None for all.
        seed: Seed of the first task's reset; that of each further one is one more.
    """

    game: str = "ToolOrchestra-Restaurant-v0"
    options: dict[str, Any] = {}  # noqa: RUF012 - pydantic copies it
    split: str = "test"
    difficulty: int | None = None
    seed: int = 0


class VerifiersTaskData(vf.TaskData):  # type: ignore[misc]
    """What begins an episode: the environment with its arguments, the task's id, the seed of the reset."""

    game: str
    options: dict[str, Any]
    task_id: str
    seed: int


class VerifiersTask(vf.Task[VerifiersTaskData]):  # type: ignore[misc]
    """A task; what is right is known to the environment only."""


class VerifiersTaskset(vf.Taskset[VerifiersTask, VerifiersTasksetConfig]):  # type: ignore[misc]
    """The tasks of a split, in their order."""

    def load(self) -> Iterator[VerifiersTask]:
        """Yield the tasks."""
        config = self.config
        env = served_environment(config.game, config.options)
        tasks = env.unwrapped.source.tasks(config.split)
        env.close()
        for number, task in enumerate(tasks):
            if config.difficulty in (None, task.difficulty):
                data = VerifiersTaskData(
                    id=task.id,
                    name=task.id,
                    game=config.game,
                    options=config.options,
                    task_id=task.id,
                    seed=config.seed + number,
                )
                yield VerifiersTask(data, config.task)


async def play_game(task: Any, agents: Any) -> None:
    """Play an episode, each role by its agent, and record each role's reward on its trace.

    A role whose agent ends early, by a limit of its own, ends the episode, which has failed then.

    Raises:
        RuntimeError: An infrastructure error ended it: it says nothing about the agents, so verifiers tries again.
    """
    data = task.data
    game = Served(data.game, data.options)
    try:
        async with AsyncExitStack() as stack:
            talks: dict[str, Any] = {}
            told: Observed = await _THREADS.run(game.env, lambda: game.reset(data.seed, task_id=data.task_id))
            while not told.done:
                role = told.info.get("agent", ORCHESTRATOR)
                if role not in talks:
                    talks[role] = await stack.enter_async_context(getattr(agents, role).interaction(task))
                segment = await talks[role].turn(told.text)
                if segment.terminated:
                    game.stop("no answer within the limits of the agent")
                    break
                reply = segment.last_reply
                told = await _THREADS.run(game.env, lambda reply=reply: game.step(reply))  # type: ignore[misc]
        episode = game.episode
        if episode.outcome in ("infra_error", "judge_error"):
            raise RuntimeError(f"The episode ended by an {episode.outcome}: {episode.why}")
        if any(talk.trace.errors for talk in talks.values()):
            return  # a model failed, which its trace says: there is no reward
        for role, talk in talks.items():
            talk.trace.record_reward("reward", episode.rewards.get(role, 0.0))
            talk.trace.record_metrics({"solved": episode.outcome == "solved", "cost": episode.cost})
            talk.trace.info["episode"] = msgspec.json.decode(episode.to_json())
    finally:
        game.close()


class VerifiersOrchestratorConfig(vf.EnvConfig):  # type: ignore[misc]
    """The one role of ToolOrchestra, ParaManager and MAS-Orchestra."""

    orchestrator: vf.AgentConfig = _role()


class VerifiersOrchestrator(vf.Env[VerifiersOrchestratorConfig]):  # type: ignore[misc]
    """A game of one orchestrator."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play it."""
        await play_game(task, agents)


class VerifiersMSARLConfig(vf.EnvConfig):  # type: ignore[misc]
    """The roles of MSARL."""

    reasoner: vf.AgentConfig = _role()
    helper: vf.AgentConfig = _role()


class VerifiersMSARL(vf.Env[VerifiersMSARLConfig]):  # type: ignore[misc]
    """A game of a reasoner, who may compute, and a helper, who reports what was computed."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play it."""
        await play_game(task, agents)


class VerifiersTMATRConfig(vf.EnvConfig):  # type: ignore[misc]
    """The roles of TMATR."""

    planner: vf.AgentConfig = _role()
    inferencer: vf.AgentConfig = _role()


class VerifiersTMATR(vf.Env[VerifiersTMATRConfig]):  # type: ignore[misc]
    """A game of a planner and an inferencer."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play it."""
        await play_game(task, agents)


class VerifiersDialogueConfig(vf.EnvConfig):  # type: ignore[misc]
    """The roles of a dialogue."""

    user: vf.AgentConfig = _role()
    orchestrator: vf.AgentConfig = _role()


class VerifiersDialogue(vf.Env[VerifiersDialogueConfig]):  # type: ignore[misc]
    """A game of an orchestrator and the user whom it serves; the user is not trained."""

    async def setup(self, agents: Any) -> None:
        """Leave the user as it is."""
        agents.user.trainable = False

    async def run(self, task: Any, agents: Any) -> None:
        """Play it."""
        await play_game(task, agents)
