"""Decision trees as pictures: lines for a terminal, SVG for documents.

In the SVG each action stands below the one that it follows, in the colour of its agent; what came back, and what was
malformed, is in the colour of its status. A box shows the whole of its texts when the pointer rests on it. The same
tree gives the same bytes.
"""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree as Lines

from toolorchestra.envs.render import OUTCOME_STYLE, WIDTH, drawn
from toolorchestra.envs.svg import EDGE, STYLE, Point, box, curve, cut, document, escaped
from toolorchestra.envs.tmatr.actions import Action
from toolorchestra.envs.tmatr.tree import DecisionTree, TreeNode

_WIDTH, _HEIGHT = _SIZE = (200, 62)  # of a box
_BESIDE, _BELOW = 20, 40  # between boxes
_MARGIN, _HEAD = 24, 44
_COLOURS = ("blue", "magenta", "yellow", "cyan", "green")
_FILLS = ("#e8f0fb", "#f7e9f7", "#fdf3dc", "#e2f4f5", "#eaf5e6")
_GOOD, _BAD = ("#e3f4e4", "#3d8b45"), ("#fbe3e1", "#b5402f")
_STYLE = (
    f"<style>{STYLE}.label{{paint-order:stroke;stroke-width:4px}}"
    f".edge{{fill:none;stroke:{EDGE};stroke-width:1.4}}</style>"
)


def tree_text(tree: DecisionTree, *, width: int = WIDTH, color: bool | None = None) -> str:
    """Return a tree as lines for a terminal, in colour if asked for or if ``FORCE_COLOR`` is set."""
    head = Text(tree.task_id, style="bold").append(f"\n{cut(tree.question, 2 * width)}", "default")
    lines = Lines(head, guide_style="dim")
    branches = {0: lines}
    for edge, node in zip(tree.edges, tree.nodes, strict=True):
        branches[node.id] = branches[edge.start].add(_line(tree, edge.label, node, width))
    text = drawn(lines, width, color)
    return text if tree.outcome is None else f"{text}\n{drawn(_ending(tree), width, color)}"


def svg(tree: DecisionTree) -> str:
    """Return a tree as SVG text."""
    places, columns, rows = _places(tree)
    width = 2 * _MARGIN + columns * (_WIDTH + _BESIDE) - _BESIDE
    height = _HEAD + _MARGIN + rows * (_HEIGHT + _BELOW)
    summary = f"{tree.task_id}: {'in progress' if tree.outcome is None else _ending(tree).plain}"
    parts = [
        f'<g><title>{escaped(tree.question)}</title><text class="id" x="{_MARGIN}" y="22">'
        f"{escaped(tree.question, (width - 2 * _MARGIN) // 8)}</text></g>",
        f'<text class="small" x="{_MARGIN}" y="{height - 10}">{escaped(summary, (width - 2 * _MARGIN) // 6)}</text>',
    ]
    for edge in tree.edges:
        parts.append(curve(places[edge.start], places[edge.end], _SIZE))
        if edge.label:
            x, y = places[edge.end][0] + _WIDTH / 2 + 6, places[edge.end][1] - 6
            parts.append(
                f'<text class="small label" stroke="#ffffff" x="{x:g}" y="{y:g}">{escaped(edge.label, 24)}</text>'
            )
    parts += [_box(tree, node, places[node.id]) for node in tree.nodes]
    return document(width, height, [_STYLE], parts)


def _places(tree: DecisionTree) -> tuple[dict[int, Point], int, int]:
    """Return the left upper corner of every box, and how many columns and rows there are.

    A leaf stands in a column of its own, what has followers above their middle; the question stands above all.
    """
    followers: dict[int, list[int]] = {}
    depths = {0: 0}
    for edge in tree.edges:
        followers.setdefault(edge.start, []).append(edge.end)
        depths[edge.end] = depths[edge.start] + 1
    columns: dict[int, float] = {}
    leaves = 0
    for node_id in [*(node.id for node in reversed(tree.nodes)), 0]:  # each after all that follow it
        if below := followers.get(node_id):
            columns[node_id] = (columns[below[0]] + columns[below[-1]]) / 2
        else:
            columns[node_id] = -leaves
            leaves += 1
    left = leaves - 1  # columns were counted from the right
    places: dict[int, Point] = {}
    for node_id, column in columns.items():
        y = _HEAD + (depths[node_id] - 1) * (_HEIGHT + _BELOW) + _BELOW
        places[node_id] = (_MARGIN + (left + column) * (_WIDTH + _BESIDE), y)
    return places, leaves, max(depths.values())


def _box(tree: DecisionTree, node: TreeNode, corner: Point) -> str:
    texts = [
        f'<text class="id" x="10" y="18">{escaped(_title(node), 28)}</text>',
        f'<text class="small" x="10" y="35">{escaped(node.choice or node.why, 30)}</text>',
    ]
    if node.choice and node.why:
        texts.append(f'<text class="small" x="10" y="52">{escaped(node.why, 30)}</text>')
    elif node.action is Action.RETURN and node.end:
        texts.append(f'<text class="small" x="10" y="52">{_times(node)}</text>')
    hint = "\n".join(text for text in (node.agent, node.choice, node.why) if text)
    return box(corner, _SIZE, _colours(tree, node), hint, texts)


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


def _colours(tree: DecisionTree, node: TreeNode) -> tuple[str, str]:
    """Return fill and border of a box."""
    if _is_bad(node):
        return _BAD
    return _GOOD if _is_end(node) else (_FILLS[_number(tree, node) % len(_FILLS)], EDGE)
