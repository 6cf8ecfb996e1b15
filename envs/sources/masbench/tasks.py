"""Instances as tasks: their answers, steps, reference calls, and the truth that is hidden from an orchestrator."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from toolorchestra.envs.ground_truth.parts import SubProblem, needed, stages_of
from toolorchestra.envs.sources.masbench.generate import Instance, InstanceSettings
from toolorchestra.envs.sources.masbench.graph import MODULUS, Axes, Graph, ProblemNode, measure, split_of
from toolorchestra.envs.sources.masbench.mistakes import mistakes
from toolorchestra.envs.sources.masbench.solver import solve
from toolorchestra.envs.sources.masbench.text import question
from toolorchestra.envs.sources.masbench.world import NAME, with_answers
from toolorchestra.envs.sources.questions import make_question
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import Call, Task


class InstanceTruth(msgspec.Struct, frozen=True):
    """What ``bindings["masbench"]`` of a task holds.

    Attributes:
        axes: The axis values that it was made for.
        measured: Those counted in the graph.
        graph: The graph.
        steps: The sub-task that each of the task's parts is, by its position in the graph.
        templates: The template of each computed component.
        problems: What is asked, problem by problem.
    """

    axes: Axes
    measured: dict[str, int]
    graph: Graph
    steps: tuple[int, ...]
    templates: tuple[str, ...]
    problems: tuple[str, ...]


def make_task(instance: Instance, task_id: str, settings: InstanceSettings | None = None) -> Task:
    """Return an instance as a task, which is as hard for simulated models as `settings` say."""
    settings = settings or InstanceSettings()
    graph, values, answers = instance.graph, instance.values, instance.answers
    nodes = graph.nodes
    steps = needed(nodes, [target.node for target in graph.targets])
    place = {at: number for number, at in enumerate(steps)}
    notes = {target.node: target.note for target in graph.targets}
    parts = [
        SubProblem(
            question(nodes[at], instance.wording),
            str(values[at]),
            mistakes(nodes[at], values, at),
            tuple(place[need] for need in nodes[at].needs),
            difficulty=settings.difficulty,
            note=notes.get(at),
        )
        for at in steps
    ]
    truth = InstanceTruth(instance.axes, measure(graph), graph, tuple(steps), instance.templates, instance.problems)
    task = make_question(
        id=task_id,
        domain=NAME,
        intent=str(instance.axes),
        split=instance.split,
        difficulty=min(5, -(-max(instance.axes.given().values()) // 2)),
        question=instance.text,
        answers=answers[:1],
        parts=parts,
        reference_calls=_reference_calls(instance, steps, parts),
        subject="math",
        targets=[place[target.node] for target in graph.targets],
        **({"load": settings.load} if settings.load != "steps" else {}),
        masbench=msgspec.json.decode(msgspec.json.encode(truth)),  # as it is read from a file
    )
    return with_answers(task, answers)


def truth_of(task: Task) -> InstanceTruth:
    """Return the hidden truth of a task, or raise an `OptionError` if it has none, as it is not of this library."""
    if "masbench" not in task.bindings:
        raise OptionError(f"Expected a generated task of MASBench, found {task.id}, whose graph is not known.")
    return msgspec.convert(task.bindings["masbench"], InstanceTruth)


def _calculation(node: ProblemNode, values: Sequence[int]) -> str:
    """Return what is to be calculated, in numbers.

    >>> _calculation(ProblemNode("sum", needs=(0, 1), change="times", constant=3), [4, 5])
    '(4 + 5) * 3'
    """
    operands = [str(values[need]) for need in node.needs]
    if node.kind == "nested":
        operands = [f"{a}*{b}" for a, b in zip(operands[::2], operands[1::2], strict=True)]
    base = (" - " if node.kind == "difference" else " + ").join(operands)
    if not node.change:
        return base
    sign = {"more": "+", "times": "*"}[node.change]
    return f"{base} {sign} {node.constant}" if len(operands) == 1 else f"({base}) {sign} {node.constant}"


def _reference_calls(instance: Instance, steps: Sequence[int], parts: Sequence[SubProblem]) -> list[Call]:
    """Return a calculation for each computed sub-task, innermost first."""
    nodes, values = instance.graph.nodes, instance.values
    staged = zip(stages_of(parts), steps, strict=True)
    return [
        Call("calculator", {"expression": f"mod({_calculation(nodes[at], values)}, {MODULUS})"}, stage - 1)
        for stage, at in sorted(staged, key=lambda step: step[0])
        if nodes[at].needs
    ]


def faults(instance: Instance) -> list[str]:
    """Return what is wrong with an instance: nothing, if its text alone leads to its answers and axis values."""
    found = []
    try:
        read = solve(instance.text)
    except OptionError as error:
        return [f"the text cannot be solved: {error}"]
    measured = measure(instance.graph)
    if read.answers != instance.answers:
        found.append(f"the text gives the answers {read.answers}, the graph {instance.answers}")
    if read.axes != measured:
        found.append(f"the text has the axes {read.axes}, the graph {measured}")
    for axis, value in instance.axes.given().items():
        expected = value if axis != "robustness" or instance.noted else 0
        if measured[axis] != expected:
            found.append(f"expected {axis} {expected}, measured {measured[axis]}")
    strays = [one for one in instance.templates if split_of(one) != instance.split]
    return found + [f"the template {one} belongs to {split_of(one)}" for one in strays]
