"""MSARL as a PettingZoo environment: agents, prompts, tools, and options."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.envs.judge.path_judge import PathJudge
from toolorchestra.envs.msarl.play import HELPER, REASONER, MSARLPlay, OldOutputs, Tag
from toolorchestra.envs.multiagent.base import MultiAgentEnv
from toolorchestra.envs.multiagent.constructors import constructors
from toolorchestra.envs.multiagent.views import SingleAgentEnv
from toolorchestra.envs.task_env import EpisodeSetup, TaskOptions
from toolorchestra.envs.task_source import TaskSource
from toolorchestra.envs.tools.python import make_python
from toolorchestra.envs.tools.simulated_python import SimulatedPython
from toolorchestra.envs.tools.text_input import fence_parameter
from toolorchestra.envs.world import World
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.tasks.task import Task
from toolorchestra.toolscale.tools.tool import Tool

_TEXTS: dict[str, str] = read_yaml(Path(__file__).with_name("prompts.yaml"))


class MSARLEnv(MultiAgentEnv):
    r"""Reasoning with code by two policies: one plans and writes code, the other reads its output (MSARL §3.2).

    **Agents**: ``reasoner`` and ``helper``; with `helpers="per_tool"` one helper for each tool, ``python_helper``,
    ``local_search_helper`` and so on; with `helpers="none"` the reasoner alone, who reads raw output.

    **Tools**: Python, and those of the world with one text parameter (``calculator``, the ``local_search`` of the
    encyclopaedia, one query a line); a block's language names its tool.

    **Reward**: 1 for every agent if the reasoner's final ``\boxed{}`` is right, else 0.

    Args:
        source: Name of a task source (``Math``), or a `TaskSource`.
        max_calls: Blocks that are run (C in the paper); 0 for reasoning in text alone.
        max_cycles: Messages, of all agents together, after which an episode is truncated.
        python: What runs Python: ``simulated`` (arithmetic only, nothing is executed), a sandbox (``auto``, or a name
            of `make_sandbox`), ``none``, or a `Tool` of the name ``python`` that takes ``code``.
        noise: Lines of noise in the output of the simulated Python.
        stale: Lines of stale values of the same names in its output; see `SimulatedPython`.
        failures: Probability that a program of the simulated Python fails with a traceback.
        helpers: ``one`` for all tools, one ``per_tool``, or ``none``.
        helper_memory: Whether a helper keeps code, outputs and interpretations of earlier calls. The paper's reads one
            call at a time.
        old_outputs: Whether a reasoner who reads raw outputs keeps (``kept``) those that it has read, or sees in their
            place that they were ``deleted``.
        tag: Of the interpretations that the reasoner reads: ``interpretation``, or ``answer`` as in the paper.
        path_judge: Model that judges whether the reasoner's path is sound (§3.1): the name of a model of the catalogue
            that has an endpoint, or a `ChatModel`. It changes no reward; see `toolorchestra.envs.judge.path_judge`.
        output_characters: Maximum characters of an output in an observation.
        interpretation_characters: Maximum characters of an interpretation in an observation.
        options: See `TaskOptions`: `domain`, `tasks`, `split`, `difficulty`, `render_mode`, `answer`,
            `orchestrator`, `judge`.

    >>> env = MSARLEnv("Math")
    >>> env.reset(seed=0, options={"difficulty": 1})
    >>> env.step("```python\nprint(2 ** 10)\n```")
    >>> print(env.agent_selection, env.observe("helper")[-4:])
    helper 1024
    >>> env.step("The result is 1024.")
    >>> print(env.observe("reasoner"))
    <interpretation>
    The result is 1024.
    </interpretation>
    """

    protocol = "MSARL"
    typed_place = r'The answer is one JSON object {"answer": {slot: value, …}}, in \boxed{}, with the slots'
    metadata = {**MultiAgentEnv.metadata, "name": "msarl_v0"}  # noqa: RUF012 - PettingZoo's declaration

    def __init__(
        self,
        source: str | TaskSource | None = None,
        *,
        max_calls: int = 1,
        max_cycles: int = 8,
        python: str | Tool = "simulated",
        noise: int = 0,
        stale: int = 0,
        failures: float = 0.0,
        helpers: Literal["one", "per_tool", "none"] = "one",
        helper_memory: bool = False,
        old_outputs: OldOutputs = "kept",
        tag: Tag = "interpretation",
        path_judge: str | ChatModel | PathJudge | None = None,
        output_characters: int = 16_384,
        interpretation_characters: int = 2_048,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(source, max_cycles, options)
        if max_calls < 0 or min(output_characters, interpretation_characters) < 1:
            raise OptionError("`max_calls` must be at least 0, and the numbers of characters shown above 0.")
        if helpers not in ("one", "per_tool", "none"):
            raise OptionError(f"`helpers` must be 'one', 'per_tool' or 'none', got {helpers!r}.")
        if (noise or stale or failures) and python != "simulated":
            raise OptionError(
                "`noise`, `stale` and `failures` are of the simulated Python: give python='simulated', the default."
            )
        if old_outputs not in ("kept", "deleted"):
            raise OptionError(f"`old_outputs` must be 'kept' or 'deleted', got {old_outputs!r}.")
        if old_outputs == "deleted" and helpers != "none":
            raise OptionError(
                "Helpers read the outputs, and the reasoner has none: `old_outputs` needs helpers='none'."
            )
        if tag not in ("interpretation", "answer"):
            raise OptionError(f"`tag` must be 'interpretation' or 'answer', got {tag!r}.")
        self.max_calls, self._tag = max_calls, tag
        simulated = SimulatedPython(noise=noise, stale=stale, failures=failures)
        self._python = simulated if python == "simulated" else make_python(python)
        self._tools_of_worlds: dict[str, dict[str, Tool]] = {}
        names = {name: None for task in self.source.tasks("all") for name in self._tools(self.source.world(task))}
        if not names:
            raise OptionError(f"{self.source.name} has no tool that a code block can call: leave `python` on.")
        readers = {name: HELPER if helpers == "one" else f"{name}_helper" for name in names}
        self.readers = {} if helpers == "none" else readers
        self._rules = functools.partial(
            MSARLPlay,
            readers=self.readers,
            max_calls=max_calls,
            output_characters=output_characters,
            interpretation_characters=interpretation_characters,
            helper_memory=helper_memory,
            old_outputs=old_outputs,
            tag=tag,
            path_judge=PathJudge.of(path_judge),
        )
        self._set_agents([REASONER, *dict.fromkeys(self.readers.values())])

    def _setup_episode(
        self, task: Task, world: World, chosen: Mapping[str, Any], typed: TypedAnswer | None
    ) -> EpisodeSetup:
        tools = self._tools(world)
        calls = f"At most {self.max_calls} of your blocks {'is' if self.max_calls == 1 else 'are'} run."
        fences = "; ".join(
            _TEXTS["python"] if name == "python" else f"```{name} … ``` ({tool.description})"
            for name, tool in tools.items()
        )
        observed = _TEXTS["with_helpers" if self.readers else "without_helpers"].format(tag=self._tag)
        system = _TEXTS["reasoner"].format(fences=fences, observed=observed, calls=calls, rules=world.rules)
        openings = {agent: [{"role": "system", "content": _TEXTS["helper"]}] for agent in self.possible_agents}
        request = {"role": "user", "content": self._asked(task, typed)}
        openings[REASONER] = [{"role": "system", "content": system}, request]
        return EpisodeSetup(system, tools, self._rules, openings)

    def _tools(self, world: World) -> Mapping[str, Tool]:
        """Return what blocks can run in a world: Python first."""
        if world.name not in self._tools_of_worlds:
            own = {name: tool for name, tool in world.tools.items() if fence_parameter(tool) is not None}
            self._tools_of_worlds[world.name] = {**({"python": self._python} if self._python else {}), **own}
        return self._tools_of_worlds[world.name]


raw_env = MSARLEnv
env, parallel_env = constructors(MSARLEnv)


def single_env(source: str | TaskSource | None = "Math", **options: Any) -> SingleAgentEnv:
    """Return the reasoner's view without helpers: one agent that reasons with code, and reads raw output.

    With ``max_calls=0`` it is one agent that reasons in text alone. These are the paper's baselines for two agents.
    """
    return SingleAgentEnv(raw_env(source, helpers="none", **options), REASONER, {})


def random_message(env: MultiAgentEnv, rng: random.Random) -> str:
    """Return a random well-formed message, so that random play reaches every rule."""
    number = rng.randint(0, 99)
    block = f"```{rng.choice(list(env.play.tools))}\n{number} + {rng.randint(0, 99)}\n```"
    return rng.choice((block, block, rf"\boxed{{{number}}}", f"It may be {number}."))
