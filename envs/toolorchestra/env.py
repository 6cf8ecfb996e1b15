"""The ToolOrchestra protocol as a Gymnasium environment (ToolOrchestra §2, §3).

A user asks, an orchestrator reasons, calls tools and reads their results, turn by turn, until it answers. The
hidden state is the world's database; the observation is what a real orchestrator would read. The reward is
the outcome, paid at the end; what the preference reward needs beyond it is in `info`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.play import EpisodeLimits, Play, World
from toolorchestra.envs.sources.base import TaskSource
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.envs.tools.toolkit import RANDOM, Kind, Level, Toolkit
from toolorchestra.toolscale.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Tool

PROMPT = """\
You are an orchestrator: you solve the user's request by calling tools.
Call tools by writing <tool_call>{"name": "…", "arguments": {…}}</tool_call>; several calls in one message run \
together. Their results come back as <tool_response> blocks. When the request is met, or cannot be met, write \
your answer to the user without any call: that ends the conversation.
"""
EXPERTS_PROMPT = """
Some tools are models. Each sees the conversation and what you ask it, and replies with an answer or with the call \
that it would make next. They cost money and time, and any of them may be wrong.
"""


class ToolOrchestraEnv(OrchestrationEnv):
    """Orchestration of tools, one user request per episode.

    **Action**: text. ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` blocks are calls; a message
    without any is the final answer and ends the episode. A list of ``{"name": …, "arguments": …}`` objects or an
    OpenAI assistant message with ``tool_calls`` is accepted too.

    **Observation**: text. After `reset` the system prompt and the request; after `step` one ``<tool_response>``
    block per call, with its ``id``, ``name``, ``status`` (``OK``, ``PARSE_ERR``, ``EXEC_ERR``, ``TIMEOUT``) and
    ``result`` or ``error``.

    **Reward**: 1.0 when the final answer ends an episode whose verdict is solved, else 0.0.

    **End**: terminated by the final answer; truncated after `max_turns` turns, when the budget is spent, or by an
    error of the library's own (``info["outcome"]`` is then ``infra_error`` or ``judge_error``).

    **Info**: ``messages`` (the conversation in OpenAI's form), ``tools`` (OpenAI function schemas, at reset),
    ``tool_names`` (their order in M), ``task_id``, ``split``, ``difficulty``, ``preference`` (P or None), ``turn``,
    ``cost`` in US dollars, ``clock`` in virtual seconds, ``calls`` (records of the turn); at the end ``outcome``,
    ``verdict`` (in words) and ``M``, the vector of §3.2 from which Eq. 2 computes the preference reward.

    Args:
        source: Name of a task source (``Restaurant``, ``All``), or a `TaskSource`.
        domain: Folder (or name) of a domain to play instead of a named source.
        tasks: JSONL file of tasks to play instead; see `toolorchestra.envs.sources.base.FileSource`.
        split: Split from which `reset` draws unless told otherwise.
        difficulty: Level or levels from which `reset` draws; None for all.
        max_turns: Messages before the episode is truncated (§4.4: 50).
        max_cost: US dollars that an episode may cost, or None.
        max_seconds: Virtual seconds that an episode may take, or None.
        result_characters: Longest result shown.
        tools: Which tools are on offer: ``domain`` (the world's own), ``basic`` (search and Python as well), ``full``
            (the experts too, as in the paper), or names of tools.
        offer: Which experts are there, and at what price: a configuration of the catalogue (``evaluation``,
            ``training``, ``unseen-models``, …), or ``random``: for each task a subset of experts and basic tools of its
            own, at its own prices (§3.3).
        offer_seed: Seed of the random offers.
        experts: ``simulated``, or ``real``: asked at the endpoints of the catalogue.
        catalog: YAML file that extends the shipped catalogue of experts.
        sandbox: Where Python runs: ``auto``, ``docker``, ``bubblewrap`` or ``process``.
        corpus: JSONL file of passages (``id``, ``title``, ``text``) that `search` finds where a world has no search of
            its own; by default a manual of the place.
        timeout: Seconds of real time after which a real expert is given up.
        preference: Preference over tools, outcome, compute and latency (see `Preference`), or a JSONL file of pairs
            as `toolorchestra synth preferences` writes it: each task then has one of them, always the same.
        render_mode: ``ansi`` (`render` returns the transcript) or ``human`` (turns are printed as they come).

    Reset options: ``task_id``, ``split``, ``difficulty``, ``tools``, ``offer``, ``offer_seed``, ``preference``, each
    overriding the above for one episode.

    >>> import gymnasium as gym, toolorchestra
    >>> env = gym.make("ToolOrchestra-Restaurant-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step("I cannot help you with that.")
    >>> reward, terminated, info["outcome"]
    (0.0, True, 'failed')
    """

    protocol = "ToolOrchestra"

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        domain: str | Path | None = None,
        tasks: str | Path | None = None,
        split: str = "train",
        difficulty: int | Iterable[int] | None = None,
        max_turns: int = 50,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        result_characters: int = 16_384,
        tools: Level | Sequence[str] | None = "domain",
        offer: str = "evaluation",
        offer_seed: int = 0,
        experts: Kind = "simulated",
        catalog: Catalog | str | Path | None = None,
        sandbox: str = "auto",
        corpus: str | Path | None = None,
        timeout: float = 120.0,
        preference: Any = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            source,
            domain=domain,
            tasks=tasks,
            split=split,
            difficulty=difficulty,
            limits=EpisodeLimits(max_turns, max_cost, max_seconds, result_characters),
            render_mode=render_mode,
            preference=preference,
            tools=tools,
            offer=offer,
            offer_seed=offer_seed,
        )
        self._make_kit = functools.partial(
            Toolkit, catalog=catalog, experts=experts, sandbox=sandbox, corpus=corpus, timeout=timeout
        )
        self._offers: dict[Any, _Offered] = {}
        self._offered: _Offered | None = None
        if tools not in ("domain", None):  # what is wrong with these options is better said now than at a reset
            _check_level(tools)
            self._kit.offer(offer, 0, "")

    @functools.cached_property
    def _kit(self) -> Toolkit:
        """The toolkit, made when more than a world's own tools is on offer."""
        return self._make_kit()

    def _begin(self, task: Task, world: World, chosen: Mapping[str, Any], seed: int | None) -> Play:
        level, preference = chosen["tools"], chosen["preference"]
        prompt = f"{PROMPT}\n{world.rules}"
        names: Iterable[str] | None = world.tools if level is None or level == "domain" else None
        if names is None and not isinstance(level, str) and all(name in world.tools for name in level):
            names = [name for name in world.tools if name in level]
        if names is not None:
            self._offered = None
            episode = self._new_episode(task, seed, prompt, task.instruction, names, preference=preference)
            return Play(world, self._session(world), task, episode, self._limits)
        offered = self._offered = self._offer(task, world, chosen)
        if preference is not None and chosen["offer"] == RANDOM:  # it may speak of what is not there this time
            preference = self._prefer(preference, (*world.tools, *self._kit.pool(RANDOM)), task)
        noise_seed = 0
        if offered.experts:
            prompt = f"{PROMPT}{EXPERTS_PROMPT}\n{world.rules}"
            noise_seed = self._draw_noise_seed()
        episode = self._new_episode(
            task, seed, prompt, task.instruction, offered.tools, preference=preference, noise_seed=noise_seed
        )
        return Play(world, self._session(world), task, episode, self._limits, offered.tools)

    def _offer(self, task: Task, world: World, chosen: Mapping[str, Any]) -> _Offered:
        """Return what is on offer for a task beyond the world's own tools."""
        level, name, kit = chosen["tools"], chosen["offer"], self._kit
        _check_level(level)
        if not isinstance(level, str):
            known = (*world.tools, *kit.pool(name))
            if wrong := [str(one) for one in level if one not in known]:
                raise OptionError(unknown_name("tool", wrong[0], known))
        if name == RANDOM:
            return _Offered.of(kit.tools(world, level, kit.offer(name, chosen["offer_seed"], task.id)))
        key = (world.name, name, level if isinstance(level, str) else tuple(level))
        if key not in self._offers:
            self._offers[key] = _Offered.of(kit.tools(world, level, kit.offer(name, 0, "")))
        return self._offers[key]

    def _tool_schemas(self, play: Play) -> list[dict[str, Any]]:
        return super()._tool_schemas(play) if self._offered is None else self._offered.schemas

    def close(self) -> None:
        """Release the databases, and the connections of real experts."""
        super().close()
        self._offers.clear()
        if "_kit" in self.__dict__:
            self._kit.close()


def _check_level(level: Level | Sequence[str]) -> None:
    if isinstance(level, str) and level not in get_args(Level):
        raise UnknownNameError("level of tools", level, get_args(Level))


class _Offered(NamedTuple):
    """Tools on offer, their schemas, and whether there are experts among them."""

    tools: Mapping[str, Tool]
    schemas: list[dict[str, Any]]
    experts: bool

    @classmethod
    def of(cls, tools: Mapping[str, Tool]) -> _Offered:
        experts = any(isinstance(tool, ExpertTool) for tool in tools.values())
        return cls(tools, [tool.schema for tool in tools.values()], experts)
