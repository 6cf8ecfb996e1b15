"""The ToolOrchestra protocol as a Gymnasium environment (ToolOrchestra §2, §3).

A user asks, an orchestrator reasons, calls tools and reads their results, turn by turn, until it answers. The hidden
state is the world's database. The reward is the outcome; what the preference reward needs beyond it is in `info`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsFloat, Unpack, get_args

import msgspec

from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.messages.model_message import Action
from toolorchestra.envs.answer_modes import SLOTS_FOLLOW, SUBMIT_TEXT_TOOL, SUBMIT_TOOL, SubmitTool, with_submit
from toolorchestra.envs.base import OrchestrationEnv, OrchestrationOptions, ToolSchemas
from toolorchestra.envs.ground_truth.known_answers import check_ground_truth
from toolorchestra.envs.orchestrator_rates import with_catalog
from toolorchestra.envs.play import EpisodeLimits
from toolorchestra.envs.records.episode import measured
from toolorchestra.envs.task_env import EpisodeSetup
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.tool_calling import ToolCallingPlay
from toolorchestra.envs.toolorchestra.tool_view import check_tool_view, viewed
from toolorchestra.envs.tools.experts import ExpertTool
from toolorchestra.envs.tools.toolkit import RANDOM, Kind, Level, Toolkit
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.typed_answers import SUBMIT, TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError, unknown_name
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Tool

if TYPE_CHECKING:
    from toolorchestra.envs.tools.mcp import McpTools

_PROMPTS: dict[str, Any] = read_yaml(Path(__file__).with_name("prompts.yaml"))


Effort = Literal["low", "medium", "high"]
"""How much an orchestrator is asked to reason (§6.4)."""


class ToolOrchestraEnv(OrchestrationEnv):
    """Orchestration of tools, one user request per episode.

    **Action**: text. ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` blocks are calls. The call ``submit`` is
    the final answer, and ends the episode; to a question a message without any call is that as well. A list of such
    objects or an OpenAI assistant message with ``tool_calls`` is accepted too.

    **Observation**: text. After `reset` the system prompt and the request; after `step` one ``<tool_response>``
    block per call, with its ``id``, ``name``, ``status`` (``OK``, ``PARSE_ERR``, ``EXEC_ERR``, ``TIMEOUT``) and
    ``result`` or ``error``.

    **Reward**: 1.0 when the final answer ends an episode whose verdict is solved, else 0.0.

    **End**: terminated by the final answer; truncated after `max_turns` turns, when the budget is spent, or by an
    infrastructure error (``info["outcome"]`` is then ``infra_error`` or ``judge_error``).

    **Info**: see `OrchestrationEnv`; at the end ``M`` is the vector from which Eq. 2 computes the preference reward.

    Args:
        source: Name of a task source (``Restaurant``, ``All``), or a `TaskSource`.
        max_turns: Messages before the episode is truncated (§4.4: 50).
        max_cost: US dollars that an episode may cost, the orchestrator's own messages included, or None.
        max_seconds: Virtual seconds that an episode may take, likewise, or None.
        result_characters: Maximum characters of a result in an observation.
        tools: Which tools there are: ``none``, ``domain`` (the world's own), ``basic`` (web search, local search and
            Python as well), ``full`` (the experts too, as in the paper), or names of tools. Without tools, tasks in
            domains cannot be solved (Table 1, note *).
        tool_view: How many of them an episode has, for models with short contexts; None (default): all. Those that the
            task's reference calls need are among them, even if they are more; the others and the order follow from the
            task and `tool_config_seed`, so that all rollouts of a task have one prompt. Every tool counts, experts and
            `submit` included. Tasks without reference calls, as questions of public data sets are, cannot be played
            so.
        tool_config: Which experts are there, and at what price: a tool configuration of the catalogue
            (``evaluation``, ``training``, ``unseen-models``, …), or ``random``: for each task a subset of experts and
            basic tools of its own, at its own prices (§3.3).
        tool_config_seed: Seed of the random tool configurations, and of views.
        experts: ``simulated``, or ``real``: asked at the endpoints of the catalogue.
        catalog: YAML file that extends the shipped catalogue of experts, and of models that `orchestrator` and
            `judge` may name.
        sandbox: Where Python runs: ``simulated`` (arithmetic only, nothing is executed), ``auto``, ``docker``,
            ``bubblewrap`` or ``process``. Default: ``simulated`` beside simulated experts, ``auto`` beside real ones.
        corpus: JSONL file of passages (``id``, ``title``, ``text``) that `local_search` finds where a world has none;
            by default its manual.
        web_corpus: JSONL file of passages that stands for the web in `web_search`; by default the manual and a
            fictional encyclopaedia, or where a world has its own local search, what that finds. The catalogue may name
            an endpoint that searches the real web.
        timeout: Seconds of real time after which a real expert is given up.
        effort: How much the prompt asks the orchestrator to reason, ``low``, ``medium`` or ``high`` (§6.4, Table 4);
            None: it says nothing of that.
        known_answers: Whether simulated experts may play questions of which only the answer is known, as of public data
            sets, without a `KnownAnswersWarning`.
        mcp: Servers of the Model Context Protocol whose tools are there as well, beside those that `tools` says: a
            URL, a file in the form of ``mcpServers``, or a mapping; see `toolorchestra.envs.tools.mcp`.
        options: See `TaskOptions` and `OrchestrationOptions`.

    Reset options: ``task_id``, ``split``, ``difficulty``, ``tools``, ``tool_view``, ``tool_config``,
    ``tool_config_seed``, ``preference``, each overriding the above for one episode.

    >>> import gymnasium as gym, toolorchestra
    >>> env = gym.make("ToolOrchestra-Restaurant-v0")
    >>> observation, info = env.reset(seed=0)
    >>> submit = {"name": "submit", "arguments": {"answer": {}, "message": "I cannot help you with that."}}
    >>> observation, reward, terminated, truncated, info = env.step([submit])
    >>> reward, terminated, info["outcome"]
    (0.0, True, 'failed')
    """

    protocol = "ToolOrchestra"
    typed_place = SLOTS_FOLLOW

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        max_turns: int = 50,
        max_cost: float | None = None,
        max_seconds: float | None = None,
        result_characters: int = 16_384,
        tools: Level | Sequence[str] | None = "domain",
        tool_view: int | None = None,
        tool_config: str = "evaluation",
        tool_config_seed: int = 0,
        experts: Kind = "simulated",
        catalog: Catalog | str | Path | None = None,
        sandbox: str | None = None,
        corpus: str | Path | None = None,
        web_corpus: str | Path | None = None,
        timeout: float = 120.0,
        effort: Effort | None = None,
        known_answers: bool = False,
        mcp: str | Path | Mapping[str, Any] | None = None,
        **options: Unpack[OrchestrationOptions],
    ) -> None:
        limits = EpisodeLimits(max_turns, max_cost, max_seconds, result_characters)
        extra = {"tool_view": tool_view, "tool_config": tool_config, "tool_config_seed": tool_config_seed}
        super().__init__(source, limits, with_catalog(options, catalog), tools=tools, **extra)
        check_tool_view(tool_view)
        corpora = {"corpus": corpus, "web_corpus": web_corpus}
        self._make_toolkit = functools.partial(
            Toolkit, catalog=catalog, experts=experts, sandbox=sandbox, timeout=timeout, **corpora
        )
        self._check: Callable[[World, Task], None] | None = None
        if experts == "simulated":
            self._check = functools.partial(check_ground_truth, remedy="experts='real'", known_answers=known_answers)
        if effort is not None and effort not in get_args(Effort):
            raise UnknownNameError("effort", str(effort), get_args(Effort))
        self._effort: list[str] = [] if effort is None else [_PROMPTS["effort"][effort]]
        self._prompts: dict[tuple[str, bool, bool], str] = {}
        self._configured: dict[Any, _Configured] = {}
        self._current = _Configured({})
        if tools not in ("none", "domain", None):  # wrong options raise now, not at a reset
            _check_level(tools)
            self._toolkit.configure(tool_config, 0, "")
        self._mcp: McpTools | None = None
        if mcp is not None:
            from toolorchestra.envs.tools.mcp import McpTools

            self._mcp = McpTools(mcp)

    @functools.cached_property
    def _toolkit(self) -> Toolkit:
        """The toolkit, made when there are more than the world's own tools."""
        return self._make_toolkit()

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        if self._mcp is not None:
            self._mcp.end_episode()
        level, preference = chosen["tools"], chosen["preference"]
        submit: SubmitTool | None = SUBMIT_TOOL
        if typed is None:
            submit = None if self._slots is None or level == "none" else SUBMIT_TEXT_TOOL
        calls = _PROMPTS["calls" if typed is None else "typed_calls"]
        own = _own_tools(world, level)
        if own is None:
            current = self._configure(task, world, chosen, submit)
        else:
            current = _Configured(self._with_others(own, submit))
        if preference is not None and own is None and chosen["tool_config"] == RANDOM:
            preference = self._prefer(preference, (*world.tools, *self._toolkit.pool(RANDOM)), task)
        if chosen["tool_view"] is not None:
            if preference is not None:  # it may speak of what is not there this time
                preference = self._prefer(preference, measured(tuple(current.tools)), task)
            shown = viewed(current.tools, task, chosen["tool_view"], chosen["tool_config_seed"])
            current = _Configured.of(shown) if own is None else _Configured(shown)
        self._current = current
        if current.experts and self._check is not None:
            self._check(world, task)
        key = world.name, level == "none", current.experts
        prompt = self._prompts.get(key)
        if prompt is None:
            opening = calls if typed is not None or level != "none" else _PROMPTS["alone"]
            experts = [_PROMPTS["experts"]] if current.experts else []
            prompt = self._prompts[key] = "\n".join([opening, *experts, *self._effort, world.rules])
        return EpisodeSetup(prompt, current.tools, ToolCallingPlay, preference=preference, draws_noise=current.experts)

    def _configure(self, task: Task, world: World, chosen: Mapping[str, Any], submit: SubmitTool | None) -> _Configured:
        """Return the tools of a task beyond the world's own."""
        level, name, toolkit = chosen["tools"], chosen["tool_config"], self._toolkit
        _check_level(level)
        if not isinstance(level, str):
            known = (*world.tools, *toolkit.pool(name))
            if wrong := [str(one) for one in level if one not in known]:
                raise OptionError(unknown_name("tool", wrong[0], known))
        if name == RANDOM:
            config = toolkit.configure(name, chosen["tool_config_seed"], task.id)
            return _Configured.of(self._with_others(toolkit.tools(world, level, config), submit))
        key = (world.name, name, level if isinstance(level, str) else tuple(level))
        if key not in self._configured:
            found = toolkit.tools(world, level, toolkit.configure(name, 0, ""))
            self._configured[key] = _Configured.of(self._with_others(found, submit))
        return self._configured[key]

    def _with_others(self, tools: Mapping[str, Tool], submit: SubmitTool | None) -> Mapping[str, Tool]:
        """Return tools and those of MCP servers, and the call that gives the answer, if there is one."""
        if submit is not None:
            tools = with_submit(tools, submit)
        if self._mcp is None:
            return tools
        if both := tools.keys() & self._mcp.tools.keys():
            raise OptionError(
                f"An MCP server has a tool called {min(both)!r}, as the environment has: name the others of the server "
                "in its `tools`."
            )
        return {**tools, **self._mcp.tools}

    def final(self, text: str) -> Action:
        """Return the action by which an orchestrator gives `text` as its final answer: where it is typed, its JSON."""
        if self.play.typed is None:
            return super().final(text)
        if not text.startswith("{"):
            text = msgspec.json.encode({"answer": {}, "message": text}).decode()
        return f'<tool_call>{{"name":"{SUBMIT}","arguments":{text}}}</tool_call>'

    def step(self, action: Action) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one message of the orchestrator; see the class for the returned values."""
        result = super().step(action)
        if self._mcp is not None and (result[2] or result[3]):
            self._mcp.end_episode()
        return result

    def _tool_schemas(self, setup: EpisodeSetup, world: World) -> ToolSchemas:
        return self._current.schemas or super()._tool_schemas(setup, world)

    def close(self) -> None:
        """Release the databases, and the connections of real experts."""
        super().close()
        self._configured.clear()
        if "_toolkit" in self.__dict__:
            self._toolkit.close()
        if self._mcp is not None:
            self._mcp.end_episode()


def _check_level(level: Level | Sequence[str]) -> None:
    if isinstance(level, str) and level not in get_args(Level):
        raise UnknownNameError("level of tools", level, get_args(Level))


def _own_tools(world: World, level: Level | Sequence[str] | None) -> Mapping[str, Tool] | None:
    """Return the tools of a level if they are the world's own, else None."""
    if level is None or level == "domain":
        return world.tools
    if level == "none":
        return {}
    if isinstance(level, str) or not all(name in world.tools for name in level):
        return None
    return {name: tool for name, tool in world.tools.items() if name in level}


class _Configured(NamedTuple):
    """Tools, their schemas (None for those of a world, which are kept), and whether there are experts among them."""

    tools: Mapping[str, Tool]
    schemas: ToolSchemas | None = None
    experts: bool = False

    @classmethod
    def of(cls, tools: Mapping[str, Tool]) -> _Configured:
        experts = any(isinstance(tool, ExpertTool) for tool in tools.values())
        return cls(tools, ToolSchemas.of(tools), experts)
