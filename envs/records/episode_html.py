"""An episode as HTML for notebooks and `toolorchestra show --html`: static, escaped, legible on light and dark ground.

It is drawn from the record as JSON has it. `toolorchestra view` has the page on which episodes are filtered, compared
and looked into; this is one episode at a glance.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolorchestra.toolscale.common.visible import visible

_MAX_TEXT, _MAX_VALUE = 2_000, 600  # characters
_MAX_TURNS, _MAX_BARS = 30, 60
_GREY = "rgba(127,127,127,.16)"
_COLOURS = {"solved": "#2e8b57", "failed": "#c0392b"}
_OWN, _CALL, _FAILED = "#4a7fd0", "#1c9aa5", "#c0392b"  # of bars; seen on white and on black


def episode_html(record: Mapping[str, Any]) -> str:
    """Return an episode, given as `msgspec.to_builtins` has it, as HTML without scripts."""
    turns = record.get("turns", ())
    shown = "".join(_turn(number, turn) for number, turn in enumerate(turns[:_MAX_TURNS], 1))
    if len(turns) > _MAX_TURNS:
        shown += f"<p>… {len(turns) - _MAX_TURNS} more turns</p>"
    parts = [_head(record), _text(record["instruction"]), _chart(record), _folded("conversation", shown)]
    return f'<div style="max-width:900px;line-height:1.45">{"".join(parts)}</div>'


def episode_page(record: Mapping[str, Any]) -> str:
    """Return the same as a page of its own, which loads nothing and runs no scripts."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
    style = ":root{color-scheme:light dark}body{font:14px/1.45 system-ui,sans-serif;max-width:900px;margin:24px auto}"
    head += f'<meta name="viewport" content="width=device-width"><style>{style}</style>'
    title = f"<title>{_escaped(record['task_id'], 200)}</title>"
    body = f"<body>{episode_html(record)}</body>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}{title}</head>{body}</html>\n'


def _escaped(text: object, limit: int) -> str:
    whole = str(text)
    return html.escape(visible(whole if len(whole) <= limit else f"{whole[:limit]}…"))


def _text(text: object, limit: int = _MAX_TEXT, style: str = "") -> str:
    wrapped = "white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;margin:4px 0;"
    return f'<div dir="auto" style="{wrapped}{style}">{_escaped(text, limit)}</div>'


def _folded(title: str, content: str) -> str:
    return f'<details><summary style="cursor:pointer">{html.escape(title)}</summary>{content}</details>'


def _head(record: Mapping[str, Any]) -> str:
    outcome = record.get("outcome") or "in progress"
    calls = sum(len(turn.get("calls", ())) for turn in record.get("turns", ()))
    reward = record.get("reward")
    facts = [
        f"level {record['difficulty']}",
        f"reward {'none' if reward is None else format(reward, 'g')}",
        f"{len(record.get('turns', ()))} turns",
        f"{calls} calls",
        f"${record.get('cost', 0.0):.4f}",
        f"{record.get('clock', 0.0):.1f} s",
    ]
    colour = _COLOURS.get(outcome, "#b8860b")
    badge = (
        f'<span style="background:{colour};color:#fff;border-radius:8px;padding:0 8px">{html.escape(outcome)}</span>'
    )
    why = record.get("why", "")
    wrong = _text(why, style=f"color:{colour};") if why and why != outcome else ""
    title = f"<b>{_escaped(record['task_id'], 200)}</b> {badge}"
    return f'<div>{title} <span style="opacity:.75">{" · ".join(facts)}</span></div>{wrong}'


def _bars(record: Mapping[str, Any]) -> Iterator[tuple[str, str, float, float]]:
    """Yield name, colour, start and end of each message and call on the virtual clock."""
    clock = 0.0
    for turn in record.get("turns", ()):
        agent, ends = turn.get("agent", "orchestrator"), clock + turn.get("seconds", 0.0)
        if ends > clock:
            yield f"{agent} writes", _OWN, clock, ends
        clock = ends
        for call in turn.get("calls", ()):
            start, end = call.get("start", 0.0), call.get("end", 0.0)
            yield call["name"], _CALL if call["status"] == "OK" else _FAILED, start, end
            yield from (
                (f"└ {inner['name']}", _CALL, start + inner.get("start", 0.0), start + inner.get("end", 0.0))
                for inner in call.get("children", ())
            )
            clock = max(clock, end)


def _chart(record: Mapping[str, Any]) -> str:
    """Return when agents wrote and calls ran."""
    bars = list(_bars(record))
    whole = max((end for *_, end in bars), default=0.0)
    if not whole:
        return ""
    rows = []
    for name, colour, start, end in bars[:_MAX_BARS]:
        place = f"margin-left:{100 * start / whole:.2f}%;width:max(3px,{100 * (end - start) / whole:.2f}%)"
        bar = f'<div style="height:10px;border-radius:3px;background:{colour};{place}"></div>'
        label = f'<div style="overflow:hidden;text-overflow:ellipsis;white-space:nowrap">{_escaped(name, 60)}</div>'
        track = f'<div style="background:{_GREY};border-radius:3px;overflow:hidden">{bar}</div>'
        rows.append(f"{label}{track}<div>{end - start:.2f} s</div>")
    if len(bars) > _MAX_BARS:
        rows.append(f"<div>… {len(bars) - _MAX_BARS} more</div><div></div><div></div>")
    grid = (
        "display:grid;grid-template-columns:180px 1fr 60px;gap:2px 10px;align-items:center;font-size:12px;margin:6px 0"
    )
    return f'<div style="{grid}">{"".join(rows)}</div>'


def _turn(number: int, turn: Mapping[str, Any]) -> str:
    message = turn.get("message", {}).get("content") or ""
    calls = "".join(map(_call, turn.get("calls", ())))
    title = f"<b>{number} {_escaped(turn.get('agent', 'orchestrator'), 60)}</b>"
    text = _text(message, _MAX_VALUE if calls else _MAX_TEXT)
    return f'<div style="border-left:3px solid {_OWN};padding:2px 10px;margin:6px 0">{title}{text}{calls}</div>'


def _call(call: Mapping[str, Any]) -> str:
    given = ", ".join(
        f"{name}={_json(value)}" for name, value in (call["arguments"] or {}).items() if value is not None
    )
    fine = call["status"] == "OK"
    result = _text(f"→ {_json(call.get('value'))}" if fine else f"✗ {call['status']}: {call.get('error')}", _MAX_VALUE)
    head = f"<code>{_escaped(call['name'], 80)}({_escaped(given, _MAX_VALUE)})</code>"
    colour = _CALL if fine else _FAILED
    style = f"border-left:3px solid {colour};background:{_GREY};padding:4px 8px;margin:4px 0"
    return f'<div style="{style}">{head}{result}</div>'


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
