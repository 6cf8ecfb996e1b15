"""An environment as a bridge plays it: one player who sends messages, reads texts, and is told the reward in parts.

The bridges to libraries that know one agent and messages of text stand on it: `toolorchestra.envs.bridges.openenv` and
others. An environment of several agents is played by one player for all of them in turn. Nothing here tells the player
more than a policy may know: the verdict and the reference trajectory stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from toolorchestra.agents.messages.tool_lines import tools_beside
from toolorchestra.envs.environment_names import make_named
from toolorchestra.envs.multiagent.views import CurrentAgentEnv
from toolorchestra.envs.played import stop
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.registration import is_multiagent, make_multiagent
from toolorchestra.toolscale.common.errors import OptionError, unknown_name

CHOICES = ("task_id", "split", "index", "difficulty", "preference")
"""What a player from outside may choose at a reset, beside the seed. Other options of a reset are for who made the
environment: some are names of files."""
OVER = "The episode is over, and nothing was done. Reset to begin another."


class Observed(msgspec.Struct, frozen=True):
    """What the player is told after a reset or a message.

    Attributes:
        text: The observation.
        messages: What was added to the conversation, as OpenAI messages.
        tools: OpenAI schemas of the tools, to be shown beside the messages; after a reset only. Empty where the
            messages list the tools, and in the text they are listed always.
        reward: Difference to what was told before: the sum over an episode is its reward. None if an infrastructure
            error ended it, so that there is no reward.
        done: Whether the episode is over.
        info: ``task_id``, ``split``, ``difficulty``, ``cost``, ``clock``, the ``agent`` whose turn it is where there
            are several, and at the end ``outcome``.
    """

    text: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    reward: float | None
    done: bool
    info: dict[str, Any]


class Served:
    """One episode after another for one player.

    Args:
        env: Name of an environment.
        options: Its arguments.

    >>> game = Served("ToolOrchestra-Restaurant-v0", {})
    >>> game.reset(seed=0).reward
    0.0
    >>> told = game.step([{"name": "submit", "arguments": {"answer": {}, "message": "I cannot help you with that."}}])
    >>> told.done, told.reward, told.info["outcome"]
    (True, 0.0, 'failed')
    """

    def __init__(self, env: str, options: Mapping[str, Any]) -> None:
        self.env = served_environment(env, options)
        self._done = True
        self._read = 0

    @property
    def episode(self) -> Episode:
        """The record of the current or last episode."""
        episode: Episode = self.env.unwrapped.episode
        return episode

    def reset(self, seed: int | None = None, **chosen: Any) -> Observed:
        """Begin an episode.

        Args:
            seed: Seed of the environment's reset.
            chosen: Some of `CHOICES`; ``index`` is the number of a task in its ``split`` (``all`` by default).

        Raises:
            OptionError: An option is unknown or has a value that cannot be used.
        """
        options = checked_choices(seed, chosen)
        if (index := options.pop("index", None)) is not None:
            options["task_id"] = task_at(self.env, options.pop("split", "all"), index)["id"]
        text, info = self.env.reset(seed=seed, options=options)
        self._done, self._read = False, len(info["messages"])
        return Observed(text, list(info["messages"]), list(tools_beside(info)), 0.0, False, self._info(info))

    def step(self, action: Any) -> Observed:
        """Take a message of the player in any form that `read_message` reads; never raises for it.

        Raises:
            OptionError: No episode was begun.
        """
        if self._done:
            if not self._read:
                raise OptionError("Reset before the first message: there is no episode.")
            return Observed(OVER, [], [], 0.0, True, {})
        text, reward, terminated, truncated, info = self.env.step(action)
        episode, self._done = self.episode, terminated or truncated
        told = None if self._done and episode.reward is None else float(reward)
        messages = info["messages"]
        new = [] if episode.agents[1:] else [one for one in messages[self._read :] if one["role"] != "assistant"]
        self._read = max(1, len(messages))
        return Observed(text, new, [], told, self._done, self._info(info))

    def stop(self, why: str) -> Observed:
        """End the episode by a limit of whoever serves it; it has failed, as by a limit of its own."""
        episode, self._done = stop(self.env, why), True
        assert episode is not None, "environments of this library have a record"
        facts = {
            name: getattr(episode, name) for name in ("task_id", "split", "difficulty", "cost", "clock", "outcome")
        }
        return Observed("", [], [], episode.reward, True, facts)

    def _info(self, info: Mapping[str, Any]) -> dict[str, Any]:
        told = {name: info[name] for name in ("task_id", "split", "difficulty", "cost", "clock")}
        told |= {name: info[name] for name in ("agent", "outcome") if name in info}
        return told

    def close(self) -> None:
        """Release the databases."""
        self.env.close()
        self._done, self._read = True, 0


def with_tools(text: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """Return a text for a model that is shown nothing else: schemas of tools, in Hermes' form, come first."""
    if not tools:
        return text
    listed = "\n".join(msgspec.json.encode(tool).decode() for tool in tools)
    return f"<tools>\n{listed}\n</tools>\n\n{text}"


def seeded_rows(count: int, seed: int = 0, **columns: Any) -> list[dict[str, Any]]:
    """Return rows of a data set for a trainer: an empty prompt, a seed of its own from `seed` on, and `columns`.

    >>> seeded_rows(1, seed=7, split="train")
    [{'prompt': [{'role': 'user', 'content': ''}], 'seed': 7, 'split': 'train'}]
    """
    prompt = [{"role": "user", "content": ""}]
    return [{"prompt": prompt, "seed": one, **columns} for one in range(seed, seed + count)]


def require_full_schemas(options: Mapping[str, Any], shows: str) -> None:
    """Raise an `OptionError` if an environment's options list tools in its messages; `shows` does so itself."""
    if options.get("schemas", "full") != "full":
        raise OptionError(f"`schemas` must be full, got {options['schemas']}: {shows} shows the tools. Leave it out.")


def checked_choices(seed: Any, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices that were made, if they are of the right kind: they come from outside.

    Raises:
        OptionError: One is unknown or of another kind.
    """
    if wrong := [name for name in chosen if name not in CHOICES]:
        raise OptionError(unknown_name("choice at a reset", wrong[0], CHOICES))
    kinds: dict[str, Any] = {"task_id": str, "split": str, "index": int, "difficulty": int | list, "preference": dict}
    for name, value in {"seed": seed, **chosen}.items():
        if value is not None and not isinstance(value, kinds.get(name, int)):
            kind = "an object of weights" if name == "preference" else f"of the type {kinds.get(name, int)}"
            raise OptionError(f"`{name}` must be {kind}, got {value!r:.80}.")
    if seed is not None and seed < 0:
        raise OptionError(f"The seed must be at least 0, got {seed}.")
    levels = chosen.get("difficulty")
    if isinstance(levels, list) and not all(isinstance(level, int) for level in levels):
        raise OptionError(f"`difficulty` must be a level or a list of levels, got {levels!r:.80}.")
    return {name: value for name, value in chosen.items() if value is not None}


def served_environment(env: str, options: Mapping[str, Any]) -> Any:
    """Return an environment by its name, one of several agents as one in which the player is each in turn."""
    return CurrentAgentEnv(make_multiagent(env, **options)) if is_multiagent(env) else make_named(env, **options)


def tasks_of(env: Any, split: str) -> list[dict[str, Any]]:
    """Return what a player may know of the tasks of a split."""
    tasks = env.unwrapped.source.tasks(split)
    return [
        {"id": task.id, "index": index, "split": task.split, "difficulty": task.difficulty}
        for index, task in enumerate(tasks)
    ]


def task_at(env: Any, split: str, index: Any) -> dict[str, Any]:
    """Return what a player may know of one task of a split.

    Raises:
        OptionError: There is none of this number.
    """
    tasks = tasks_of(env, split)
    if not isinstance(index, int) or not 0 <= index < len(tasks):
        raise OptionError(f"The split {split!r} has tasks 0 to {len(tasks) - 1}; found the index {index!r}.")
    return tasks[index]
