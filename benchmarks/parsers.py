"""Give every parser long texts made to keep it busy, and print what they cost per kilobyte.

    python benchmarks/parsers.py                    texts of up to 1 MB: about twenty minutes on one core
    python benchmarks/parsers.py --every 20         a twentieth of the texts
    python benchmarks/parsers.py --parsers judge    those whose name holds a word

A text is one piece or two, again and again: openings that are never closed, closings that were never opened, runs of
white space, digits, marks. The parsers are all that read what a model writes: messages, answers, judges, designs,
graders, questions to simulated experts, what a model drafts for a domain, and what shows it all.

The run fails if one raises, takes more than twice as long per kilobyte of 1 MB as of 64 KB, or of 16 KB as of 4 KB, or
more than `PER_KILOBYTE` of a text. What is measured is CPU time; what was slow is measured again and counts as its
fastest run, and a text that takes less than `LEAST` seconds is too short to say how its time grows.
"""

from __future__ import annotations

import functools
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness import cli, save
from svg import escaped

from toolorchestra.agents.builtin import tool_messages
from toolorchestra.agents.builtin.design_renderer import DesignRenderer, questions_in
from toolorchestra.agents.messages import text_parts as subagents
from toolorchestra.agents.messages.reading import read_message, read_text
from toolorchestra.envs.dialogue import user_reading
from toolorchestra.envs.ground_truth import design_problems, given, sums, tool_similarity
from toolorchestra.envs.judge.model_judge import read_reply
from toolorchestra.envs.masorchestra.paper_parser import parse_paper_design
from toolorchestra.envs.masorchestra.parser import parse_design
from toolorchestra.envs.msarl.play import is_well_formed, read_block
from toolorchestra.envs.paramanager.play import concluding_answer
from toolorchestra.envs.sources.masbench.world import read_answers
from toolorchestra.envs.tmatr.actions import AGENT_ACTIONS, read as read_action
from toolorchestra.envs.tools.simulated_python import SimulatedPython, result_lines
from toolorchestra.toolscale.answers import answers, mentions
from toolorchestra.toolscale.answers.prose_answers import judge_mentions
from toolorchestra.toolscale.answers.typed_answers import judge_typed
from toolorchestra.toolscale.common.errors import ToolOrchestraError
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.synth.answer_checks import SchemaAnswer, read_answer
from toolorchestra.toolscale.synth.model_queries import InvalidError
from toolorchestra.toolscale.tools.tool import NO_CONTEXT

Parser = Callable[[str], object]

SIZES = ((4 * 1024, 16 * 1024), (64 * 1024, 1024 * 1024))
"""Characters of a short text and a long one; many parsers read no more than 20,000 or 32,768."""
FACTOR = 2.0
PER_KILOBYTE = 0.008
MAX_FAULTS = 20
"""Faults that are kept with their texts."""
LEAST = 0.1
GIVEN_UP = 30.0
"""Seconds after which a parser is stopped, if its regular expressions can be."""
PIECES = (
    "[THINK]", "<|channel|>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", "<think>", "</think>",
    "<reasoning>", "<thinking>",
    "<agent>", "<agent_id>", "<from>", "<to>", "<edge>", "</edge>", "<ACTION>", "</ACTION>", "<THINK>", "<ANSWER>",
    "<code>", "<query>", "<tool_response>", "```", "```python\n", "```json\n", "``` ", r"\boxed{", r"\boxed", "{",
    "}", "[", "]", "(", ")", '{"a":', '"', "'", "\\", '\\"', "$", "$$", r"\frac", r"\text{", "^", "!", "=", "- ",
    "* ", "# ", "a", "a ", "A", "Aa ", "é", "½", "\u0130", "1", "1 ", "1,", "1.", "1,234,", "1+", "1 - ", "1/", "-",
    ".", ". ", ", ", ": ", "; ", "? ", "\n", "\r\n", " ", "\t", " \n", "  \n", "\u2028", "_", "~", "|", "<", "</",
    "&", "\x00", "\x1b[", "\u202e", "\ud800", "The answer is ", "the answer to the question is ", "not ",
    "it is not ", "n't ", "and ", "or ", "maybe ", "is 5 ", "so, ", "what ", "what next ", "which of a b c ",
    "next a b ", "the final ", "Problem 1: ", "$1,234.56 ", "twenty-", "one hundred ", "2025-07-23 ", "23 of July ",
    "12:30 ", "Dr. ", "no. ", "Mr. ", "e.g. ", "I ", "I can ", "we have ", "all done", "tell me ", "pay_bill(",
    'pay_bill(order="O1", ', "print(", "x = 1\n", "key: ", "- a\n", "? : ", "&a ", "*a ", "!!", "%",
    "the number of x that ", "Note: verify ", "[answer1]", "${A}", "'s ", "’s ", "ignore ", "notes ", "cheap ",
    "as cheap as ", "at most ", "I booked not. ", "I have sold nothing, ", "I will pay. ", "it cannot be done. ",
    "<GOAL>", "<GOAL></GOAL>", "['", "<edge><from>A",
)  # fmt: skip
PAIRS = (
    ("<tool_call>", "{"), ("<think>", "</think>"), ("<answer>", "</answer>"), (r"\boxed{", "}"), ("```python\n", "x\n"),
    ("```", "a\n"), ("{", '"'), ("[", "]"), ('"', "\\"), (" ", "\n"), ("1", ","), ("1", " "), ("1", "+"), ("a", " "),
    ("a", "."), (".", " "), ("-", "\n"), ("(", ")"), ("not ", "a "), ("the answer is ", "\n"), ("not ", "true "),
    ("<agent>", "</agent>"), ("<from>", "</from>"), ("<query>", "\n- a"), ("what ", "a"), ("'", "a"), ('{"a"', ":"),
)  # fmt: skip
ENDS = ("", "!", "5", "\x00")
MARKS = (
    "<tool_call><function=f><parameter=x>", "[TOOL_CALLS]", "[TOOL_CALLS]f[ARGS]{", "<|python_tag|>",
    '<|tool_call>call:f{a:<|"|>', "<tool_call>f<arg_key>a</arg_key><arg_value>", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>",
    "<|tool_call_start|>[f(x=", "<|START_ACTION|>", '<invoke name="f">', "to=functions.f<|message|>",
)  # fmt: skip
"""Marks of calls in other forms than Hermes's."""


@functools.cache
def parsers() -> dict[str, Parser]:
    """Return all parsers by name."""
    domain = load_domain("restaurant")
    tasks = {task.intent: task for task in domain.tasks() if task.communicate}
    chosen = list(tasks.values())[:3]
    table = domain.slots
    facts: Any = [user_reading.RequestFact(name, "1", name, (name, f"{name} id")) for name in ("order", "date", "chef")]
    python, renderer = SimulatedPython(), DesignRenderer(("CoTAgent",))
    similarity = tool_similarity.tool_similarity(domain)
    known = tuple(domain.tools)
    found: dict[str, Parser] = {
        "message: parse": lambda text: read_message(text, known).size,
        "message: text alone": lambda text: read_text({"content": text}).text,
        "message: arguments": lambda text: read_message([{"name": "x", "arguments": text}, {"name": text}]),
        "message: inside a call": lambda text: read_message(f'<tool_call>{{"name": "{text}"</tool_call>'),
        "message: another form": lambda text: [read_message(mark + text) for mark in MARKS],
        "message: result": lambda text: tool_messages.read_result({"role": "tool", "content": text}),
        "sub-agent: answer": subagents.answer_in,
        "sub-agent: code": lambda text: (subagents.code_in(text), subagents.before_code(text)),
        "sub-agent: queries": lambda text: subagents.queries_in(f"<query>{text}", 8),
        "answer: final": answers.final_answer,
        "answer: all": answers.answers,
        "answer: written": answers.in_form,
        "answer: votes": lambda text: answers.count_votes([text, f"{text}.", "5"]),
        "judge: tokens": mentions.tokens,
        "judge: model's reply": lambda text: read_reply(text, ("1", "2")),
        "design: high": parse_design,
        "design: low": lambda text: parse_design(text, "low"),
        "design: paper, high": parse_paper_design,
        "design: paper, low": lambda text: parse_paper_design(text, "low"),
        "design: paper, roles": lambda text: parse_paper_design(
            f"<agent><agent_id>A</agent_id><agent_name>DebateAgent</agent_name><debate_roles>{text}"
        ),
        "design: paper, agents": lambda text: parse_paper_design(agents(len(text))),
        "design: in thinking": lambda text: parse_design(f"<thinking>{text}</thinking><answer>{text}</answer>", "low"),
        "design: questions": questions_in,
        "design: questions listed": lambda text: questions_in(f"Identify and return {text}"),
        "design: renderer": lambda text: renderer.encode_action({"role": "assistant", "content": text}),
        "blocks: read": lambda text: (read_block(text, {"python": None}), is_well_formed(text)),  # type: ignore[dict-item]
        "actions: read": lambda text: [read_action(action, text, {"python": None}) for action in AGENT_ACTIONS],
        "actions: in the last": lambda text: read_action(
            AGENT_ACTIONS[-1], f"<THINK>{text}</THINK><ANSWER>{text}</ANSWER>", {}
        ),
        "actions: in a section": lambda text: read_action(AGENT_ACTIONS[0], f"<ACTION>{text}</ACTION>", {}),
        "final answer: ParaManager": concluding_answer,
        "final answer: MASBench": lambda text: read_answers(text, 3),
        "dialogue: questions": user_reading.questions,
        "dialogue: done": lambda text: (user_reading.reports_done(text), user_reading.asks_if_done(text)),
        "dialogue: calls": lambda text: user_reading.requests(text, ["pay_bill"]),
        "dialogue: facts": lambda text: user_reading.requested_facts(f"{text}?", facts),
        "question: tools": similarity.of,
        "question: sum": sums.asked_sum,
        "question: request": lambda text: given.repeats(text, "How many rivers cross Brenholm?"),
        "question: answers": lambda text: design_problems.split_answer(text, ("1", "2")),
        "python: simulated": lambda text: python.run({"code": text[:4000]}, NO_CONTEXT),
        "python: noise": result_lines,
        "draft: YAML": lambda text: refused(lambda: read_answer(text, SchemaAnswer)),
        "shown: terminal": visible,
        "shown: SVG": escaped,
    }
    for right in ("5", r"\frac{3}{4}", r"\{1,2\}", "Brenholm", "87 years", "B"):
        found[f"grader: {right}"] = functools.partial(is_right, right=right)
    for task in chosen:
        found[f"judge: {task.intent}"] = functools.partial(judge_mentions, communicate=task.communicate)
        found[f"judge: {task.intent}, typed"] = functools.partial(judge_typed, expected=table.of(task))
    return found


def agents(size: int) -> str:
    """Return a text of at most so many characters that names agents, each by an id of its own."""
    agent = "<agent><agent_id>{}</agent_id><agent_name>CoTAgent</agent_name>"
    return "".join(agent.format(number) for number in range(100_000, 100_000 + size // (len(agent) + 4)))


def is_right(text: str, right: str) -> bool:
    """Grade a text, which the graders are given whole."""
    return answers.is_right(text, [right])


def refused(run: Callable[[], object]) -> None:
    """Run what may end in an error of ours."""
    try:
        run()
    except (ToolOrchestraError, InvalidError):
        return


def texts(size: int) -> Iterator[tuple[str, str]]:
    """Yield texts of a size in characters, each with what it is made of."""
    for number, unit in enumerate((*PIECES, *("".join(pair) for pair in PAIRS))):
        end = ENDS[number % len(ENDS)]
        yield repr(unit), (unit * (size // len(unit) + 1))[: size - len(end)] + end
    for opening, closing in PAIRS:
        half = size // 2
        text = (opening * (half // len(opening) + 1))[:half] + (closing * (half // len(closing) + 1))[:half]
        yield f"{opening!r}, then {closing!r}", text


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in what takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"stopped after {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def seconds_of(parser: Parser, text: str, runs: int = 1) -> float:
    """Return the CPU time of the fastest of several runs."""
    best = float("inf")
    for run in range(runs):
        other = text + " " * run  # some parsers keep what they have read
        start = time.process_time()
        with stopped_after(GIVEN_UP):
            parser(other)
        best = min(best, time.process_time() - start)
    return best


def fault_of(parser: Parser, small: str, large: str) -> tuple[float, str | None]:
    """Return the seconds of the large text, and what is wrong with how long the texts take."""
    try:
        for runs in (1, 3, 5, 9):  # what is slow is tried again, since a busy machine is slow too
            short, long = seconds_of(parser, small, runs), seconds_of(parser, large, runs)
            slow = max(short / len(small), long / len(large)) * 1024
            growth = (long / len(large)) / max(short / len(small), LEAST / len(large) / FACTOR)
            if slow <= PER_KILOBYTE and (long < LEAST or growth <= FACTOR):
                return long, None
        if slow > PER_KILOBYTE:
            return long, f"{slow * 1e3:.1f} ms per KB, at most {PER_KILOBYTE * 1e3:g}"
        return long, f"{growth:.1f} times as long per KB of {len(large):,} characters as of {len(small):,}"
    except Exception as error:
        return 0.0, f"{type(error).__name__}: {error}"[:300]


@dataclass
class Tried:
    """What became of the texts: how many were tried and held, the slowest in seconds, and what did not hold."""

    tried: int = 0
    held: int = 0
    slowest: float = 0.0
    slowest_is: str = ""
    faults: list[str] = field(default_factory=list)

    def note(self, what: str, seconds: float, fault: str | None) -> None:
        """Count one text."""
        self.tried += 1
        if seconds > self.slowest:
            self.slowest, self.slowest_is = seconds, what
        if fault is None:
            self.held += 1
        elif len(self.faults) < MAX_FAULTS:
            self.faults.append(f"{what}: {fault}")


def attack(sizes: Sequence[tuple[int, int]] = SIZES, only: str = "", every: int = 1, start: int = 0) -> Tried:
    """Try the parsers whose name holds `only`, with every `every`-th text."""
    found = Tried()
    for two in sizes:
        small, large = (itertools.islice(texts(size), start, None, every) for size in two)
        for (made_of, short), (_, long) in zip(small, large, strict=True):
            for name, parser in parsers().items():
                if only in name:
                    found.note(f"{name}, {len(long):,} characters of {made_of}", *fault_of(parser, short, long))
    return found


def main(parsers: str = "", every: int = 1, record: bool = False) -> bool:
    found = attack(only=parsers, every=every)
    for fault in found.faults:
        print(fault, file=sys.stderr)
    print(f"{found.tried:,} tried, {found.held:,} held, the slowest {found.slowest:.3f} s: {found.slowest_is}")
    if record:
        save("parsers", vars(found))
    return found.tried != found.held


if __name__ == "__main__":
    cli(main)
