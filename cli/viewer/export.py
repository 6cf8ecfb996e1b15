"""The page as one file that needs no server and no network: its script, its styles and the data in it.

A policy of the file's own lets only its one script run, known by its digest. The data stands in an element that is no
script to a browser, with every ``<`` written as JSON allows, so that nothing in it can end that element.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.cli.viewer.pages import Answers, static_files
from toolorchestra.toolscale.common.writing import write_whole

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src {script_digest}; \
style-src {style_digest}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'">
<meta name="referrer" content="no-referrer">
<title>toolorchestra</title>
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def write_page(file: Path, answers: Answers, *, episodes: int) -> int:
    """Write the page with the first episodes of each recording, at most so many in all, and return how many.

    Raises:
        OutputError: The file cannot be written.
    """
    answers.index.up_to_date.wait()
    static = static_files()
    style, script = static["style.css"].decode(), static["main.js"].decode()
    data, count = _data(answers, episodes)
    page = _PAGE.format(
        script_digest=_digest(script),
        style_digest=_digest(style),
        style=style,
        script=script,
        data=msgspec.json.encode(data).decode().replace("<", "\\u003c"),
    )
    write_whole(file, page)
    return count


def _data(answers: Answers, limit: int) -> tuple[dict[str, Any], int]:
    """Return what the page asks for, and the number of episodes in it."""
    state = answers.state()
    shares = {one["id"]: 0 for one in state["recordings"]}
    left = limit
    while left and any(shares[one["id"]] < one["episodes"] for one in state["recordings"]):
        for one in state["recordings"]:
            if left and shares[one["id"]] < one["episodes"]:
                shares[one["id"]] += 1
                left -= 1
    rows: list[dict[str, Any]] = []
    for recording, share in shares.items():
        for offset in range(0, share, 500):
            found = answers.index.rows({"recording": str(recording)}, offset=offset, limit=min(500, share - offset))
            rows += found[1]
    tools: dict[int, list[str]] = {}
    details, references = {}, {}
    for row in rows:
        number = row["id"]
        details[number] = answers.episode(number)
        references[number] = answers.reference(number)
        tools[number] = sorted(_called(details[number]["episode"]))
    numbers = list(shares)
    comparisons = {
        f"{a}/{b}": answers.comparison(a, b) for a in numbers for b in numbers if a != b and len(numbers) < 9
    }
    return {
        "state": state | {"exported": len(rows)},
        "rows": rows,
        "tools": tools,
        "details": details,
        "references": references,
        "metrics": answers.metrics({}),
        "rollouts": {run: answers.rollouts(run) for run in answers.places.runs},
        "comparisons": comparisons,
    }, len(rows)


def _called(episode: msgspec.Raw) -> set[str]:
    found = msgspec.json.decode(episode)
    return {call["name"][:80] or "(no name)" for turn in found.get("turns", ()) for call in turn.get("calls", ())}


def _digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
