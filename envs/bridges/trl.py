"""TRL: the tools of an environment as methods, for the `environment_factory` of TRL's `GRPOTrainer`.

    restaurant = toolorchestra.trl.environment("ToolOrchestra-Restaurant-v0")
    trainer = GRPOTrainer(…, reward_funcs=toolorchestra.trl.reward, environment_factory=restaurant)

TRL (1.16) runs the calls of a message one after another, ends a rollout at a message without calls, and never hands
that message to the environment. So each call is a turn of the episode, and the final answer is given by a tool.
Learning with parallel calls, several agents or many episodes at once is `toolorchestra.algos`. This module imports
nothing of TRL.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.bridges.callables import ToolSignature, described
from toolorchestra.envs.bridges.served import require_full_schemas, seeded_rows
from toolorchestra.envs.environment_names import make_named
from toolorchestra.envs.records.episode import ORCHESTRATOR, Episode
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.errors import OptionError

ENDED = "The episode is over, and nothing was done. Write a short message without any call."
"""What every tool returns once the episode is over."""
_DONE = "The answer was given; the episode is over. Write a short message without any call."
_HINT = "Give your final answer by calling the tool `{answer}`: that ends the episode."
_RESERVED = ("reset", "get_reward", "episode")  # TRL calls the first two itself


class ToolMethods:
    """An environment whose tools are methods; `environment` makes subclasses, one for each set of tools.

    Args:
        env: Name of the environment, as of `make_named`.
        options: Arguments of the environment.
        answer: Name of the tool that gives the final answer, where the environment has no `submit`.
    """

    _tool_names: tuple[str, ...] = ()  # of the environment's own tools, if it has any that orchestrators call

    def __init__(self, env: str, options: Mapping[str, Any], answer: str) -> None:
        self._env: Any = make_named(env, **options).unwrapped
        self._hint = _HINT.format(answer=SUBMIT if SUBMIT in self._tool_names else answer)
        self._finished = False

    @property
    def episode(self) -> Episode:
        """The record of the current or last episode."""
        episode: Episode = self._env.episode
        return episode

    def reset(self, **row: Any) -> str:
        """Begin an episode, and return the request, which TRL appends to the prompt.

        Args:
            row: A row of the data set. ``seed`` and options of the environment's `reset` (``task_id``, ``split``,
                ``difficulty``, …) are used, other columns not.

        Raises:
            OptionError: Neither ``seed`` nor ``task_id`` is given, so that each rollout of a group would have a task of
                its own.
        """
        seed = row.get("seed")
        chosen = {name: row[name] for name in self._env.reset_options if row.get(name) is not None}
        if seed is None and "task_id" not in chosen:
            raise OptionError(
                "A row of the data set needs a `seed` or a `task_id`, since all rollouts of a group are of one task; "
                f"found the columns {', '.join(sorted(row)) or 'none'}. `environment(…).rows(count)` makes such rows."
            )
        _, info = self._env.reset(seed=seed, options=chosen)
        self._finished = False
        if self._tool_names and self._tool_names != tuple(tool["function"]["name"] for tool in info["tools"]):
            raise OptionError(
                f"The task {info['task_id']} has other tools than the first one, and TRL takes one set of tools from "
                "a factory. Give a dictionary of factories, one for each domain, and name one in the column "
                "`environment`."
            )
        return "\n\n".join([*(str(message["content"]) for message in info["messages"]), self._hint])

    def _act(self, action: Any) -> str:
        """Take an action and return what the orchestrator observes."""
        play = self._env.play
        if play.over or self._finished:
            return ENDED
        self._env.step(action)
        shown = "\n".join(str(message["content"]) for message in play.new_messages(ORCHESTRATOR))
        return _DONE if play.over and play.verdict is not None else shown

    def _finish(self, text: str | None) -> None:
        """Give a last message without calls as the answer, if the rollout ended with one; later calls do nothing."""
        if text is not None and not self._finished and not self._env.play.over:
            self._env.step(text)
        if not self._finished:
            self._env.play.stop("no answer within the limits of the trainer")
        self._finished = True


class ToolMethodsFactory:
    """Makes environments for TRL; can be pickled, called any number of times, and asked for rows of a data set.

    Args:
        env: Name of the environment.
        options: Its arguments.
        answer: Name of the tool that gives the final answer.
    """

    def __init__(self, env: str, options: Mapping[str, Any], answer: str) -> None:
        self.env, self.options, self.answer = env, dict(options), answer

    def __call__(self) -> ToolMethods:
        """Return a new environment; all that one factory makes are of one class."""
        return self._class(self.env, self.options, self.answer)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_class"}

    def rows(self, count: int, seed: int = 0, **reset_options: Any) -> list[dict[str, Any]]:
        """Return rows for `datasets.Dataset.from_list`, each with a seed of its own.

        Args:
            count: Number of rows.
            seed: Seed of the first one.
            reset_options: Options of each reset, such as ``split="train"`` or ``difficulty=1``.

        >>> environment("ToolOrchestra-Restaurant-v0").rows(1, seed=7, split="train")
        [{'prompt': [{'role': 'user', 'content': ''}], 'seed': 7, 'split': 'train'}]
        """
        return seeded_rows(count, seed, **reset_options)

    @functools.cached_property
    def _class(self) -> type[ToolMethods]:
        require_full_schemas(self.options, "TRL")
        env = make_named(self.env, **self.options)
        try:
            if not isinstance(env.unwrapped, OrchestrationEnv):
                raise OptionError(
                    f"{self.env} is no environment of one agent that calls tools, of which TRL makes methods. Train on "
                    "it with `toolorchestra train`, or serve it with `toolorchestra serve`."
                )
            _, info = env.reset(seed=0)
        finally:
            env.close()
        # where orchestrators do not read schemas they write no calls, but a text that is all there is (a design)
        schemas = [tool["function"] for tool in info["tools"]] if env.unwrapped.schemas_read else []
        names = [schema["name"] for schema in schemas]
        if self.answer in (*names, *_RESERVED) or not self.answer.isidentifier() or self.answer.startswith("_"):
            raise OptionError(f"The tool for the answer cannot be called {self.answer!r}: give another name, answer=….")
        if wrong := [name for name in names if name.startswith("_") or not name.isidentifier()]:
            raise OptionError(f"TRL cannot have a tool called {wrong[0]!r} as a method of an environment: rename it.")
        methods = {_method_name(schema["name"]): _tool_method(schema) for schema in schemas}
        if SUBMIT not in names:
            methods[self.answer] = _answer_method(self.answer)
        return type(_CLASS, (ToolMethods,), {**methods, "_tool_names": tuple(names)})


def environment(env: str, *, answer: str = "answer", **options: Any) -> ToolMethodsFactory:
    """Return a factory for TRL's `environment_factory`.

    The environment's tools are its methods, with types and descriptions from their schemas. A tool called ``reset``,
    ``get_reward`` or ``episode`` gets a ``_`` at the end, since these names mean something else; so does a parameter
    called like a keyword of Python. Where none of them gives the final answer (`submit`), one more does. Once the
    episode is over, each of them says so: TRL has no other way to end a rollout.

    Args:
        env: Id of an environment of one agent, folder of a domain, or JSONL file of tasks.
        answer: Name of the tool that gives the final answer, where the environment has no `submit`.
        options: Arguments of the environment.

    Raises:
        OptionError: When the first environment is made: a tool cannot be a method, or the environment is no such one.

    >>> restaurant = environment("ToolOrchestra-Restaurant-v0")()
    >>> request = restaurant.reset(seed=0)
    >>> print(request.splitlines()[-1])
    Give your final answer by calling the tool `submit`: that ends the episode.
    >>> print(restaurant.submit(answer={}, message="I cannot help you with that."))
    The answer was given; the episode is over. Write a short message without any call.
    """
    return ToolMethodsFactory(env, options, answer)


# ------------------------------------------------------------------------------------------------- reward functions


def reward(*, environments: Sequence[ToolMethods], completions: Sequence[Any] = (), **_: Any) -> list[float | None]:
    """Return the reward of each episode, for `reward_funcs`: the one that `gymnasium.make`'s environment gives.

    A rollout that ends with a message without calls, but gave no answer by the tool, has this message as its answer.
    One that ended before any answer has failed. One that an infrastructure error ended has None, which TRL leaves out.
    """
    return [_of(episode, episode.reward) for episode in _finished(environments, completions)]


def cost(*, environments: Sequence[ToolMethods], completions: Sequence[Any] = (), **_: Any) -> list[float | None]:
    """Return minus the US dollars that each episode cost, for `reward_funcs` with a weight of its own."""
    return [_of(episode, -episode.cost) for episode in _finished(environments, completions)]


def latency(*, environments: Sequence[ToolMethods], completions: Sequence[Any] = (), **_: Any) -> list[float | None]:
    """Return minus the virtual seconds that each episode took, likewise."""
    return [_of(episode, -episode.clock) for episode in _finished(environments, completions)]


def _of(episode: Episode, value: float | None) -> float | None:
    return None if episode.outcome in ("infra_error", "judge_error") else value or 0.0


def _finished(environments: Sequence[ToolMethods], completions: Sequence[Any]) -> list[Episode]:
    """Return the episodes, each ended with the text of its rollout's last message if that is the model's own answer."""
    for one, messages in itertools.zip_longest(environments, completions):
        last = messages[-1] if messages and not isinstance(messages, str) else {}
        said = last.get("role") == "assistant" and not last.get("tool_calls")
        one._finish(str(last["content"]) if said and last.get("content") else None)
    return [one.episode for one in environments]


# -------------------------------------------------------------------------------------------------- tools as methods

_CLASS = "ToolOrchestraEnvironment"


def _tool_method(schema: Mapping[str, Any]) -> Callable[..., str]:
    """Return a method that calls a tool, with the signature and the docstring from which TRL makes its schema."""
    name, signature = schema["name"], ToolSignature.of(schema)

    def call(self: ToolMethods, /, **given: Any) -> str:
        return self._act([{"name": name, "arguments": signature.arguments(given)}])

    return described(call, _method_name(name), signature.about, signature.parameters, _CLASS)


def _method_name(name: str) -> str:
    """Return the name of a tool's method, by which TRL calls it: its own, where that means nothing else."""
    return f"{name}_" if name in _RESERVED else name


def _answer_method(name: str) -> Callable[..., str]:
    """Return the method that gives the final answer."""

    def give(self: ToolMethods, /, text: str) -> str:
        return self._act(text)

    about = "Give the final answer to the request. That ends the episode.\n\nArgs:\n    text: The whole answer."
    text = inspect.Parameter("text", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
    return described(give, name, about, [text], _CLASS)
