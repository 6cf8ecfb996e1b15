"""One episode against an OpenAI-compatible URL: what trainers of agents ask of an agent.

rLLM, agent-lightning and AReaL run an agent as a function of a task, and give it the address and name of the model that
they train; tokens and log-probabilities they record themselves, at that address. `play` is such a function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolorchestra.agents.chat.openai_chat import OpenAIChat
from toolorchestra.agents.policies.chat_policy import ChatPolicy
from toolorchestra.envs.bridges.served import CHOICES, checked_choices, served_environment, task_at
from toolorchestra.envs.records.episode import Episode
from toolorchestra.envs.run_episodes import run_all
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError, unknown_name

_COLUMNS = ("env", "options", "seed", *CHOICES)


def play(
    task: Mapping[str, Any],
    base_url: str,
    model: str,
    *,
    api_key: str | None = None,
    temperature: float = 1.0,
    max_tokens: int = 8_000,
    retries: int = 2,
    **server: Any,
) -> Episode:
    """Play one episode with a model at an OpenAI-compatible server, and return its record.

    It blocks; any number may run in threads (``await asyncio.to_thread(play, …)``). In an environment of several agents
    the model is each of them in turn.

    Args:
        task: What is played: ``env``, the name of an environment; ``options``, its arguments, if any; and ``seed``,
            ``task_id``, ``split``, ``index``, ``difficulty`` or ``preference``, as far as they are to be fixed.
        base_url: Root of the server, e.g. ``http://localhost:8000/v1``.
        model: The model's name on that server.
        api_key: The key; a placeholder by default.
        temperature: Sampling temperature; 0 is greedy.
        max_tokens: Maximum number of tokens of one reply.
        retries: How often an episode is played again that an infrastructure error ended.
        server: Further arguments of `OpenAIChat`, such as ``timeout`` (seconds), ``stream`` and ``extra``.

    Raises:
        OptionError: The task names no environment, or something in it is unknown or cannot be used.
        ExpertError: The model could not be reached.
    """
    env, start = task_start(task)
    with OpenAIChat(base_url, model, api_key=api_key, **server) as chat:
        policy = ChatPolicy(chat, start.seed or 0, temperature, max_tokens)
        (played,) = run_all(lambda: env, lambda: policy, [start], retries=retries)  # closes `env`
    return played


def task_start(task: Mapping[str, Any]) -> tuple[Any, EpisodeStart]:
    """Return the environment of a task, and how its episode begins; see `play`."""
    name = task.get("env")
    if not isinstance(name, str) or not name:
        raise OptionError(f"A task needs `env`, the name of an environment; found {', '.join(task) or 'nothing'}.")
    if wrong := [column for column in task if column not in _COLUMNS]:
        raise OptionError(unknown_name("field of a task", str(wrong[0]), _COLUMNS))
    seed = task.get("seed")
    chosen = checked_choices(seed, {choice: task[choice] for choice in CHOICES if choice in task})
    env = served_environment(name, task.get("options") or {})
    if (index := chosen.pop("index", None)) is not None:
        chosen["task_id"] = task_at(env, chosen.pop("split", "all"), index)["id"]
    return env, EpisodeStart(seed, chosen)
