"""The searchers and designers of workflows in the table of baselines, which `benchmarks/baselines.py` lets play.

Each is fitted or searches on training questions, and its workflow (or its designs) then plays test questions. ADAS
and MAS-Zero need a chat model that designs; here it is `scripted_designer`, which writes textbook systems in turn,
whatever it is shown. So their rows show the loop around a designer, not what a language model would design.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import harness  # noqa: F401 - finds `examples`

from examples.searches.mas_gpt import MASGPT
from examples.searches.mas_zero import MASZero
from examples.searches.search import SearchBudget, Validation, best, search
from examples.searches.supernet import MaAS, ScoreFlow
from examples.searches.workflows import INSTRUCTIONS, WorkflowNode, single, workflow_of
from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.agents.policies.base import Info, Policy
from toolorchestra.envs.masorchestra.design import to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.orchestrators import SinglePolicy

ENVIRONMENTS = {"MASOrchestra-High-Math-v0": "qwen2.5-7b", "MASOrchestra-High-MultiHopQA-v0": "gpt-oss-120b"}
"""Environments, and the model behind the agents of each."""
SEARCHES = {"aflow": "aflow", "evoflow": "evolution", "gptswarm": "gptswarm", "adas": "adas"}
"""Methods of `search` by the names of the table."""
ORDER = ("single", *SEARCHES, "maas", "scoreflow", "mas-gpt", "mas-zero")
SIZES: dict[str, dict[str, int]] = {
    "search": {"candidates": 30, "questions": 20},
    "maas": {"episodes": 512},
    "scoreflow": {"questions": 15, "draws": 4, "tries": 2},
    "mas-gpt": {"questions": 50, "pool": 10},
}
QUICK: dict[str, dict[str, int]] = {
    "search": {"candidates": 4, "questions": 5},
    "maas": {"episodes": 32},
    "scoreflow": {"questions": 4, "draws": 3, "tries": 1, "iterations": 1},
    "mas-gpt": {"questions": 8, "pool": 6},
}


class Workflow(Policy):
    """Plays one workflow on every question."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def act(self, observation: str, info: Info) -> str:
        """Return the workflow."""
        return self.text


def scripted_designer(kinds: tuple[str, ...]) -> ScriptedChat:
    """Return a chat model that designs by a script: textbook systems in turn; asked to choose, the first answer."""
    first = WorkflowNode("CoTAgent")
    checked = WorkflowNode("ReflexionAgent", INSTRUCTIONS[4], frozenset((0,)))
    compared = WorkflowNode("CoTAgent", INSTRUCTIONS[5], frozenset((0, 1, 2)))
    looked_up = WorkflowNode(kinds[-1], INSTRUCTIONS[3])
    systems = [
        single("CoTAgent"),
        workflow_of([first, checked]),
        single("SCAgent"),
        workflow_of([first, first, first, compared]),
        workflow_of([looked_up, WorkflowNode("CoTAgent", INSTRUCTIONS[4], frozenset((0,)))]),
        single("DebateAgent"),
        workflow_of([WorkflowNode("CoTAgent", INSTRUCTIONS[2]), WorkflowNode("SCAgent", "", frozenset((0,)))]),
        single(kinds[-1]),
    ]
    turn = itertools.cycle(map(to_text, systems))

    def reply(request: ChatRequest) -> str:
        asked = str(request.messages[-1]["content"])
        return "1" if re.search(r"Reply with its number alone", asked) else next(turn)

    return ScriptedChat(reply, name="scripted designer")


def learnt(name: str, env: MASOrchestraEnv, sizes: dict[str, dict[str, int]]) -> Callable[[], Policy]:
    """Return what makes the policy of a name, which has learnt or searched in an environment."""
    kinds = tuple(env.reset(seed=0)[1]["tool_names"])
    if name == "single":
        return SinglePolicy
    if name == "mas-zero":
        return lambda: MASZero(scripted_designer(kinds))
    if name in SEARCHES:
        size = sizes["search"]
        options: dict[str, Any] = {"model": scripted_designer(kinds)} if name == "adas" else {}
        validation = Validation.drawn(env, size["questions"], seed=1)
        found = search(SEARCHES[name], validation, SearchBudget(size["candidates"]), seed=1, max_agents=5, **options)
        text = to_text(best(found).design)
        return lambda: Workflow(text)
    kind = {"maas": MaAS, "scoreflow": ScoreFlow, "mas-gpt": MASGPT}[name]
    options = kind.fit(env, **sizes[name]).learnt()  # type: ignore[attr-defined]  # each is a LearnedPolicy
    return lambda: kind(**options)
