"""Draw the figures of the README and the documents from their records.

    python benchmarks/figures.py                    writes those that are not up to date
    python benchmarks/figures.py --check            exit with 1 if one is not what its record says
    python benchmarks/figures.py --run RUN --episodes FILE --task ID --commit COMMIT
                                                    first makes the record of a run of `train grpo`, and of the episode
                                                    of a task in a recording

Here is the picture at the top of the README: an episode of orchestration, and the curve of a training, of
benchmarks/results/first_run.json, in two files, one for each theme. The others are in `figures_learning.py` and
`figures_concepts.py`. Texts are placed by an estimate of their width, since an SVG does not
know its fonts: `tests/test_figures.py` measures them in a browser.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from figures_concepts import concepts
from figures_learning import learning
from harness import ROOT, cli, lines, provenance, read, write
from svg import escaped

from toolorchestra.toolscale.common.visible import cut

WIDTH, HEIGHT = 960, 430
MARGIN, MIDDLE = 24, 590
ROW = 24
BARS = (226, 470)
"""Where the bars of the calls begin and end."""
PLOT = (MIDDLE + 48, 96, WIDTH - MARGIN, 330)
"""Left, top, right and bottom of the curve."""
CHARACTER = 6.4
"""Pixels that a character of 13 px takes, with room to spare."""
THEMES = {
    "light": {
        "ground": "#ffffff", "frame": "#d0d7de", "text": "#1f2328", "faint": "#59636e", "line": "#e3e7eb",
        "own": "#6e7781", "expert": "#8250df", "tool": "#0969da", "good": "#1a7f37",
    },
    "dark": {
        "ground": "#0d1117", "frame": "#3d444d", "text": "#f0f6fc", "faint": "#9198a1", "line": "#2a313c",
        "own": "#9198a1", "expert": "#ab7df8", "tool": "#58a6ff", "good": "#3fb950",
    },
}  # fmt: skip


def recorded(run: Path, episodes: Path, task: str, commit: str) -> dict[str, Any]:
    """Return the record of a run: its options, success by step and held-out success; and the episode of a task."""
    options = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    grpo = [line for line in lines(run / "metrics.jsonl") if line["phase"] == "grpo"]
    held_out = [line for line in grpo if line["kind"] == "heldout"]
    names = ("step", "success", "low", "high", "greedy", "cost", "episodes")
    episode = next(one for one in lines(episodes) if one["task_id"] == task)
    for turn in episode["turns"]:
        for name in ("token_ids", "logprobs", "observations"):
            turn.pop(name, None)
    kept = ("env_id", "task_id", "split", "difficulty", "instruction", "turns", "answer", "outcome", "cost")
    return provenance() | {
        "commit": commit,
        "options": {name: value for name, value in options.items() if name != "output"},
        "success": [line["success"] for line in grpo if line["kind"] == "train"],
        "held_out": [{name: line[name] for name in names} for line in held_out],
        "episode": {name: episode[name] for name in (*kept, "clock")},
    }


def picture(record: dict[str, Any], theme: dict[str, str]) -> str:
    """Return the SVG in a theme."""
    style = (
        f"text{{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:{theme['text']}}}"
        f".title{{font-weight:600;font-size:15px}}.faint{{fill:{theme['faint']};font-size:12px}}"
        f".good{{fill:{theme['good']};font-weight:600}}.end{{text-anchor:end}}.middle{{text-anchor:middle}}"
    )
    frame = f'fill="{theme["ground"]}" stroke="{theme["frame"]}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
        f"<style>{style}</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10" {frame}/>',
        *episode(record["episode"], theme),
        f'<path d="M{MIDDLE - 22} 24V{HEIGHT - 24}" stroke="{theme["line"]}"/>',
        *curve(record, theme),
        "</svg>\n",
    ])  # fmt: skip


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Return an element of text; `y` is its base line."""
    return f'<text class="{kind or "plain"}" x="{x:g}" y="{y:g}">{escaped(words)}</text>'


def paragraph(y: float, words: str, lines: int) -> list[str]:
    """Return lines of the left half."""
    found = textwrap.wrap(words, int((MIDDLE - 46 - MARGIN) / CHARACTER), max_lines=lines, placeholder=" …")
    return [text(MARGIN, y + 18 * number, line) for number, line in enumerate(found)]


def episode(found: dict[str, Any], theme: dict[str, str]) -> Iterator[str]:
    """Yield the left half: the request, the calls on the virtual clock, and the answer."""
    yield text(MARGIN, 36, "An episode", "title")
    yield text(MIDDLE - 46, 36, found["task_id"], "faint end")
    request = found["instruction"].split("\n\nThe slots of the answer:")[0]
    yield from paragraph(62, f"“{request}”", 3)
    top, (left, right) = 138, BARS
    calls = [call for turn in found["turns"] for call in turn.get("calls", ())]
    scale = (right - left) / found["clock"]
    bottom = top + ROW * len(calls)
    for second in range(0, int(found["clock"]) + 1, 20):
        x = left + scale * second
        yield f'<path d="M{x:.1f} {top - 6}V{bottom}" stroke="{theme["line"]}"/>'
        yield text(x, top - 10, f"{second} s", "faint middle")
    for number, call in enumerate(calls):
        y = top + ROW * number
        asked = call.get("children", ())
        colour = theme["expert" if asked else "tool"]
        name = f"asks {asked[0]['name']}: {call['name'].partition('_')[0]}" if asked else call["name"]
        start, width = left + scale * call["start"], max(3.0, scale * (call["end"] - call["start"]))
        yield text(MARGIN, y + 16, cut(name, 28))
        yield f'<rect x="{start:.1f}" y="{y + 5}" width="{width:.1f}" height="14" rx="3" fill="{colour}"/>'
        yield text(MIDDLE - 46, y + 16, f"${call['cost']:.4f}", "faint end")
    slots = json.loads(found["answer"])["answer"]
    given = " · ".join(f"{name}: {'–' if value is None else value}" for name, value in slots.items())
    yield from paragraph(bottom + 30, given, 2)
    summary = (
        f"{len(found['turns'])} turns, ${found['cost']:.3f}, {found['clock']:.0f} s; the database is as it should be"
    )
    yield text(MARGIN, HEIGHT - 24, found["outcome"], "good")
    yield text(MARGIN + 52, HEIGHT - 24, summary, "faint")


def curve(record: dict[str, Any], theme: dict[str, str]) -> Iterator[str]:
    """Yield the right half: success while the orchestrator trains, and on held-out tasks before and after."""
    (left, top, right, bottom), values = PLOT, record["success"]
    steps = len(values)

    def at(step: float, share: float) -> tuple[float, float]:
        return left + (right - left) * step / steps, bottom - (bottom - top) * share

    yield text(MIDDLE, 36, "A training", "title")
    yield text(MIDDLE, 62, f"Success, over {steps} steps of GRPO")
    for tenth in range(0, 11, 2):
        _, y = at(0, tenth / 10)
        yield f'<path d="M{left} {y:.1f}H{right}" stroke="{theme["line"]}"/>'
        yield text(left - 8, y + 4, f"{10 * tenth} %", "faint end")
    for step in range(0, steps + 1, 6):
        yield text(at(step, 0)[0], bottom + 18, str(step), "faint middle")
    around = [values[max(0, n - 3) : n + 4] for n in range(steps)]
    for shares, width, opacity in ((values, 1, 0.4), ([sum(part) / len(part) for part in around], 2.2, 1)):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(n + 1, share) for n, share in enumerate(shares)))
        line = f'stroke="{theme["tool"]}" stroke-width="{width}" opacity="{opacity}"'
        yield f'<polyline points="{points}" fill="none" stroke-linejoin="round" {line}/>'
    for held in record["held_out"]:
        (x, y), low, high = at(held["step"], held["success"]), *(at(0, held[end])[1] for end in ("low", "high"))
        yield f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{theme["good"]}" stroke-width="2"/>'
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{theme["good"]}"/>'
    before, *_, after = record["held_out"]
    points = [at(held["step"], held["greedy"]) for held in record["held_out"]]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{line}" fill="none" stroke="{theme["good"]}" stroke-width="1"/>'
    for x, y in points:
        circle = f'r="4" fill="{theme["ground"]}" stroke="{theme["good"]}" stroke-width="1.5"'
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" {circle}/>'
    for name, shift in (("greedy", -12), ("success", 28)):
        x, y = at(0, before[name])
        yield text(x + 8, y + shift, f"{100 * before[name]:.0f} %", "good")
        x, y = at(after["step"], after[name])
        yield text(x, y + shift, f"{100 * after[name]:.0f} %", "good end")
    yield f'<circle cx="{MIDDLE + 6}" cy="{HEIGHT - 51}" r="4.5" fill="{theme["good"]}"/>'
    yield text(MIDDLE + 20, HEIGHT - 46, "held-out tasks, 95 % interval; open: greedy", "faint")
    yield f'<path d="M{MIDDLE} {HEIGHT - 28}h12" stroke="{theme["tool"]}" stroke-width="2.2"/>'
    yield text(MIDDLE + 20, HEIGHT - 24, "episodes that it learns from", "faint")


def main(
    check: bool = False, run: Path | None = None, episodes: Path | None = None, task: str = "", commit: str = ""
) -> bool:
    """Write the figures, or with `check` name those that are not up to date; with a run first make its record."""
    if run:
        if episodes is None:
            raise SystemExit("--run needs the recording of the episode as well: give --episodes FILE.")
        write("first_run", recorded(run, episodes, task, commit))
    record = read("first_run")
    stale = 0
    found = {f"docs/_assets/episode_{name}.svg": picture(record, theme) for name, theme in THEMES.items()}
    for path, drawn in {**found, "docs/_assets/concepts.svg": concepts(), **learning()}.items():
        file = ROOT / path
        if file.exists() and file.read_text(encoding="utf-8") == drawn:
            continue
        stale += 1
        print(f"{path} is not up to date: run `python benchmarks/figures.py`" if check else file)
        if not check:
            file.write_text(drawn, encoding="utf-8")
    return check and bool(stale)


if __name__ == "__main__":
    cli(main)
