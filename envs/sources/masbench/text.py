r"""The sentences of a problem, whose forms the solver reads.

- ``The number of each {owner}'s {name} equals {value}.`` where a value is a constant, an operand, ``the sum of
  {operand}, {operand} and {operand}`` or ``the difference of {operand} and {operand}``, the last three also after
  ``{constant} more than`` or ``{constant} times as much as``; an operand is ``each {owner}'s {name}``, or
  ``each [answer2]`` for the answer to an earlier problem;
- ``Using the result [answer2] from the previous calculation, [variable3] = [answer2].``, which adds nothing to those;
- ``One of the special magic numbers for {key} is: {constant}.``
- ``Note: verify the information before you take it - {what} is {constant}.`` is a note, which need not be true.

A single problem ends with ``How many {name} does {owner} have?``. Several are numbered (``Problem 2: …``), each
ending with ``What is the value of {owner}'s {name}?``; or they are passages, after which a list says what to return:
``the number of {name} that {owner} has`` or ``the magic number for {key}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from toolorchestra.envs.ground_truth.parts import needed
from toolorchestra.envs.sources.masbench.fast_random import FastRandom
from toolorchestra.envs.sources.masbench.graph import Graph, ProblemNode, Target
from toolorchestra.envs.sources.masbench.vocabulary import vocabulary

Wording = Literal["single", "problems", "passages"]
_SOLVE = "Solve all problems step by step and provide the answers for all problems in the following format:"
NOTE = "Note: verify the information before you take it - {what} is {claim}."


def write(
    graph: Graph, wording: Wording, rng: FastRandom, haystack: int, *, variables: bool = False
) -> tuple[str, tuple[str, ...]]:
    """Return the text of a problem, and that of each of the problems in it.

    There are so many filler sentences a needle, and lines of `variables` where earlier answers are used.
    """
    bodies = []
    operands = [f"each {node.owner}'s {node.name}" for node in graph.nodes]  # what each is called
    for number, target in enumerate(graph.targets, 1):
        if graph.nodes[target.node].kind == "needle":
            bodies.append(_passage(graph.nodes[target.node], rng, haystack))
        else:
            bodies.append(" ".join(_statements(graph.nodes, target, operands)))
            bodies[-1] += _variable(graph, number) if variables else ""
        operands[target.node] = f"each [answer{number}]"
    ending = []
    for number, target in enumerate(graph.targets):
        if target.note is not None and number + 1 < len(bodies):  # a note is about the problem before
            bodies[number + 1] += f" {_note(graph, number, wording)}"
        elif target.note is not None:
            ending = [_note(graph, number, wording)]
    questions = [question(graph.nodes[target.node], wording) for target in graph.targets]
    if wording == "single":
        return " ".join([*bodies, *ending, *questions]), (f"{bodies[0]} {questions[0]}",)
    if wording == "passages":
        wanted = _listed([_named(graph.nodes[target.node]) for target in graph.targets])
        task = f"From the passage, identify and return {wanted}, wrapped in \\boxed{{ }} and separated via \\n\\n"
        text = "\n\n".join(["Read the following passage carefully.", *bodies, *ending, "=====", task])
        return text, tuple(f"{body} {question}" for body, question in zip(bodies, questions, strict=True))
    problems = tuple(
        f"Problem {number}: {body} {question}"
        for number, (body, question) in enumerate(zip(bodies, questions, strict=True), 1)
    )
    form = "\n".join(f"Problem {number}: [answer{number}]" for number in range(1, len(problems) + 1))
    return "\n\n".join(
        [*problems, *ending, _remarks(graph, variables=variables), _SOLVE, "Final Answers", form]
    ), problems


def _variable(graph: Graph, number: int) -> str:
    """Return the sentence that says which earlier answers the problem of a number uses; "" if it uses none."""
    earlier = {target.node: place for place, target in enumerate(graph.targets[: number - 1], 1)}
    way = needed(graph.nodes, [graph.targets[number - 1].node], known=earlier)
    used = _listed([f"[answer{earlier[at]}]" for at in way if at in earlier])
    if not used:
        return ""
    results, calculations = ("results", "calculations") if " and " in used else ("result", "calculation")
    return f" Using the {results} {used} from the previous {calculations}, [variable{number}] = {used}."


def _remarks(graph: Graph, *, variables: bool) -> str:
    components: dict[int, list[str]] = {}
    for number, target in enumerate(graph.targets, 1):
        components.setdefault(target.component, []).append(str(number))
    lines = ["Note: In this problem set:"]
    if len(components) < len(graph.targets) and variables:
        lines.append("- [variablek] represents the calculated variable needed to solve problem k.")
    if len(components) < len(graph.targets):
        lines.append("- [answerk] represents the answer to problem k.")
    if len(components) == len(graph.targets):
        lines.append("- Each problem is INDEPENDENT and can be solved in parallel.")
    elif len(components) > 1:
        groups = "; ".join(_listed(numbers) for numbers in components.values())
        lines.append(f"- These groups of problems are INDEPENDENT and can be solved in parallel: {groups}.")
    return "\n".join(lines)


def _statements(nodes: Sequence[ProblemNode], target: Target, operands: Sequence[str]) -> Iterator[str]:
    """Yield the statements of a problem."""
    for at in target.states:
        node = nodes[at]
        value = operands[at] if at in target.carried else _value(node, [operands[need] for need in node.needs])
        yield f"The number of each {node.owner}'s {node.name} equals {value}."


def _value(node: ProblemNode, operands: Sequence[str]) -> str:
    """Return what a statement says of a sub-task's value, given what its operands are called.

    >>> _value(ProblemNode("sum", "Ketch", "Saloon", (0, 1), "more", 3), ["each Ketch's Galley Nook", "4"])
    "3 more than the sum of each Ketch's Galley Nook and 4"
    """
    match node.kind:
        case "given":
            return str(node.constant)
        case "sum" | "total":
            value = f"the sum of {_listed(operands)}" if len(operands) > 1 else operands[0]
        case "difference":
            value = f"the difference of {_listed(operands)}"
        case _:
            value = operands[0]
    if node.change == "more":
        return f"{node.constant} more than {value}"
    return f"{node.constant} times as much as {value}" if node.change == "times" else value


def _listed(things: Sequence[str]) -> str:
    return " and ".join(things) if len(things) < 3 else f"{', '.join(things[:-1])} and {things[-1]}"


def _named(node: ProblemNode) -> str:
    if node.kind == "needle":
        return f"the magic number for {node.name}"
    return f"the number of {node.name} that {node.owner} has"


def question(node: ProblemNode, wording: Wording) -> str:
    """Return the question for a sub-task's value."""
    if node.kind == "needle":
        return f"What is the magic number for {node.name}?"
    if wording == "problems":
        return f"What is the value of {node.owner}'s {node.name}?"
    return f"How many {node.name} does {node.owner} have?"


def _note(graph: Graph, number: int, wording: Wording) -> str:
    target = graph.targets[number]
    what = f"the answer of problem {number + 1}" if wording == "problems" else _named(graph.nodes[target.node])
    return NOTE.format(what=what, claim=target.note)


def _passage(needle: ProblemNode, rng: FastRandom, haystack: int) -> str:
    rounds = rng.choice(vocabulary().needles.filler)
    sentences = [rounds[number % len(rounds)] for number in range(haystack)]
    hidden = f"One of the special magic numbers for {needle.name} is: {needle.constant}."
    sentences.insert(rng.between(0, haystack), hidden)
    return " ".join(sentences)
