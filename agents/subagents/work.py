"""The work of one sub-agent: it asks models and runs tools, and records what each call cost and when it ran."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from toolorchestra.agents.chat.base import ChatModel, ChatRequest, Completion
from toolorchestra.agents.messages.text_parts import answer_in, spoken
from toolorchestra.agents.problems import Act, GroundTruth, facts
from toolorchestra.agents.subagents.question import SubAgentQuestion, SubAgentReply
from toolorchestra.toolscale.answers.mentions import mentions, tokens
from toolorchestra.toolscale.common.float_sums import float_sum
from toolorchestra.toolscale.tools.tool import NO_CONTEXT, ArgumentError, InnerCall, Status, Tool, ToolResult

MAX_RESULT_TOKENS = 16_384
"""Maximum number of tokens of one answer."""
_SEEDS = 2**31
_APART = 1_000_003  # between the seeds of two questions' first requests
_ARTICLE = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)
_ITEMS = re.compile(r",\s+(?:and\s+)?|\s+and\s+")


class Ask(msgspec.Struct, frozen=True):
    """One request to a model: its system and user prompts, and what a simulated model must know of them.

    Attributes:
        act: What the prompts ask for.
        candidates: Answers that the prompts show.
        more: Messages that follow.
    """

    system: str
    user: str
    act: Act = "solve"
    candidates: tuple[str, ...] = ()
    more: tuple[dict[str, Any], ...] = ()


class Work:
    """Asks models, at one temperature, and runs tools for one question, on a clock that starts at 0."""

    def __init__(self, question: SubAgentQuestion, temperature: float) -> None:
        self._question = question
        self._temperature = temperature
        self._children: list[InnerCall] = []
        self._found: set[int] = set()
        self._requests = 0
        self._clock = 0.0

    def show(self, passages: str) -> None:
        """Record passages that all later requests show."""
        if passages and self._question.problem is not None:
            self._found.update(found_in(self._question, passages))

    def ask(self, model: ChatModel, *asks: Ask) -> list[str]:
        """Ask a model several things at once and return its texts; `ExpertError` if a request failed for good."""
        return self.ask_all([(model, ask) for ask in asks])

    def ask_all(self, asks: Sequence[tuple[ChatModel, Ask]]) -> list[str]:
        """Ask several models at once, each in one batch, and return their texts; `ExpertError` as in `ask`."""
        requests = [self._request(ask) for _, ask in asks]
        batches: dict[int, list[int]] = {}
        for place, (model, _) in enumerate(asks):
            batches.setdefault(id(model), []).append(place)
        found: dict[int, Completion] = {}
        for places in batches.values():
            model, _ = asks[places[0]]
            found.update(zip(places, model.complete([requests[place] for place in places]), strict=True))
        answers = [found[place] for place in range(len(asks))]
        start = self._clock
        for (model, _), answer in zip(asks, answers, strict=True):
            tokens = (answer.prompt_tokens, answer.completion_tokens)
            end = start + answer.latency
            self._children.append(
                InnerCall(model.name, value=answer.text, cost=answer.cost, tokens=tokens, start=start, end=end)
            )
            self._clock = max(self._clock, end)
        return [answer.text for answer in answers]

    def conclude(self, model: ChatModel, ask: Ask) -> SubAgentReply:
        """Ask a model a last time; its text, and the answer in it, are the reply."""
        (text,) = self.ask(model, ask)
        return self.reply(spoken(text), answer_in(text))

    def run(self, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        """Run a tool; arguments that do not fit its parameters give a failed result."""
        try:
            result = tool.run(tool.decode(msgspec.json.encode(arguments)), NO_CONTEXT)
        except ArgumentError as error:
            result = ToolResult(Status.PARSE_ERR, error=str(error))
        start, cost = self._clock, tool.price + result.cost
        self._clock = end = start + tool.latency + result.seconds
        ended = (result.status, result.value, result.error)
        self._children.append(InnerCall(tool.name, *ended, cost, result.tokens, start, end, result.children))
        return result

    def reply(self, text: str, answer: str, status: Status = Status.OK, error: str | None = None) -> SubAgentReply:
        """Return the reply, with all calls so far and their totals."""
        children = tuple(self._children)
        cost = float_sum(child.cost for child in children)
        tokens = (sum(child.tokens[0] for child in children), sum(child.tokens[1] for child in children))
        return SubAgentReply(text, answer, children, cost, tokens, self._clock, status, error)

    def _request(self, ask: Ask) -> ChatRequest:
        question, ground_truth = self._question, None
        if (problem := question.problem) is not None:
            found = tuple(sorted(self._found))
            ground_truth = GroundTruth(problem, ask.act, ask.candidates, question.queries, found, question.seed)
        seed = (question.seed * _APART + self._requests) % _SEEDS  # samples differ, and episodes, with real models too
        self._requests += 1
        return ChatRequest(
            [{"role": "system", "content": ask.system}, {"role": "user", "content": ask.user}, *ask.more],
            temperature=self._temperature,
            max_tokens=MAX_RESULT_TOKENS,
            seed=seed,
            ground_truth=ground_truth,
        )


def found_in(question: SubAgentQuestion, evidence: str) -> tuple[int, ...]:
    """Return the steps of a question's problem whose answers are in passages.

    Without queries, passages that have the answers to all targets are taken to have all steps'.
    """
    assert question.problem is not None
    words_found = _tokens(evidence)
    steps = question.problem.steps
    if question.queries:
        return tuple(position for position in facts(question.problem) if _stated(words_found, steps[position].answer))
    whole = all(_stated(words_found, steps[target].answer) for target in question.problem.targets)
    return tuple(range(len(steps))) if whole else ()


@functools.lru_cache(maxsize=512)
def _tokens(text: str) -> tuple[str, ...]:
    return tuple(tokens(text))  # the samples of one task find the same passages


def _stated(words_found: Sequence[str], answer: str) -> bool:
    """Return whether a text states an answer, or every item of one that is a list, articles aside."""
    return mentions(words_found, answer) or all(
        mentions(words_found, _ARTICLE.sub("", item)) for item in _ITEMS.split(answer)
    )
