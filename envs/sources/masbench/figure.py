"""The dependency graph of a problem as a Mermaid flowchart."""

from __future__ import annotations

from toolorchestra.envs.ground_truth.parts import needed
from toolorchestra.envs.records.mermaid import Box, flowchart
from toolorchestra.envs.sources.masbench.graph import Graph, measure, values_of

_STYLES = {
    "title": "fill:none,stroke:none",
    "answer": "fill:#f2b84b,color:#000",
    "noted": "fill:#e8743b,color:#000",
    "needed": "fill:#bcd9f2,color:#000",
    "distractor": "fill:#eee,color:#000",
}
_SIGNS = {"given": "", "undefined": "∅ ", "same": "", "sum": "Σ ", "difference": "− ", "total": "∀ ", "nested": "∀∀ "}


def figure(graph: Graph, title: str = "") -> str:
    """Return the figure of a graph as Mermaid text; the same graph gives the same text.

    Arrows lead from what is needed to what needs it. Answers are yellow, those with a note about them orange, what no
    answer needs is grey.
    """
    values = values_of(graph.nodes)
    targets = {one.node: one for one in graph.targets}
    way = set(needed(graph.nodes, targets))
    found = ", ".join(f"{axis} {value}" for axis, value in measure(graph).items())
    boxes = [Box("head", (title, found), "title")]
    for at, node in enumerate(graph.nodes):
        kind = "needed" if at in way else "distractor"
        if at in targets:
            kind = "answer" if targets[at].note is None else "noted"
        change = {"more": f" + {node.constant}", "times": f" × {node.constant}", "": ""}[node.change]
        value = f"{_SIGNS.get(node.kind, '')}{change.strip()}{' ' if change else ''}= {values[at]}"
        boxes.append(Box(f"n{at}", (f"{node.owner}'s" if node.owner else "", node.name, value), kind))
    edges = ((f"n{need}", f"n{at}", "") for at, node in enumerate(graph.nodes) for need in node.needs)
    return flowchart(boxes, edges, _STYLES, direction="LR")
