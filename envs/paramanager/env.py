"""The ParaManager protocol as a Gymnasium environment (ParaManager §3, §4)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from toolorchestra.agents.catalog import Catalog
from toolorchestra.agents.chat import ChatModel
from toolorchestra.agents.simulated import SimulatedChat
from toolorchestra.envs.base import OrchestrationEnv
from toolorchestra.envs.paramanager.play import MOST_CALLS, MOST_ROUNDS, ParaManagerPlay, Rules
from toolorchestra.envs.paramanager.prompts import orchestrator_prompt
from toolorchestra.envs.paramanager.rewards import FINAL, CountTokens, Targets, estimate_tokens
from toolorchestra.envs.paramanager.tools import QuickPython, RoleTool
from toolorchestra.envs.parsing import Action
from toolorchestra.envs.play import Play, PlaySnapshot, World
from toolorchestra.envs.sources import TaskSource
from toolorchestra.envs.sources.encyclopaedia import Encyclopaedia
from toolorchestra.envs.toolbox.search import BM25Index, LocalSearch
from toolorchestra.toolscale.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.task import Task
from toolorchestra.toolscale.tool import Tool

POOL = "paramanager"
"""Configuration of the catalogue that the pool is, unless told otherwise (§4.3)."""
SUMMARISER = "gpt-oss-20b"
"""M_s: it writes the final answer, whatever the pool (§4.3)."""
LEFT_OUT = ("calculator",)
"""Tools of worlds that are not on offer: `python` and `code_reasoner` do their work."""
_KINDS = ("simulated", "real")


class ParaManagerEnv(OrchestrationEnv):
    """Parallel orchestration of sub-agents and tools, one problem per episode."""

    protocol = "ParaManager"
    most_reward = 4.0

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        domain: str | Path | None = None,
        tasks: str | Path | None = None,
        split: str = "train",
        difficulty: int | Iterable[int] | None = None,
        pool: str | Sequence[str] | None = None,
        mono: str | None = None,
        serial: bool = False,
        no_diversity: bool = False,
        theta_par: float = 1.25,
        theta_tool: int = 3,
        length_target: int = 12_288,
        cost_target: float = 8.0,
        max_rounds: int = MOST_ROUNDS,
        max_calls: int = MOST_CALLS,
        count_tokens: CountTokens = estimate_tokens,
        summariser: str | None = None,
        experts: Literal["simulated", "real"] | Mapping[str, ChatModel] = "simulated",
        patience: float = 600.0,
        preference: Any = None,
        catalog: Catalog | str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        rules = Rules(
            turns=max_rounds,
            calls=1 if serial else max_calls,
            targets=Targets(theta_par, theta_tool, length_target, cost_target),
            diversity=not no_diversity,
            count_tokens=count_tokens,
        )
        super().__init__(
            source,
            domain=domain,
            tasks=tasks,
            split=split,
            difficulty=difficulty,
            limits=rules,
            preference=preference,
            render_mode=render_mode,
        )
        self._rules = rules
        self._catalog = catalog if isinstance(catalog, Catalog) else Catalog.load(*([catalog] if catalog else []))
        if isinstance(experts, str) and experts not in _KINDS:
            raise UnknownNameError("kind of experts", experts, _KINDS)
        self._experts = experts
        self._patience = patience
        self._pool = self._chosen(pool, mono)
        given = experts if isinstance(experts, Mapping) else {SUMMARISER: None}
        self._summariser = summariser or (SUMMARISER if SUMMARISER in given else next(iter(self._pool)))
        self._models = {name: self._chat(name) for name in dict.fromkeys((*self._pool, self._summariser))}
        self._tools: dict[str, Mapping[str, Tool]] = {}
        self._prompts: dict[str, str] = {}

    def _begin(self, task: Task, world: World, chosen: Mapping[str, Any], seed: int | None) -> Play:
        tools = self._offer(world)
        prompt = self._prompts.get(world.name) or self._prompts.setdefault(world.name, self._prompt(world))
        luck = self._draw_luck()
        preference = chosen["preference"]
        episode = self._new_episode(task, seed, prompt, task.instruction, tools, preference=preference, luck=luck)
        return ParaManagerPlay(world, self._session(world), task, episode, self._rules, tools)

    @property
    def most_calls(self) -> int:
        """Most calls of one round."""
        return self._rules.calls

    def final(self, text: str) -> Action:
        r"""Return the action that concludes with `text`: reasoning that says so in ``\boxed{}``, and the final call."""
        boxed = text if r"\boxed{" in text else rf"\boxed{{{text}}}"
        return {"content": f"<reasoning>{boxed}</reasoning>", "tool_calls": [{"name": FINAL, "arguments": {}}]}

    def _opening(self, play: Play) -> str:
        return "\n\n".join(message["content"] for message in play.messages)

    def _restored(self, snapshot: PlaySnapshot, world: World) -> Play:
        return ParaManagerPlay.restored(snapshot, world, self._session(world), self._rules)

    def _info(self, play: Play) -> dict[str, Any]:
        assert isinstance(play, ParaManagerPlay)
        info = super()._info(play)
        info["budget"] = asdict(play.budget)
        return info

    # ------------------------------------------------------------------------------------------ what is on offer

    def _chosen(self, pool: str | Sequence[str] | None, mono: str | None) -> dict[str, str]:
        """Return the models of the pool by name, the default one first, with their descriptions."""
        given = self._experts if isinstance(self._experts, Mapping) else {}
        if pool is None:
            pool = tuple(given) or POOL
        if isinstance(pool, str):
            offered = self._catalog.offer(pool).experts
            pool = tuple(dict.fromkeys(name for role in ("generalist", *offered) for name in offered.get(role, ())))
        if not pool:
            raise OptionError("The `pool` is empty: name a configuration of the catalogue, or at least one expert.")
        if mono is not None:
            if mono not in pool:
                raise UnknownNameError("model of the pool", mono, pool)
            pool = (mono,)
        known = self._catalog.experts
        return {
            name: "" if name in given and name not in known else self._catalog.spec(name).description for name in pool
        }

    def _chat(self, name: str) -> ChatModel:
        if self._experts == "simulated":
            return SimulatedChat(self._catalog.simulated(name))
        if self._experts == "real":
            return self._catalog.chat(name)
        if name not in self._experts:
            raise UnknownNameError("model among `experts`", name, self._experts)
        return self._experts[name]

    def _offer(self, world: World) -> Mapping[str, Tool]:
        """Return the tools on offer in a world, in the order in which they are listed."""
        if world.name in self._tools:
            return self._tools[world.name]
        own = {name: tool for name, tool in world.tools.items() if name not in LEFT_OUT}
        search = own.get("search") or _library()
        simulated = self._experts == "simulated"
        pool = {name: self._models[name] for name in self._pool}

        def role(name: str, models: Mapping[str, ChatModel] = pool, **uses: Tool) -> RoleTool:
            return RoleTool(name, models, simulated=simulated, uses=uses, patience=self._patience)

        roles = (
            role("standard_reasoner"),
            role("critical_reviewer"),
            role("knowledge_searcher", search=search),
            role("code_reasoner", python=QuickPython(None)),
        )
        ends = (role("ensemble_solver"), role(FINAL, {self._summariser: self._models[self._summariser]}))
        named = {tool.name: tool for tool in (*roles, search, *ends)}
        self._tools[world.name] = {**named, **own}
        return self._tools[world.name]

    def _prompt(self, world: World) -> str:
        rules = self._rules
        return orchestrator_prompt(most=rules.calls, rounds=rules.turns, models=self._pool, rules=world.rules)


@functools.cache
def _library() -> Tool:
    """Return a search for worlds that have none of their own: the encyclopaedia's, made once per process."""
    return LocalSearch(BM25Index(Encyclopaedia().passages), description="Search an encyclopaedia.")
