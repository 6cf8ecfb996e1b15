"""The ParaManager protocol as a Gymnasium environment (ParaManager §3, §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.messages.model_message import Action
from toolorchestra.agents.messages.token_counts import CountTokens, estimate_tokens
from toolorchestra.envs.base import OrchestrationEnv, OrchestrationOptions
from toolorchestra.envs.ground_truth.known_answers import check_ground_truth
from toolorchestra.envs.orchestrator_rates import with_catalog
from toolorchestra.envs.paramanager.play import MAX_ROUNDS, ParaManagerPlay, Rules
from toolorchestra.envs.paramanager.prompts import orchestrator_prompt
from toolorchestra.envs.paramanager.rewards import FINAL, MAX_CALLS, Counting, Targets
from toolorchestra.envs.paramanager.tools import RoleTool
from toolorchestra.envs.task_env import EpisodeSetup
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.tools.manual import corpus_search, manual_search
from toolorchestra.envs.tools.python import QuickPython, default_python
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.answers import final_answer
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Tool

POOL = "paramanager"
"""Default configuration of the catalogue for the pool (§4.3)."""
SUMMARISER = "gpt-oss-20b"
"""M_s: it writes the final answer, whatever the pool (§4.3)."""
LEFT_OUT = ("calculator",)
"""Tools of worlds that are left out, because `python` and `code_reasoner` replace them."""
Final = Literal["summariser", "orchestrator"]
"""Who decides what the answer is, where the orchestrator has concluded something itself."""
_NO_BRACES = str.maketrans("", "", "{}")
_KINDS = ("simulated", "real")


class ParaManagerEnv(OrchestrationEnv):
    r"""Parallel orchestration of sub-agents and tools, one problem per episode.

    **Action**: text. ``<reasoning>…</reasoning>``, then one to four ``<tool_call>{"name": …, "arguments": {…}}
    </tool_call>`` blocks, which run at the same time; or a list of such objects, or an OpenAI assistant message with
    ``tool_calls``. A message without a call is answered and costs a round.

    **Observation**: text. After `reset` the system prompt and the problem; after `step` one ``<tool_response>`` block
    per call, with its ``id``, ``name``, ``status`` (``OK``, ``PARSE_ERR``, ``EXEC_ERR``, ``TIMEOUT``) and ``result`` or
    ``error``. Its last line is what is left of the budget: rounds, cost units and tokens.

    **Tools**: ``standard_reasoner``, ``critical_reviewer``, ``knowledge_searcher`` and ``code_reasoner`` (1 cost unit
    each), ``ensemble_solver`` (4), ``local_search`` and ``python`` (0), ``final_answer`` (1), and the world's own (0).

    **Reward**: R_task + R_fmt + R_div + R_eff at the end, at most 4 (`toolorchestra.envs.paramanager.rewards`).

    **End**: terminated when `final_answer` has been run: a summariser writes the answer, and it is judged. Truncated
    after `max_rounds` rounds, or by an infrastructure error, such as a summariser that does not answer.

    **Info**: see `OrchestrationEnv`; also ``budget`` (``rounds``, ``cost``, ``tokens`` left). ``reward_parts`` are
    those of `toolorchestra.envs.paramanager.rewards.reward_parts`.

    Args:
        source: Name of a task source (``Math``, ``Restaurant``, ``All``), or a `TaskSource`.
        pool: Models that sub-agents can use: a configuration of the catalogue, or names of experts, the default first.
            By default `POOL`, or the names of `experts`.
        mono: The only model of the pool (ablation *Mono*); the summariser does not change.
        serial: One call a round (ablation *Serial*).
        no_diversity: R_div is reported, but not part of the reward (App. B).
        theta_par: Mean calls of a round for the reward for parallelism.
        theta_tool: Number of different tools for the reward for tools.
        length_target: L_tar in tokens; the budget of tokens is twice as much.
        cost_target: C_tar in cost units; likewise.
        max_rounds: Messages before the episode is truncated, H.
        max_calls: Calls of one message, n_max.
        count_tokens: Counts the tokens of a text; by default a quarter of its characters.
        summariser: M_s: model that writes the final answer. By default `SUMMARISER`.
        final: What the summariser makes of a conclusion in ``\boxed{}`` that the orchestrator writes beside the final
            call: ``summariser`` (Eq. 7), it is one vote beside the answers in the history; ``orchestrator``, it is the
            answer.
        counting: What counts for the rewards for parallelism and format: ``paper``, all calls that a round emits and
            the template alone; ``run``, calls that were run, and rounds without refused calls
            (`toolorchestra.envs.paramanager.rewards.reward_parts`).
        strategies: Whether the prompt lists the paper's strategies and its hint on escaping (App. F).
        experts: ``simulated``, ``real`` (models at the endpoints of the catalogue), or chat models by name.
        timeout: Seconds of real time that a call of real models may take; then it is a TIMEOUT.
        sandbox: Where Python runs: ``simulated`` (arithmetic only, nothing is executed), or a name that
            `toolorchestra.envs.tools.sandbox.make_sandbox` takes. Default: ``simulated`` beside simulated experts,
            ``auto`` beside real ones.
        corpus: JSONL file of passages that ``local_search`` finds where a world has no search; by default its manual.
        catalog: Catalogue of experts, or a file that extends the shipped one.
        known_answers: Whether simulated experts may play questions of which only the answer is known, as of public data
            sets, without a `KnownAnswersWarning`.
        options: See `TaskOptions` and `OrchestrationOptions`.

    Reset options: ``task_id``, ``split``, ``difficulty``, ``preference``, each overriding the above for one episode.

    Raises:
        UnknownNameError: There is no such configuration, expert, model of the pool, or kind of experts.
        OptionError: An option is out of its range, or a real model has no endpoint.

    >>> import gymnasium as gym, toolorchestra
    >>> env = gym.make("ParaManager-Math-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation.splitlines()[-1]
    'Budget left: 12 rounds, 16 cost units, 24500 tokens.'
    >>> calls = [{"name": "standard_reasoner", "arguments": {}}, {"name": "code_reasoner", "arguments": {}}]
    >>> observation, reward, terminated, truncated, info = env.step(calls)
    >>> info["budget"]["rounds"], info["budget"]["cost"]
    (11, 14.0)
    >>> observation, reward, terminated, truncated, info = env.step([{"name": "final_answer", "arguments": {}}])
    >>> terminated, sorted(info["reward_parts"])[:4]
    (True, ['cost', 'diversity', 'efficiency', 'format'])
    """

    protocol = "ParaManager"
    typed_place = (
        r'The answer is one JSON object {"answer": {slot: value, …}}, in \boxed{} beside the call of final_answer, '
        "with the slots"
    )
    max_reward = 4.0
    preface = "<reasoning>The next calls do not wait for each other.</reasoning>\n"

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        pool: str | Sequence[str] | None = None,
        mono: str | None = None,
        serial: bool = False,
        no_diversity: bool = False,
        theta_par: float = 1.25,
        theta_tool: int = 3,
        length_target: int = 12_288,
        cost_target: float = 8.0,
        max_rounds: int = MAX_ROUNDS,
        max_calls: int = MAX_CALLS,
        count_tokens: CountTokens = estimate_tokens,
        summariser: str | None = None,
        final: Final = "summariser",
        counting: Counting = "paper",
        strategies: bool = True,
        experts: Literal["simulated", "real"] | Mapping[str, ChatModel] = "simulated",
        timeout: float = 600.0,
        sandbox: str | None = None,
        corpus: str | Path | None = None,
        catalog: Catalog | str | Path | None = None,
        known_answers: bool = False,
        **options: Unpack[OrchestrationOptions],
    ) -> None:
        rules = Rules(
            turns=max_rounds,
            calls=1 if serial else max_calls,
            targets=Targets(theta_par, theta_tool, length_target, cost_target),
            diversity=not no_diversity,
            counting=counting,
            count_tokens=count_tokens,
        )
        super().__init__(source, rules, with_catalog(options, catalog))
        self._rules = rules
        self._catalog = catalog if isinstance(catalog, Catalog) else Catalog.load(*([catalog] if catalog else []))
        for what, value, known in (("final", final, Final), ("counting", counting, Counting)):
            if value not in get_args(known):
                raise UnknownNameError(f"`{what}`", str(value), get_args(known))
        self._own_answer, self._strategies = final == "orchestrator", strategies
        if isinstance(experts, str) and experts not in _KINDS:
            raise UnknownNameError("kind of experts", experts, _KINDS)
        self._experts = experts
        self._known_answers = known_answers
        self._timeout = timeout
        self._python = default_python(sandbox, experts == "simulated")
        self._library = None if corpus is None else corpus_search(Path(corpus))
        self._pool = self._chosen(pool, mono)
        given = experts if isinstance(experts, Mapping) else {SUMMARISER: None}
        self._summariser = summariser or (SUMMARISER if SUMMARISER in given else next(iter(self._pool)))
        self._models = {name: self._chat(name) for name in dict.fromkeys((*self._pool, self._summariser))}
        self._worlds: dict[str, tuple[str, Mapping[str, Tool]]] = {}

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        if self._experts == "simulated":
            check_ground_truth(world, task, remedy="experts='real'", known_answers=self._known_answers)
        if world.name not in self._worlds:
            prompt = orchestrator_prompt(
                max_calls=self._rules.calls,
                rounds=self._rules.turns,
                models=self._pool,
                rules=world.rules,
                strategies=self._strategies,
                own_answer=self._own_answer,
            )
            self._worlds[world.name] = prompt, self._tools(world)
        prompt, tools = self._worlds[world.name]
        return EpisodeSetup(prompt, tools, ParaManagerPlay, preference=chosen["preference"])

    @property
    def max_calls_per_message(self) -> int:
        """Maximum number of calls of one round."""
        return self._rules.calls

    def final(self, text: str) -> Action:
        r"""Return the action that ends with the conclusion `text`: reasoning with ``\boxed{}``, and the final call.

        With ``final="orchestrator"`` it is the answer; else the summariser counts it as one vote.
        """
        boxed = rf"\boxed{{{text}}}"
        if r"\boxed{" in text:
            boxed = text
        elif final_answer(boxed) != text.strip():  # a box ends where its braces match
            boxed = rf"\boxed{{{text.translate(_NO_BRACES)}}}"
        return {"content": f"<reasoning>{boxed}</reasoning>", "tool_calls": [{"name": FINAL, "arguments": {}}]}

    def close(self) -> None:
        """Release the databases, and the models if they were made here."""
        super().close()
        if self._experts == "real":
            for model in self._models.values():
                getattr(model, "close", lambda: None)()

    def _info(self, play: ParaManagerPlay) -> dict[str, Any]:
        info = super()._info(play)
        info["budget"] = asdict(play.budget)
        return info

    # ------------------------------------------------------------------------------------------ tools and models

    def _chosen(self, pool: str | Sequence[str] | None, mono: str | None) -> dict[str, str]:
        """Return the models of the pool by name, the default one first, with their descriptions."""
        given = self._experts if isinstance(self._experts, Mapping) else {}
        if pool is None:
            pool = tuple(given) or POOL
        if isinstance(pool, str):
            by_role = self._catalog.configure(pool).experts
            pool = tuple(dict.fromkeys(chain(by_role.get("generalist", ()), *by_role.values())))
        if not pool:
            raise OptionError("The `pool` is empty: name a configuration of the catalogue, or at least one expert.")
        if mono is not None:
            if mono not in pool:
                raise UnknownNameError("model of the pool", mono, pool)
            pool = (mono,)
        unknown = given.keys() - self._catalog.experts.keys()
        return {name: "" if name in unknown else self._catalog.spec(name).description for name in pool}

    def _chat(self, name: str) -> ChatModel:
        if self._experts == "simulated":
            return SimulatedChat(self._catalog.simulated(name))
        if self._experts == "real":
            return self._catalog.chat(name)
        if name not in self._experts:
            raise UnknownNameError("model among `experts`", name, self._experts)
        return self._experts[name]

    def _tools(self, world: World) -> Mapping[str, Tool]:
        """Return the tools in a world, in the order in which they are listed."""
        own = {name: tool for name, tool in world.tools.items() if name not in LEFT_OUT}
        search, python = own.get("local_search") or self._library, own.get("python") or self._python
        if search is None:
            search = manual_search(world, "Search the rules, tools and tables of the place.")
        simulated = self._experts == "simulated"
        pool = {name: self._models[name] for name in self._pool}

        def role(name: str, **uses: Tool) -> RoleTool:
            return RoleTool(name, pool, simulated=simulated, uses=uses, timeout=self._timeout)

        roles = (
            role("standard_reasoner"),
            role("critical_reviewer"),
            role("knowledge_searcher", search=search),
            role("code_reasoner", python=QuickPython(python) if simulated else python),
        )
        summarisers = {self._summariser: self._models[self._summariser]}
        final = RoleTool(FINAL, summarisers, simulated=simulated, timeout=self._timeout, own_answer=self._own_answer)
        ends = (role("ensemble_solver"), final)
        return {**{tool.name: tool for tool in (*roles, search, python, *ends)}, **own}
