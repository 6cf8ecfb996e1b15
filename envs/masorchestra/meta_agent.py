"""Meta Agent Search (ADAS): a chat model reads the archive of workflows with their scores, and writes the next one.

The workflow is written in the design language and parsed, never executed. Proposals of a chat model can be continued
from a record like any others, where the model's answers can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from toolorchestra.agents.chat.base import ChatModel, ChatRequest
from toolorchestra.envs.masorchestra.design import Design, to_text
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.masorchestra.rules import DesignFault
from toolorchestra.envs.masorchestra.workflow_edits import INSTRUCTIONS, WorkflowNode, workflow_of
from toolorchestra.envs.masorchestra.workflow_strategies import WorkflowCandidate, WorkflowSearch
from toolorchestra.toolscale.errors import OptionError

_SYSTEM = """\
You design multi-agent systems. A system is a graph of agents that answers any question it is given. You see the systems
that were tried, with the share of questions that each answered rightly and its mean cost, and write a new one that is
better and different.

Write it in this form, and nothing else:

{example}

Kinds of agent: {kinds}. At most {max_agents} agents; one of them is read by no other and gives the answer. An input is
an instruction, with ${{ID}} where the answer of another agent goes; empty, it is the question. The edges, all in one
block, are exactly these references."""
_ARCHIVE = "Tried so far, the best last:\n\n{tried}\n\nWrite the next system."
_AGAIN = "This is no valid system: {fault}\nWrite it again, corrected."


@dataclass
class MetaAgentSearch(WorkflowSearch):
    """A meta agent programs new agents from an archive of those before (arXiv:2408.08435).

    Each proposal shows the `archive` best workflows with their scores and costs; one that breaks a rule of the language
    is shown back with the rule, at most `repairs` times, in the place of the paper's reflections. Where none is valid,
    the search goes on with the next draw.

    Simplified: agents are graphs in the design language, where the paper's are Python programs.

    Attributes:
        model: The chat model that designs; what it costs is in its `meter`.
        archive: Number of workflows shown.
        repairs: How often a faulty design is shown back.
        temperature: Of its samples.
    """

    model: ChatModel | None = None
    archive: int = 10
    repairs: int = 2
    temperature: float = 0.8

    def __post_init__(self) -> None:
        if self.model is None or self.archive < 1 or self.repairs < 0:
            raise OptionError(
                f"Expected a chat model that designs (model=…), an archive and no fewer than 0 repairs, got {self}."
            )

    def propose(self, history: Sequence[WorkflowCandidate], rng: random.Random) -> WorkflowCandidate:
        """Return what the model writes; the first workflow again if that is none."""
        assert self.model is not None
        shown = sorted(history, key=lambda one: one.rank, reverse=True)[-self.archive :]
        tried = "\n\n".join(f"{to_text(one.design)}\nscore {one.score:.1%}, ${one.usd:.4f}" for one in shown)
        kinds, limit = ", ".join(self.space.kinds), self.space.max_agents
        first = WorkflowNode(self.space.kinds[0])
        example = workflow_of([first, WorkflowNode(self.space.kinds[-1], INSTRUCTIONS[4], frozenset((0,)))])
        messages = [
            {"role": "system", "content": _SYSTEM.format(kinds=kinds, max_agents=limit, example=to_text(example))},
            {"role": "user", "content": _ARCHIVE.format(tried=tried)},
        ]
        for _ in range(self.repairs + 1):
            request = ChatRequest(
                tuple(messages), temperature=self.temperature, max_tokens=4_096, seed=rng.getrandbits(31)
            )
            text = self.model.complete([request])[0].text
            found = parse_design(text, "high", self.space.kinds)
            if isinstance(found, Design) and 1 <= len(found.agents) <= self.space.max_agents:
                return WorkflowCandidate(len(history), found, (), "written")
            fault = str(found) if isinstance(found, DesignFault) else f"it has {len(found.agents)} agents."
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": _AGAIN.format(fault=fault)},
            ]
        return WorkflowCandidate(len(history), history[0].design, (), "none")
