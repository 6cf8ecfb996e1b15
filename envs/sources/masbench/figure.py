"""The dependency graph of a problem as an SVG figure, drawn with networkx and matplotlib (the extra ``train``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolorchestra.envs.ground_truth.parts import needed
from toolorchestra.envs.sources.masbench.graph import Graph, levels_of, measure, values_of
from toolorchestra.toolscale.errors import install_line
from toolorchestra.toolscale.svg_themes import svg_of

if TYPE_CHECKING:
    import networkx  # type: ignore[import-untyped]  # ships no types

_FILLS = {"answer": "#f2b84b", "noted": "#e8743b", "needed": "#bcd9f2", "distractor": "#eeeeee"}
_SIGNS = {"given": "", "undefined": "∅ ", "same": "", "sum": "Σ ", "difference": "− ", "total": "∀ ", "nested": "∀∀ "}


def figure(graph: Graph, title: str = "") -> str:
    """Return the figure of a graph as SVG text; the same graph gives the same bytes.

    Sub-tasks stand in columns by the longest chain that ends in each; answers are yellow, those with a note about them
    orange, what no answer needs is grey.

    Raises:
        ImportError: networkx or matplotlib is not installed.
    """
    try:
        import networkx
        from matplotlib.figure import Figure
    except ImportError as error:
        how = install_line("train")
        raise ImportError(f"Figures need networkx and matplotlib, which are not installed: {how}") from error
    drawn = to_networkx(graph)
    levels = levels_of(graph.nodes)
    columns = max(levels)
    rows = max(levels.count(level) for level in range(1, columns + 1))
    places = _places(graph, levels)
    picture = Figure(figsize=(2.1 * columns + 0.6, 0.75 * rows + 1.0))
    axes = picture.add_axes((0.02, 0.02, 0.96, 0.96 - 0.6 / (0.75 * rows + 1.0)))
    axes.set_axis_off()
    axes.set_xlim(0.4, columns + 0.6)
    axes.set_ylim(-rows / 2, rows / 2)
    networkx.draw_networkx_edges(drawn, places, ax=axes, edge_color="#777777", arrowsize=9, min_target_margin=38)
    axes.autoscale(False)
    for at, attributes in drawn.nodes(data=True):
        axes.text(
            *places[at],
            attributes["label"],
            ha="center",
            va="center",
            fontsize=7,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": _FILLS[attributes["role"]], "edgecolor": "#444444"},
        )
    found = ", ".join(f"{axis} {value}" for axis, value in measure(graph).items())
    axes.set_title(f"{title}\n{found}" if title else found, fontsize=8)
    return svg_of(picture, "masbench")


def to_networkx(graph: Graph) -> networkx.DiGraph:
    """Return a graph as a `networkx.DiGraph`, whose edges lead from what is needed to what needs it.

    Its nodes have the attributes ``label``, ``role`` (``answer``, ``noted``, ``needed`` or ``distractor``) and
    ``value``.
    """
    import networkx

    values = values_of(graph.nodes)
    targets = {one.node: one for one in graph.targets}
    way = set(needed(graph.nodes, targets))
    found = networkx.DiGraph()
    for at, node in enumerate(graph.nodes):
        role = "needed" if at in way else "distractor"
        if at in targets:
            role = "answer" if targets[at].note is None else "noted"
        name = f"{node.owner}'s\n{node.name}" if node.owner else node.name
        change = {"more": f" + {node.constant}", "times": f" × {node.constant}", "": ""}[node.change]
        label = f"{name}\n{_SIGNS.get(node.kind, '')}{change.strip()}{' ' if change else ''}= {values[at]}"
        found.add_node(at, label=label, role=role, value=values[at])
        found.add_edges_from((need, at) for need in node.needs)
    return found


def _places(graph: Graph, levels: list[int]) -> dict[int, tuple[float, float]]:
    """Return a column for each level, in which sub-tasks stand beside what they need."""
    places: dict[int, tuple[float, float]] = {}
    for level in range(1, max(levels) + 1):
        column = [at for at, found in enumerate(levels) if found == level]

        def height(at: int) -> float:
            needs = graph.nodes[at].needs
            return sum(places[need][1] for need in needs) / len(needs) if needs else -float(at)

        for row, at in enumerate(sorted(column, key=height, reverse=True)):
            places[at] = (level, (len(column) - 1) / 2 - row)
    return places
