"""Demonstrations: episodes of oracles and other teachers, or recorded ones, as conversations and as token ids.

They are encoded by the policy's renderer exactly as the rollout engine would lay them out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from toolorchestra.agents.builtin.chat_template_renderer import ChatTemplateRenderer
from toolorchestra.agents.builtin.design_renderer import DesignRenderer
from toolorchestra.agents.builtin.renderer import Renderer
from toolorchestra.agents.messages.content import tool_call
from toolorchestra.agents.messages.model_message import Message
from toolorchestra.agents.messages.reading import read_message
from toolorchestra.agents.messages.template_forms import calls_as_text
from toolorchestra.agents.messages.tool_lines import tools_beside
from toolorchestra.agents.policies.base import Policy
from toolorchestra.agents.policies.exploration import ExplorerPolicy, QueryingOraclePolicy
from toolorchestra.agents.policies.reference import NoisyOraclePolicy, OraclePolicy
from toolorchestra.algos.activity import Count, Watch, unwatched
from toolorchestra.algos.options.one_agent import TeacherName, TrainSFT
from toolorchestra.envs.masorchestra.teacher import DesignTeacher
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.views import SingleAgentEnv
from toolorchestra.envs.records.episode import Episode, read_episodes
from toolorchestra.envs.run_episodes import EnvPool, run_policies
from toolorchestra.envs.starts import EpisodeStart, starts
from toolorchestra.envs.teachers import ViewTeacher, teacher_of
from toolorchestra.toolscale.common.errors import OptionError

Play = Callable[[gym.Env[Any, Any], Policy, Sequence[EpisodeStart]], Iterator["Demonstration"]]
"""How a policy demonstrates episodes: all of each, or the first message."""
_RESPONSES = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


@dataclass(frozen=True)
class Demonstration:
    """An episode to learn from; the last message of the conversation is the assistant's.

    `tools` are the OpenAI function schemas that the policy was shown beside the messages. The first `context` messages
    are only read: the policy's own among them were written in another conversation (`Play.rewrite`). Of several agents
    `agent` is the one whose side it is.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    difficulty: int = 0
    solved: bool = True
    context: int = 0
    agent: str = ""


def demonstrated(env: gym.Env[Any, Any], policy: Policy, plays: Sequence[EpisodeStart]) -> Iterator[Demonstration]:
    """Yield the episodes that a policy plays from these starts, those that were truncated left out."""
    for run in run_policies(EnvPool(lambda: env), lambda: policy, plays, retries=0):
        game = run.game
        if game.answered:
            tools, difficulty = tuple(tools_beside(game.opening)), int(game.opening.get("difficulty") or 0)
            shown = game.info["messages"]  # where there are no tools, calls are text
            messages = until_last_action(map(structured, shown) if game.opening["tools"] else shown)
            yield Demonstration(messages, tools, difficulty, game.outcome == "solved")


def first_messages(env: gym.Env[Any, Any], policy: Policy, plays: Iterable[EpisodeStart]) -> Iterator[Demonstration]:
    """Yield the first message of a policy at each of these starts; it is not run, since its success is not needed."""
    for start in plays:
        observation, info = env.reset(**start.arguments)
        policy.reset(env, observation, info)
        message = {"role": "assistant", "content": policy.act(observation, info)}
        yield Demonstration((*info["messages"], message), tuple(tools_beside(info)), int(info.get("difficulty") or 0))


def recorded(file: Path, env: gym.Env[Any, Any]) -> Iterator[Demonstration]:
    """Yield the answered episodes of a JSONL file (`toolorchestra rollout`) as demonstrations.

    The environment in which they were played is reset to each task for the schemas of its tools. It is an `OptionError`
    if it lacks a tool that an episode was played with.
    """
    for episode in read_episodes(file):
        if episode.answer is not None:
            opening, tools = recorded_opening(episode, env)
            messages = until_last_action([*opening, *recorded_turns(episode)])
            yield Demonstration(messages, tools, episode.difficulty, episode.outcome == "solved")


def recorded_opening(episode: Episode, env: gym.Env[Any, Any]) -> tuple[list[Message], tuple[Mapping[str, Any], ...]]:
    """Return the messages with which a recorded episode of one agent began, and the schemas shown beside them.

    Raises:
        OptionError: The environment lacks a tool that the episode was played with.
    """
    _, info = env.reset(seed=episode.seed, options={"task_id": episode.task_id})
    tools = {tool["function"]["name"]: tool for tool in info["tools"]}
    if missing := [name for name in episode.tools if name not in tools]:
        raise OptionError(
            f"{episode.task_id} was played with the tool {missing[0]!r}, which the environment does not have. Give the "
            "environment and the options with which the episodes were recorded."
        )
    first = str(info["messages"][-1]["content"])  # with what the protocol adds to the instruction
    added = first.removeprefix(env.unwrapped.episode.instruction)  # type: ignore[attr-defined]  # ours has one
    opening: list[Message] = [
        {"role": "system", "content": episode.prompt},
        {"role": "user", "content": episode.instruction + added},
    ]
    return opening, tuple(tools[name] for name in episode.tools) if tools_beside(info) else ()


def recorded_turns(episode: Episode) -> list[Message]:
    """Return the messages and observations of an episode of one agent; results are messages of the role ``tool``."""
    messages: list[Message] = []
    for turn in episode.turns:
        shown = _RESPONSES.findall(turn.observation)
        messages += [structured(turn.message, episode.tools), *({"role": "tool", "content": text} for text in shown)]
        if beside := _RESPONSES.sub("", turn.observation).strip():
            messages.append({"role": "user", "content": beside})
    return messages


def until_last_action(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return a conversation up to the assistant's last message; nothing if it has none."""
    found = list(messages)
    while found and found[-1]["role"] != "assistant":
        found.pop()
    return tuple(found)


def structured(message: Message, tools: Collection[str] = ()) -> Message:
    """Return an assistant message whose calls are written in its text, and can be read, as one with ``tool_calls``.

    `tools` are the names of those that it could call.
    """
    if message["role"] != "assistant" or message.get("tool_calls"):
        return message
    parsed = read_message(message, tools)
    if not parsed.calls or any(call.error for call in parsed.calls):
        return message
    calls = [tool_call(f"call_{n}", c.name, c.arguments.decode()) for n, c in enumerate(parsed.calls, 1)]
    return parsed.with_calls(calls)


def encode(renderer: Renderer, demonstration: Demonstration) -> tuple[list[int], list[int]]:
    """Return a demonstration's ids and mask (1 on the policy's own), as the rollout engine would lay them out.

    Raises:
        OptionError: The renderer's chat template loses tools or calls.
    """
    messages = list(demonstration.messages)
    if not demonstration.tools and isinstance(renderer, ChatTemplateRenderer):
        messages = [calls_as_text(message) for message in messages]  # as the system message asks for
    first = demonstration.context
    own = [n for n, message in enumerate(messages) if n >= first and message["role"] == "assistant"]
    ids = renderer.encode_prompt(messages[: own[0]], demonstration.tools)
    mask = [0] * len(ids)
    for at, following in zip(own, [*own[1:], len(messages)], strict=True):
        written = renderer.encode_action(messages[at], messages[:at])
        if isinstance(renderer, ChatTemplateRenderer):
            renderer.check_action(messages[at], written, demonstration.tools)
        answers = messages[at + 1 : following]
        shown = renderer.encode_results(answers, written) if answers else []
        ids = [*ids, *written, *shown]
        mask += [1] * len(written) + [0] * len(shown)
    return ids, mask


@dataclass(frozen=True)
class Candidates:
    """Episodes to learn from by their number, each played when it is asked for (`make`); some give no demonstration."""

    count: int
    make: Callable[[int], Sequence[Demonstration]]

    @classmethod
    def of(cls, demonstrations: Sequence[Demonstration]) -> Candidates:
        """Return demonstrations that are there already."""
        return cls(len(demonstrations), lambda number: [demonstrations[number]])

    def all(self, count: Count = lambda done: None) -> list[Demonstration]:
        """Play all episodes in their order, and return the demonstrations; `count` is called with how many are over."""
        found: list[Demonstration] = []
        for number in range(self.count):
            found += self.make(number)
            count(number + 1)
        return found


def candidates(env: gym.Env[Any, Any], config: TrainSFT) -> tuple[Candidates, Candidates]:
    """Return the episodes to learn from, recorded or of a teacher that suits the environment, and noisy ones.

    Only what is solved is learnt from, but for noisy episodes, whose mistakes are part of them.
    """
    if config.episodes:
        found = [d for file in config.episodes for d in recorded(file, env) if d.solved]
        if not found:
            raise OptionError(f"No solved, answered episode in {', '.join(map(str, config.episodes))}.")
        return Candidates.of(found), Candidates.of(())
    if not isinstance(env.unwrapped, SingleAgentEnv) and not hasattr(type(env.unwrapped), "task"):
        raise OptionError(
            f"{config.env} has no reference trajectories for the oracles to play. Record episodes with `toolorchestra "
            "rollout` and give them by --episodes, or train a --model without warm start."
        )
    plays = [start for level in starts(env, "train", config.levels).values() for start in level]
    several = [replace(start, seed=number) for number in range(config.replays) for start in plays]

    def played(policy: Policy, plays: Sequence[EpisodeStart], play: Play = demonstrated) -> Candidates:
        return Candidates(len(plays), lambda number: list(play(env, policy, [plays[number]])))

    def solved(policy: Policy, plays: Sequence[EpisodeStart]) -> Candidates:
        tried = played(policy, plays)
        return Candidates(tried.count, lambda number: [one for one in tried.make(number) if one.solved])

    if isinstance(env.unwrapped, SingleAgentEnv):
        return solved(ViewTeacher(config.seed), _known(env.unwrapped.multi_agent_env, several)), Candidates.of(())
    teacher = config.teacher or suitable_teacher(env, plays[0])

    match teacher:
        case "explorer":
            return solved(ExplorerPolicy(config.seed), plays), Candidates.of(())
        case "designer":
            right, wrong = DesignTeacher(config.seed), DesignTeacher(config.seed, config.error)
            return played(right, several, first_messages), played(wrong, several, first_messages)
        case "asking":
            asking, erring = (QueryingOraclePolicy(config.seed, error, config.ask) for error in (0.0, config.error))
            return solved(asking, several), played(erring, several)
        case _:
            again = plays * config.replays if config.small else several
            return solved(OraclePolicy(), plays), played(NoisyOraclePolicy(config.seed, config.error), again)


def _known(env: MultiAgentEnv, plays: Sequence[EpisodeStart]) -> list[EpisodeStart]:
    """Return the starts of those tasks that the protocol's teacher knows."""
    teacher = teacher_of(env)
    known = {task.id for task in env.source.tasks("train") if teacher.knows(task)}
    return [start for start in plays if start.options["task_id"] in known]


def demonstrate(
    env: gym.Env[Any, Any], config: TrainSFT, watch: Watch = unwatched
) -> tuple[list[Demonstration], list[Demonstration]]:
    """Play all `candidates`, and return solved episodes and noisy ones; `watch` shows how far that is.

    Raises:
        OptionError: No episode was solved.
    """
    good, noisy = candidates(env, config)
    with watch("Demonstrations", good.count + noisy.count) as count:
        found = good.all(count), noisy.all(lambda done: count(good.count + done))
    if not found[0]:
        raise OptionError(
            f"None of {good.count} episodes of the teacher in {config.env} was solved: there is nothing to learn from. "
            "Give other tasks (`difficulty`), another `teacher`, or solved `episodes`."
        )
    return found


def suitable_teacher(env: gym.Env[Any, Any], start: EpisodeStart) -> TeacherName:
    """Return the teacher that suits the tools of an environment of ours, and the task of a start."""
    _, info = env.reset(**start.arguments)
    names = {tool["function"]["name"] for tool in info["tools"]}
    if "final_answer" in names:  # experts are asked, and in a domain they do not know what its tools do
        return "asking" if env.unwrapped.task.reference_calls else "explorer"  # type: ignore[attr-defined]  # ours
    if DesignRenderer.speaks(info["tools"]):
        return "designer"
    return "asking" if any(name.startswith(("ask_", "math_", "code_", "query_")) for name in names) else "oracle"
