"""What sub-agents are tested with: models that err, tools that count, questions with known steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import ExpertSpec, Latency
from toolorchestra.agents.problems import Problem
from toolorchestra.agents.subagents import SubAgentQuestion, SubAgentReply
from toolorchestra.toolscale.database.format import ParameterSpec
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, Tool, ToolContext, ToolResult


class FakePython(Tool):
    """Understands programs that print one literal, and says what else is an error."""

    def __init__(self) -> None:
        super().__init__("python", "Runs Python.", {"code": ParameterSpec(type="string", description="The program.")})
        self.price, self.latency = 0.001, 0.5
        self.programs: list[str] = []

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        assert context is NO_CONTEXT
        self.programs.append(arguments["code"])
        if arguments["code"] == "silence":
            return ToolResult.ok("")
        if arguments["code"] == "while True: pass":
            return ToolResult.timed_out("It ran longer than 10 s.")
        if found := re.fullmatch(r"(?:result = '(.*)'\nprint\(result\)|print\((.*)\))", arguments["code"]):
            return ToolResult.ok((found[1] or found[2]) + "\n") if found[2] != "results" else _UNDEFINED
        return _UNDEFINED


_UNDEFINED = ToolResult.failed("NameError: name 'results' is not defined")


class FakeSearch(Tool):
    """Finds the passages of which a query has the title."""

    def __init__(self, library: dict[str, str]) -> None:
        queries = ParameterSpec(type="array", items="string", description="Queries.", max_length=8)
        count = ParameterSpec(type="integer", description="Passages.", required=False, default=5)
        super().__init__("local_search", "Searches.", {"query_list": queries, "k": count}, price=0.002, latency=0.25)
        self.library = library
        self.calls: list[list[str]] = []

    def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        assert context is NO_CONTEXT
        assert arguments["k"] == 5
        self.calls.append(arguments["query_list"])
        return ToolResult.ok(
            [
                {
                    "query": query,
                    "passages": [{"id": t, "title": t, "text": text} for t, text in self.library.items() if t in query],
                }
                for query in arguments["query_list"]
            ]
        )


@pytest.fixture(scope="session")
def simulated() -> Callable[..., SimulatedChat]:
    """Makes a simulated model by its name and what differs from the others."""

    def make(name: str = "ada", **changes: Any) -> SimulatedChat:
        fields: dict[str, Any] = {
            "provider": "none",
            "roles": ("generalist",),
            "price": Price(1.0, 2.0),
            "latency": Latency(10.0),
            "context": 100_000,
            "skills": {"other": 0.9},
        }
        return SimulatedChat(SimulatedExpert(name, ExpertSpec(**(fields | changes))))

    return make


@pytest.fixture(scope="session")
def share() -> Callable[..., float]:
    """How often a sub-agent's answers to chains of so many steps are right."""

    def measure(
        agent: Callable[[SubAgentQuestion], SubAgentReply], length: int = 4, *, many: int = 400, **more: Any
    ) -> float:
        def one(number: int) -> bool:
            problem = Problem.chain(f"p{number}", "math", length, "12", ("13", "14", "15"))
            return agent(SubAgentQuestion("What is it?", problem, seed=number, **more)).answer == "12"

        return mean(one(number) for number in range(many))

    return measure


@pytest.fixture
def python() -> FakePython:
    """Runs what simulated programmers write, and little else."""
    return FakePython()


@pytest.fixture
def search() -> FakeSearch:
    """Searches three passages, which lead from one to the next."""
    return FakeSearch(
        {
            "The Notes": "The Notes were written by Ada Lovelace.",
            "Ada Lovelace": "Ada Lovelace was born in Thornby.",
            "Thornby": "Thornby lies on the river Wend.",
        }
    )
