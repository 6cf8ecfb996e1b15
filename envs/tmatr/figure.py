"""Decision trees as pictures: lines for a terminal, Mermaid for documents.

In the Mermaid flowchart each action stands below the one that it follows, in the colour of its agent; what came back,
and what was malformed, is in the colour of its status. The same tree gives the same text.
"""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree as Lines

from toolorchestra.envs.records.mermaid import Box, flowchart
from toolorchestra.envs.records.render import OUTCOME_STYLE, WIDTH, drawn
from toolorchestra.envs.tmatr.actions import Action
from toolorchestra.envs.tmatr.tree import DecisionTree, TreeNode
from toolorchestra.toolscale.common.visible import cut

_COLOURS = ("blue", "magenta", "yellow", "cyan", "green")
_STYLES = {
    "agent0": "fill:#e8f0fb,color:#000",
    "agent1": "fill:#f7e9f7,color:#000",
    "agent2": "fill:#fdf3dc,color:#000",
    "agent3": "fill:#e2f4f5,color:#000",
    "agent4": "fill:#eaf5e6,color:#000",
    "question": "fill:none,stroke:none",
    "good": "fill:#e3f4e4,stroke:#3d8b45,color:#000",
    "bad": "fill:#fbe3e1,stroke:#b5402f,color:#000",
}


def tree_text(tree: DecisionTree, *, width: int = WIDTH, color: bool | None = None) -> str:
    """Return a tree as lines for a terminal, in colour if asked for or if ``FORCE_COLOR`` is set."""
    head = Text(tree.task_id, style="bold").append(f"\n{cut(tree.question, 2 * width)}", "default")
    lines = Lines(head, guide_style="dim")
    branches = {0: lines}
    for edge, node in zip(tree.edges, tree.nodes, strict=True):
        branches[node.id] = branches[edge.start].add(_line(tree, edge.label, node, width))
    text = drawn(lines, width, color)
    return text if tree.outcome is None else f"{text}\n{drawn(_ending(tree), width, color)}"


def mermaid(tree: DecisionTree) -> str:
    """Return a tree as a Mermaid flowchart below its question; texts are cut to a line."""
    summary = "in progress" if tree.outcome is None else _ending(tree).plain
    boxes = [Box("n0", (tree.question, f"{tree.task_id}: {summary}"), "question")]
    for node in tree.nodes:
        times = _times(node) if node.end else ""
        boxes.append(Box(f"n{node.id}", (_title(node), node.choice, node.why, times), _kind(tree, node)))
    return flowchart(boxes, ((f"n{edge.start}", f"n{edge.end}", edge.label) for edge in tree.edges), _STYLES)


def _line(tree: DecisionTree, label: str, node: TreeNode, width: int) -> Text:
    bad = _is_bad(node)
    colour = "red" if bad else "green" if _is_end(node) else _COLOURS[_number(tree, node) % len(_COLOURS)]
    line = Text(f"{label}: " if label.startswith("turn") else "", style="dim")
    line.append(f"{_title(node)} ", f"bold {colour}")
    line.append(cut(node.choice, width), "default")
    if node.why:
        line.append(f" – {cut(node.why, width)}" if node.choice else cut(node.why, width), "italic default")
    return line.append(f"  {_times(node)}", "dim") if node.end else line


def _ending(tree: DecisionTree) -> Text:
    outcome = str(tree.outcome)
    calls = sum(1 for node in tree.nodes if node.end)
    line = Text(outcome, style=OUTCOME_STYLE.get(outcome, "bold magenta"))
    reward = "" if tree.reward is None else f" · reward {tree.reward:.3f}"
    turns = max((node.turn for node in tree.nodes), default=0)
    tokens = sum(node.tokens for node in tree.nodes)
    return line.append(f"{reward} · turns: {turns} · calls: {calls} · tokens: {tokens}", "default")


def _title(node: TreeNode) -> str:
    text = f"{node.action} {node.status}" if _is_bad(node) or node.action is Action.ANSWER else str(node.action)
    return text if node.action is Action.RETURN else f"{node.agent} {text}"


def _times(node: TreeNode) -> str:
    return f"{node.start:.1f} to {node.end:.1f} s, ${node.cost:.4f}"


def _is_bad(node: TreeNode) -> bool:
    return node.status not in ("OK", "solved")


def _is_end(node: TreeNode) -> bool:
    return node.action in (Action.RETURN, Action.ANSWER)


def _number(tree: DecisionTree, node: TreeNode) -> int:
    return tree.agents.index(node.agent) if node.agent in tree.agents else 0


def _kind(tree: DecisionTree, node: TreeNode) -> str:
    """Return the class of a box."""
    if _is_bad(node):
        return "bad"
    return "good" if _is_end(node) else f"agent{_number(tree, node) % len(_COLOURS)}"
