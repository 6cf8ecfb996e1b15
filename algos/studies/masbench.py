"""When several agents beat one, axis by axis: MAS-Orchestra §4.4 on MASBench with simulated sub-agents.

What the paper trains is scripted here, and one rule serves all axes: an agent for every sub-task (`MirrorPolicy`), so
that differences between axes come from the problems and from the error model alone: that of
`toolorchestra.agents.experts.specification`, with what an agent must keep in mind at once as its load
(`KeepingExpert`). Each axis is varied alone: no sub-task has several operands unless breadth is the axis. That notes
are seen in training is stood for by a warning. Not here: training itself, and so separate against combined training.
See ``docs/study_masbench.md``.
"""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from toolorchestra.agents.builtin.design_renderer import WARNING
from toolorchestra.agents.chat.base import ChatModel
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.problems import Problem
from toolorchestra.algos.stats import Interval, mean_interval, paired_bootstrap, success_share
from toolorchestra.envs.ground_truth.parts import Part, parts_of
from toolorchestra.envs.masorchestra.design import Agent, Design
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.orchestrators import ChainPolicy, Orchestrator, SinglePolicy
from toolorchestra.envs.sources.masbench.graph import Axes
from toolorchestra.envs.sources.masbench.sets import COUNTS
from toolorchestra.envs.sources.masbench.source import MASBenchSource
from toolorchestra.toolscale.errors import ExpertError
from toolorchestra.toolscale.task import Task

QUESTIONS = 400
"""Problems of each value of each axis, unless told otherwise; a quarter of them with notes."""
SAMPLES = 1
"""Episodes of each problem and system, unless told otherwise."""
MODELS = {"weak": "qwen2.5-7b", "strong": "gpt-oss-120b"}
"""The paper's sub-agents (§4.4), by their names in the catalogue."""
STRUCTURES = ("depth", "horizon", "breadth", "parallel")
"""The axes of Figure 2."""
STEP_DIFFICULTY = -2.0
"""Logits of every step, the same for all axes: our choice, since adding numbers below 23 is easier than the steps of
competitions, to which the catalogue's skills are fitted (0). The page tells what others lead to."""
WARNED = "mirror, warned"


# ------------------------------------------------------------------------------------------------------ the error model


class KeepingExpert(SimulatedExpert):
    """A simulated expert whose load is what it must keep in mind at once, not how many steps it takes.

    Who follows a chain forgets each result once the next one is there, however long the chain is. Results that meet in
    one step, or are asked for at the end, have to be kept until then. So it is the shape of a problem that makes its
    steps harder: the rule knows of no axis.
    """

    def weight(self, problem: Problem) -> int:
        """Return the most results that are kept at once."""
        return kept(problem)


@functools.lru_cache(maxsize=1_024)
def kept(problem: Problem) -> int:
    """Return how many results of steps have to be kept at once, by who takes each step just before it is needed.

    >>> from toolorchestra.agents.problems import Step
    >>> kept(Problem.chain("long", "math", 12, "7"))
    1
    >>> leaves = tuple(Step(str(number)) for number in range(8))
    >>> kept(Problem("sum", "math", (*leaves, Step("28", needs=tuple(range(8))))))
    8
    >>> kept(Problem("all", "math", leaves, targets=tuple(range(8))))
    8
    """
    steps, count = problem.steps, len(problem.steps)
    targets = [target % count for target in problem.targets]
    order: list[int] = []
    waiting = [(target, False) for target in reversed(targets)]
    taken = set[int]()
    while waiting:
        at, ready = waiting.pop()
        if at in taken:
            continue
        if ready or not steps[at].needs:
            taken.add(at)
            order.append(at)
        else:
            waiting.append((at, True))
            waiting += [(need, False) for need in reversed(steps[at].needs)]
    last = {need: place for place, at in enumerate(order) for need in steps[at].needs}
    last |= dict.fromkeys(targets, count)
    keeping = set[int]()
    most = 1
    for place, at in enumerate(order):
        keeping = {one for one in keeping if last[one] > place} | {at}
        most = max(most, len(keeping))
    return most


# -------------------------------------------------------------------------------------------------------- the systems


class MirrorPolicy(Orchestrator):
    """An agent for every sub-task, which reads the results that it needs: the design mirrors the problem.

    Reads the task's graph, which stands for understanding its text.

    Args:
        seed: See `Policy`.
        warned: Whether all agents are warned of notes.
    """

    privileged: ClassVar[bool] = True

    def __init__(self, seed: int = 0, *, warned: bool = False) -> None:
        super().__init__(seed)
        self._warning = f"\n{WARNING}" if warned else ""

    def design(self) -> Design:
        """Return the agents, and one that reports if several results are asked for."""
        assert self._task is not None, "reset() comes first"
        parts = parts_of(self._task)
        targets = [target % len(parts) for target in self._task.bindings.get("targets", (-1,))]
        ends = self._ends(parts, targets)
        agents = [_agent("SOLVE", self._warning.strip())]
        if len(ends) > 1:
            agents = [
                _agent(f"STEP_{end}", parts[end].question + _told(parts, _read(parts, end, ends)) + self._warning)
                for end in ends
            ]
            if len(targets) > 1:
                agents.append(_agent("REPORT", f"Report these results in this order:{_told(parts, targets)}"))
        edges = tuple((start, agent.id) for agent in agents for start in agent.references)
        return Design(dom="high", thinking="The problem's graph.", agents=tuple(agents), edges=edges)

    def _ends(self, parts: Sequence[Part], targets: Sequence[int]) -> list[int]:
        """Return the sub-tasks whose results an agent hands on."""
        return list(range(len(parts)))


class BranchesPolicy(MirrorPolicy):
    """An agent for every branch of the work: a chain of sub-tasks stays in one hand.

    A branch ends where its result is asked for, or where it meets others in a sub-task of several operands. A problem
    without branches is one agent's.
    """

    def _ends(self, parts: Sequence[Part], targets: Sequence[int]) -> list[int]:
        meeting = (need for part in parts if len(part.needs) > 1 for need in part.needs)
        return sorted({*targets, *meeting})


class WarnedPolicy(Orchestrator):
    """One agent that is warned of notes."""

    def design(self) -> Design:
        """Return the agent."""
        return Design(dom="high", thinking="Mind the notes.", agents=(_agent("SOLVE", WARNING),))


def _agent(agent_id: str, text: str) -> Agent:
    return Agent(agent_id, "CoTAgent", text, "Works it out.")


def _read(parts: Sequence[Part], end: int, ends: Sequence[int]) -> list[int]:
    """Return the ends of other branches that a branch goes on from."""
    found: set[int] = set()
    waiting = list(parts[end].needs)
    while waiting:
        need = waiting.pop()
        if need in ends:
            found.add(need)
        else:
            waiting += parts[need].needs
    return sorted(found)


def _told(parts: Sequence[Part], known: Sequence[int]) -> str:
    return "".join(f"\n{parts[number].question} ${{STEP_{number}}}" for number in known)


SYSTEMS: Mapping[str, Callable[[], Orchestrator]] = {
    "single": SinglePolicy,
    "mirror": MirrorPolicy,
    "branches": BranchesPolicy,
    "solve and verify": ChainPolicy,
    "single, warned": WarnedPolicy,
    WARNED: lambda: MirrorPolicy(warned=True),
}
"""Who is compared: the single agent, the multi-agent system, and others that the page tells of."""
HALF = "mirror, half deceived"
"""The unwarned system over a model that notes deceive half as often: a warning that mostly fails."""
PLAYED: Mapping[str, Sequence[str]] = dict.fromkeys(STRUCTURES, ("single", "mirror", "branches")) | {
    "robustness": ("single", "mirror", "single, warned", WARNED, HALF)
}
"""The systems that are played on each axis."""


# -------------------------------------------------------------------------------------------------------- playing


class ResultCell(msgspec.Struct, frozen=True):
    """What a system came to on the problems of one value, problem by problem (means over samples).

    Attributes:
        axis: The axis.
        value: Its value.
        model: ``weak`` or ``strong``.
        system: One of `SYSTEMS`, or `HALF`.
        right: Share of right answers.
        agents: Agents of the design.
        length: Agents on its longest path.
        width: Most agents side by side.
        usd: US dollars.
        seconds: Seconds, virtual for simulated models.
    """

    axis: str
    value: int
    model: str
    system: str
    right: list[float]
    agents: list[float]
    length: list[float]
    width: list[float]
    usd: list[float]
    seconds: list[float]

    def mean(self, what: str) -> Interval:
        """Return a mean over problems with its 95 % interval (Wilson's for right answers of one sample each)."""
        values = getattr(self, what)
        if what == "right" and set(values) <= {0.0, 1.0}:
            return success_share(values)
        return mean_interval(values)


def problems(
    axis: str, value: int, count: int, difficulty: float = STEP_DIFFICULTY, *, alone: bool = True
) -> MASBenchSource:
    """Return test problems of a value of an axis.

    Args:
        axis: The axis.
        value: Its value.
        count: Number of problems.
        difficulty: Logits of every step.
        alone: Whether sub-tasks have one operand each unless breadth is the axis; else that is left to chance, up to
            four, as in the published sets.
    """
    axes = Axes(**(({"breadth": 1} if alone else {}) | {axis: value}))
    source = MASBenchSource([axes], train=0, test=count)
    source.tasks("test")[:] = [_with_difficulty(task, difficulty) for task in source.tasks("test")]
    return source


def _with_difficulty(task: Task, difficulty: float) -> Task:
    parts = [part | {"difficulty": difficulty} for part in task.bindings["parts"]]
    return msgspec.structs.replace(task, bindings=dict(task.bindings) | {"parts": parts})


def play(
    axis: str,
    value: int,
    model: str,
    system: str,
    source: MASBenchSource,
    samples: int = SAMPLES,
    *,
    behind: ChatModel | None = None,
    mind: type[SimulatedExpert] = KeepingExpert,
    tick: Callable[[], object] = lambda: None,
) -> ResultCell:
    """Play all test problems of a source, each so many times with luck of its own.

    Args:
        axis: The axis, for the record.
        value: Its value, likewise.
        model: ``weak`` or ``strong``.
        system: One of `SYSTEMS`, or `HALF`.
        source: The problems.
        samples: Episodes of each.
        behind: The model behind all agents; by default that of `MODELS`, simulated.
        mind: The error model of simulated ones.
        tick: Called after each episode.

    Raises:
        ExpertError: The model cannot be reached: what was not asked is not counted as wrong.
    """
    if behind is None:
        catalog = Catalog.load()
        spec = catalog.spec(MODELS[model])
        if system == HALF:
            spec = msgspec.structs.replace(spec, deceived=spec.deceived / 2)
        behind = SimulatedChat(mind(MODELS[model], spec, shared_noise=catalog.shared_noise))
    policy = SYSTEMS["mirror" if system == HALF else system]()
    env = MASOrchestraEnv(source, model=behind, agents=("CoTAgent", "ReflexionAgent"))
    rows = []
    for task in source.tasks("test"):
        measured = []
        for sample in range(samples):
            play_episode(env, policy, seed=sample, options={"task_id": task.id, "split": "test"})
            episode = env.episode
            if episode.outcome == "infra_error":
                raise ExpertError(f"{task.id}: {episode.why}")
            design = getattr(env.play, "design", None)
            assert isinstance(design, Design), "designs of ours are valid"
            shape = design.shape
            sizes = (shape.agents, shape.length, shape.width)
            measured.append((episode.outcome == "solved", *sizes, episode.cost, episode.clock))
            tick()
        rows.append(np.mean(measured, axis=0, dtype=float).tolist())
    env.close()
    return ResultCell(axis, value, model, system, *map(list, zip(*rows, strict=True)))


# ------------------------------------------------------------------------------------------------- the whole study


class MASBenchStudy(msgspec.Struct, frozen=True):
    """What the study found.

    Attributes:
        problems: Problems of each value, a quarter of them with notes.
        samples: Episodes of each.
        cells: By axis, value, model and system.
    """

    problems: int
    samples: int
    cells: list[ResultCell]

    def of(self, axis: str, model: str, system: str, values: Sequence[int] | None = None) -> list[ResultCell]:
        """Return the cells of a system on an axis, by value."""
        return [
            cell
            for cell in self.cells
            if (cell.axis, cell.model, cell.system) == (axis, model, system)
            and (values is None or cell.value in values)
        ]

    def right(self, axis: str, model: str, system: str, values: Sequence[int] | None = None) -> list[float]:
        """Return the shares of right answers, problem by problem."""
        return [right for cell in self.of(axis, model, system, values) for right in cell.right]

    def gain(self, axis: str, model: str, system: str = "mirror", over: str = "single") -> Interval:
        """Return by how much a system is more often right than another, with its 95 % interval, paired by problem."""
        return paired_bootstrap(self.right(axis, model, system), self.right(axis, model, over))

    def beside_depth(self, axis: str) -> Interval:
        """Return by how much the weak model's gain on an axis exceeds that on depth."""
        gains = {
            one: np.subtract(self.right(one, "weak", "mirror"), self.right(one, "weak", "single")).tolist()
            for one in (axis, "depth")
        }
        return _apart(gains[axis], gains["depth"])

    def diminished(self, axis: str) -> Interval:
        """Return by how much the weak model's gain exceeds the strong one's, paired by problem."""
        gains = {
            model: np.subtract(self.right(axis, model, "mirror"), self.right(axis, model, "single")) for model in MODELS
        }
        return paired_bootstrap(gains["weak"], gains["strong"])

    def fall(self, model: str, system: str, axes: Sequence[str] = STRUCTURES, *, beyond: bool = False) -> Interval:
        """Return by how much accuracy falls from the least values of some axes to the largest.

        Args:
            model: ``weak`` or ``strong``.
            system: A system.
            axes: The axes.
            beyond: Compare values up to the largest of the paper's training with those beyond it instead.
        """
        before: list[float] = []
        after: list[float] = []
        for axis in axes:
            values = [cell.value for cell in self.of(axis, model, system)]
            trained = max(COUNTS[axis]["train"])
            less = [value for value in values if value <= trained] if beyond else values[:1]
            more = [value for value in values if value > trained] if beyond else values[-1:]
            before += self.right(axis, model, system, less)
            after += self.right(axis, model, system, more)
        return _apart(before, after)

    def observations(self) -> dict[str, Interval]:
        """Return what the paper's Observations 1 to 3 and Figure 3 say is above 0, with 95 % intervals."""
        found = {f"1: weak, gain on {axis}": self.gain(axis, "weak") for axis in STRUCTURES[1:]}
        found |= {f"1: weak, gain on {axis} over gain on depth": self.beside_depth(axis) for axis in STRUCTURES[1:]}
        found |= {f"2: weak gain over strong gain, {axis}": self.diminished(axis) for axis in STRUCTURES[1:]}
        for model in MODELS:
            for system in ("single", "mirror"):
                found[f"3: {model}, {system}: from least values to largest"] = self.fall(model, system)
                found[f"3: {model}, {system}: from training values to larger"] = self.fall(model, system, beyond=True)
        for over in ("single", "mirror", "single, warned"):
            found[f"robustness: strong, {WARNED} over {over}"] = self.gain("robustness", "strong", WARNED, over)
        return found


def _apart(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return a difference of means of different problems, with its normal 95 % interval."""
    first, second = mean_interval(before), mean_interval(after)
    half = math.hypot(first.high - first.estimate, second.high - second.estimate)
    return Interval(*(first.estimate - second.estimate + by for by in (0.0, -half, half)))


def run(
    questions: int = QUESTIONS,
    samples: int = SAMPLES,
    *,
    tick: Callable[[], object] = lambda: None,
    models: Mapping[str, ChatModel] | None = None,
    difficulty: float = STEP_DIFFICULTY,
    alone: bool = True,
    mind: type[SimulatedExpert] = KeepingExpert,
    played: Mapping[str, Sequence[str]] = PLAYED,
) -> MASBenchStudy:
    """Play everything; `tick` is called after each episode (`episodes` tells how many there are).

    Args:
        questions: Problems of each value of each axis; with notes a quarter of them.
        samples: Episodes of each problem and system.
        tick: Called after each episode.
        models: Real models to ask, as ``weak`` and ``strong``; by default those of `MODELS`, simulated.
        difficulty: See `problems`.
        alone: See `problems`.
        mind: The error model of simulated models; `SimulatedExpert` makes steps harder for being many.
        played: The systems that are played on each axis.
    """
    cells = []
    for axis, systems in played.items():
        for value in COUNTS[axis]["test"]:
            source = problems(axis, value, _count(axis, questions), difficulty, alone=alone)
            for model in MODELS:
                for system in systems:
                    if models is None or system != HALF:  # a real model's trust is its own
                        behind = None if models is None else models[model]
                        cells.append(
                            play(axis, value, model, system, source, samples, behind=behind, mind=mind, tick=tick)
                        )
    return MASBenchStudy(questions, samples, cells)


def episodes(questions: int, samples: int) -> int:
    """Return how many episodes `run` plays."""
    cells = ((axis, len(COUNTS[axis]["test"]) * len(MODELS) * len(systems)) for axis, systems in PLAYED.items())
    return sum(_count(axis, questions) * count for axis, count in cells) * samples


def _count(axis: str, questions: int) -> int:
    """Return how many problems of each value are played: with notes, whose effects are large, a quarter."""
    return -(-questions // 4) if axis == "robustness" else questions


# ------------------------------------------------------------------------------------------------- what it leaves


def markdown(study: MASBenchStudy) -> str:
    """Return the tables of a study."""
    lines = [
        f"{study.problems} problems of each value ({_count('robustness', study.problems)} with notes), "
        f"{study.samples} episode(s) each; % of right answers, ± is half the 95 % interval.",
    ]
    for axis in STRUCTURES:
        lines += _accuracies(study, axis, PLAYED[axis][:2])
    lines += _accuracies(study, "robustness", PLAYED["robustness"])
    lines += ["", "Gain over the single agent, all values together, in points:", ""]
    lines += ["| axis | model | mirror | branches |", "|---|---|--:|--:|"]
    for axis in STRUCTURES:
        for model in MODELS:
            cells = [
                _points(study.gain(axis, model, system)) for system in PLAYED[axis][1:] if study.of(axis, model, system)
            ]
            lines.append(f"| {axis} | {model} | {' | '.join(cells)} |")
    lines += ["", "| expected above 0 | points | 95 % interval |", "|---|--:|---|"]
    for name, difference in study.observations().items():
        estimate, low, high = (f"{100 * number:+.1f}" for number in difference)
        lines.append(f"| {name} | {estimate} | [{low}, {high}] |")
    lines += ["", "Agents of the mirror: how many, the longest path, the most side by side:", ""]
    lines += ["| axis | value | agents | length | width |", "|---|--:|--:|--:|--:|"]
    for axis in PLAYED:
        for cell in study.of(axis, "weak", "mirror"):
            sizes = " | ".join(f"{cell.mean(what).estimate:.1f}" for what in ("agents", "length", "width"))
            lines.append(f"| {axis} | {cell.value} | {sizes} |")
    return "\n".join(lines) + "\n"


def _accuracies(study: MASBenchStudy, axis: str, systems: Sequence[str]) -> list[str]:
    values = [cell.value for cell in study.of(axis, "weak", "single")]
    lines = ["", f"| {axis} | " + " | ".join(map(str, values)) + " |", "|---|" + "--:|" * len(values)]
    for model in MODELS:
        for system in systems:
            if cells := study.of(axis, model, system):
                lines.append(
                    f"| {model}, {system} | " + " | ".join(_percent(cell.mean("right")) for cell in cells) + " |"
                )
    return lines


def _percent(share: Interval) -> str:
    return f"{100 * share.estimate:.0f} ± {50 * (share.high - share.low):.0f}"


def _points(difference: Interval) -> str:
    estimate, low, high = (f"{100 * number:+.1f}" for number in difference)
    return f"{estimate} [{low}, {high}]"


def write(study: MASBenchStudy, folder: Path) -> None:
    """Write ``study.csv`` (a row for each cell), ``study.md``, and three figures (extra ``train``) to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    measures = ("agents", "length", "width", "usd", "seconds")
    with (folder / "study.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["axis", "value", "model", "system", "problems", "right", "low", "high", *measures])
        for cell in study.cells:
            numbers = [*cell.mean("right"), *(cell.mean(what).estimate for what in measures)]
            rounded = [f"{number:.6g}" for number in numbers]
            writer.writerow([cell.axis, cell.value, cell.model, cell.system, len(cell.right), *rounded])
    figures = {"accuracy": _draw_accuracy, "robustness": _draw_robustness, "agents": _draw_agents}
    links = "\n".join(f"![{name}]({name}.svg)" for name in figures)
    (folder / "study.md").write_text(f"{markdown(study)}\n{links}\n", encoding="utf-8")
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "masbench", "svg.fonttype": "none"}):  # the same bytes each time
        for name, draw in figures.items():
            draw(study).savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")


def _panels(count: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * count, 3.0), layout="constrained")
    return figure, list(figure.subplots(1, count))


def _draw_accuracy(study: MASBenchStudy) -> Any:
    """Draw Figure 2: accuracy by value, with bands."""
    figure, panels = _panels(len(STRUCTURES))
    for panel, axis in zip(panels, STRUCTURES, strict=True):
        for colour, model in zip(("#4c72b0", "#dd8452"), MODELS, strict=True):
            for line, system in (("--", "single"), ("-", "mirror")):
                cells = study.of(axis, model, system)
                values, found = [cell.value for cell in cells], [cell.mean("right") for cell in cells]
                panel.plot(values, [one.estimate for one in found], line, color=colour, label=f"{model}, {system}")
                panel.fill_between(
                    values, [one.low for one in found], [one.high for one in found], color=colour, alpha=0.12, lw=0
                )
        panel.set(title=axis, xlabel="value", ylim=(0, 1.02))
    panels[0].set_ylabel("right answers")
    panels[0].legend(fontsize="small")
    return figure


def _draw_robustness(study: MASBenchStudy) -> Any:
    """Draw Figure 3 and Figure E.3: accuracy with notes."""
    figure, panels = _panels(len(MODELS))
    for panel, model in zip(panels, MODELS, strict=True):
        systems = [system for system in PLAYED["robustness"] if study.of("robustness", model, system)]
        for place, system in enumerate(systems):
            cells = study.of("robustness", model, system)
            found = [cell.mean("right") for cell in cells]
            at = np.arange(len(cells)) + (place - len(systems) / 2) * 0.16
            spread = np.array([[one.estimate - one.low, one.high - one.estimate] for one in found]).T.clip(0)
            panel.bar(at, [one.estimate for one in found], 0.15, yerr=spread, label=system)
            panel.set_xticks(range(len(cells)), [f"{cell.value} notes" for cell in cells])
        panel.set(title=model, ylim=(0, 1.02))
    panels[0].set_ylabel("right answers")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return figure


def _draw_agents(study: MASBenchStudy) -> Any:
    """Draw the statistics of Figure E.1: agents, length and width by value."""
    figure, panels = _panels(len(PLAYED))
    for panel, axis in zip(panels, PLAYED, strict=True):
        cells = study.of(axis, "weak", "mirror")
        for what in ("agents", "length", "width"):
            panel.plot([cell.value for cell in cells], [cell.mean(what).estimate for cell in cells], "o-", label=what)
        panel.set(title=axis, xlabel="value")
        panel.set_ylim(bottom=0)
    panels[0].legend(fontsize="small")
    return figure
