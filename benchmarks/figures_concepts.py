"""Draw the flow of data through an episode and a training, as docs/concepts.md describes it."""

from __future__ import annotations

from collections.abc import Iterator

from svg import EDGE, STYLE, box, document, escaped

WIDTH, HEIGHT = 910, 412
BLUE, GREEN, YELLOW, GREY = (
    ("#e8f0fb", "#5b7fb5"),
    ("#e3f4e4", "#3d8b45"),
    ("#fdf3dc", "#c07a12"),
    ("#ececec", "#8a8a8a"),
)
BOXES = (
    ((24, 56), (172, 60), GREY, "Task source", ("instruction, reference, seed",)),
    ((268, 56), (172, 60), BLUE, "Environment", ("a protocol: rules, limits",)),
    ((736, 56), (150, 60), YELLOW, "Policy", ("model, script, person",)),
    ((268, 186), (172, 60), BLUE, "Executor", ("checks and runs the calls",)),
    ((484, 186), (74, 60), GREEN, "Session", ("database",)),
    ((564, 186), (74, 60), GREEN, "Experts", ("priced",)),
    ((644, 186), (74, 60), GREEN, "Sandbox", ("programs",)),
    ((268, 326), (128, 60), BLUE, "Verifier", ("is it solved?",)),
    ((430, 326), (112, 60), BLUE, "Reward", ("and its parts",)),
    ((576, 326), (142, 60), GREY, "Record", ("an Episode, as JSON",)),
    ((758, 326), (128, 60), YELLOW, "Learner", ("SFT, GRPO, DPO …",)),
)
"""Corner, size, colours, name and what is said of it."""
ARROWS = (
    "M196 86H266",  # task
    "M440 76H734",  # observation
    "M736 98H442",  # message
    "M320 116V184",  # calls
    "M388 186V118",  # results
    "M440 206H482",  # calls of tools
    "M484 228H442",  # values
    "M110 116V356H266",  # reference
    "M521 246V296H332V324",  # changes
    "M396 356H428",
    "M542 356H574",
    "M660 266V324",  # turns
    "M718 356H756",
    "M822 326V118",  # weights
)
LABELS = (
    (231, 78, "task", "middle"),
    (600, 68, "observation, tools", "middle"),
    (600, 114, "message with calls", "middle"),
    (312, 156, "calls", "end"),
    (396, 156, "results", "start"),
    (120, 350, "reference", "start"),
    (340, 290, "changes of the database", "start"),
    (668, 302, "every turn", "start"),
    (812, 226, "new weights", "end"),
    (264, 34, "an episode", "start"),
)


def concepts() -> str:
    """Return the figure."""
    style = (
        f"<style>{STYLE}.edge{{fill:none;stroke:{EDGE};stroke-width:1.5}}"
        ".middle{text-anchor:middle}.end{text-anchor:end}.start{text-anchor:start}</style>"
    )
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{EDGE}"/></marker></defs>'
    )
    return document(WIDTH, HEIGHT, [style, tip], parts())


def parts() -> Iterator[str]:
    """Yield the frame of the episode, the arrows, the boxes and the labels."""
    yield f'<rect x="252" y="42" width="478" height="224" rx="12" fill="none" stroke="{EDGE}" stroke-dasharray="4 4"/>'
    for path in ARROWS:
        yield f'<path class="edge" d="{path}" marker-end="url(#tip)"/>'
    for corner, size, colours, name, lines in BOXES:
        middle = size[0] // 2
        texts = [f'<text class="id middle" x="{middle}" y="26">{name}</text>']
        texts += [f'<text class="small middle" x="{middle}" y="45">{escaped(line)}</text>' for line in lines]
        yield box(corner, size, colours, name, texts)
    for x, y, words, anchor in LABELS:
        yield f'<text class="small {anchor}" x="{x}" y="{y}">{escaped(words)}</text>'
