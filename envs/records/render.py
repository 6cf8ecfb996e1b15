"""Episodes of one agent or several as text for the terminal.

`episode_text` draws a whole transcript, `turn_text` one turn; `raw_text` has every message as it was written. With
several agents, a transcript shows the agent of each message and the observations. Pass ``color=True`` or set
``FORCE_COLOR`` for colours.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from toolorchestra.agents.messages.reading import read_message
from toolorchestra.envs.records.episode import CallRecord, Episode, Turn
from toolorchestra.toolscale.answers.typed_answers import SUBMIT
from toolorchestra.toolscale.common.visible import visible
from toolorchestra.toolscale.tools.tool import InnerCall, Status

WIDTH = 100
OUTCOME_STYLE = {"solved": "bold green", "failed": "bold red"}
_MAX_VALUE = 400
_MAX_TEXT = 1_200
_AGENT_COLORS = ("blue", "magenta", "yellow", "green")


class VisibleConsole(Console):
    """A console on which no text is obeyed by the terminal, whatever it says: see `visible`."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments whose text is visible; Rich's own control segments stay."""
        if isinstance(renderable, str):
            renderable = visible(renderable)  # before it is laid out
        elif isinstance(renderable, Text) and not renderable.spans:
            shown = renderable.copy()
            shown.plain = visible(renderable.plain)
            renderable = shown
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def episode_text(episode: Episode, *, width: int = WIDTH, color: bool | None = None) -> str:
    """Return the transcript of an episode, in progress or over."""
    turns = (part for number, turn in enumerate(episode.turns, 1) for part in _turn(turn, number, episode))
    return drawn(Group(_request(episode), *turns, *_ending(episode)), width, color)


def turn_text(turn: Turn, episode: Episode, *, width: int = WIDTH, color: bool | None = None) -> str:
    """Return one turn, and the ending if the episode is over."""
    return drawn(Group(*_turn(turn, len(episode.turns), episode), *_ending(episode)), width, color)


def raw_text(episode: Episode) -> str:
    """Return everything that was said, as it was written; characters that do not print are shown by their numbers."""
    parts = []
    for agent in episode.agents:
        to = f" to {agent}" if len(episode.agents) > 1 else ""
        parts += [(f"{message['role']}{to}", str(message["content"])) for message in episode.opening(agent)]
    for number, turn in enumerate(episode.turns, 1):
        parts.append((f"{number} {turn.agent}", str(turn.message.get("content") or "")))
        parts += [(f"{number} call", _json(call)) for call in turn.message.get("tool_calls") or ()]
        parts += [(f"{number} → {agent}", text) for agent, text in turn.observations.items()]
    return "".join(f"── {_printable(title)} ──\n{_printable(text)}\n" for title, text in parts)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in text)


def drawn(content: RenderableType, width: int, color: bool | None) -> str:
    """Return what a terminal of this width would show; `color` None: in colour if ``FORCE_COLOR`` is set."""
    wanted = bool(os.environ.get("FORCE_COLOR")) if color is None else color
    console = VisibleConsole(
        file=io.StringIO(),
        width=width,
        force_terminal=wanted,
        force_jupyter=False,  # in a notebook rich would show it there, and nothing would be returned
        color_system="standard" if wanted else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(content)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _parts(episode: Episode) -> str:
    """Return which part of cost and time is whose, if the agents' own messages are counted."""
    if not any(turn.tokens[1] for turn in episode.turns):
        return ""
    clock = episode.clock_parts
    return " · ".join(f"{name} ${cost:.4f}, {clock[name]:.1f} s" for name, cost in episode.cost_parts.items())


def _request(episode: Episode) -> RenderableType:
    title = f"{episode.task_id} · {episode.split} · difficulty {episode.difficulty}"
    return _panel(_short(episode.instruction, 4 * _MAX_TEXT), title, "cyan")


def _panel(text: str, title: str, color: str) -> Panel:
    return Panel(Text(visible(text)), title=Text(visible(title)), title_align="left", border_style=color)


def _turn(turn: Turn, number: int, episode: Episode) -> list[RenderableType]:
    if len(episode.agents) > 1:
        return _turn_of_several(turn, episode)
    read = read_message(turn.message, episode.tools)
    text = "\n".join(filter(None, (read.apart, read.beside)))
    if not turn.calls:
        answered = turn is episode.turns[-1] and episode.answer is not None
        return [_panel(text or "(nothing)", "answer" if answered else "message", "blue")]
    *calls, last = turn.calls
    if last.name != SUBMIT or last.status is not Status.OK:
        return [_calls(turn, turn.calls, number, text)]
    answer = _panel(_submitted(last.arguments or {}), "answer", "blue")
    return [_calls(turn, calls, number, text), answer] if calls or text else [answer]


def _submitted(arguments: dict[str, Any]) -> str:
    """Return a submitted answer, of a typed one a slot a line, and what is told beside it."""
    answer, message = arguments["answer"], str(arguments.get("message") or "").strip()
    values = answer if isinstance(answer, dict) else {"": answer}
    shown = ((name, _short(value if isinstance(value, str) else _json(value))) for name, value in values.items())
    lines = [f"{name}: {value}" if name else value for name, value in shown]
    return "\n".join([*lines, *([""] if lines and message else []), *([message] if message else [])]) or "(nothing)"


def _turn_of_several(turn: Turn, episode: Episode) -> list[RenderableType]:
    """Return a turn with its agent, without the arguments of calls and with the size of results."""
    color = _AGENT_COLORS[episode.agents.index(turn.agent) % len(_AGENT_COLORS)]
    text = _short(str(turn.message.get("content") or "") or "(nothing)", _MAX_TEXT)
    parts: list[RenderableType] = [_panel(text, turn.agent, color)]
    for call in turn.calls:
        line = Text("    ").append(visible(call.name), style="bold yellow").append(_spent(call), "dim")
        if call.status is Status.OK:
            value = call.value if isinstance(call.value, str) else _json(call.value)
            line.append(f"  {len(value):,} characters", "green")
        else:
            line.append(f"  {_error(call, _MAX_TEXT)}", "red")
        parts.append(line)
    for agent, observation in turn.observations.items():
        parts.append(Text(f"    → {agent}: {_short(observation, _MAX_TEXT)}", style="dim"))
    return parts


def _calls(turn: Turn, calls: Sequence[CallRecord], number: int, text: str) -> RenderableType:
    """Return calls of a turn, with the text that stands beside them."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="dim", width=3)
    grid.add_column()
    if text:
        grid.add_row(f"{number}", Text(visible(text), style="italic"))
    written = _unread(turn)
    for position, call in enumerate(calls):
        grid.add_row("" if position or text else f"{number}", _call(call, written.get(position)))
        for line in _inner_calls(call.children):
            grid.add_row("", line)
        grid.add_row("", _result(call))
    return grid


def _unread(turn: Turn) -> dict[int, str]:
    """Return the calls of a turn whose arguments could not be read, by position: as they were written."""
    if all(call.arguments is not None for call in turn.calls):
        return {}
    calls = read_message(turn.message, {call.name for call in turn.calls}).calls
    if len(calls) != len(turn.calls):  # a protocol with another way of calling
        return {}
    texts = [call.raw or call.arguments.decode("utf-8", "replace") for call in calls]
    return {n: text for n, (text, call) in enumerate(zip(texts, turn.calls, strict=True)) if call.arguments is None}


def _call(call: CallRecord, written: str | None) -> Text:
    if written is None:
        given = ((name, value) for name, value in (call.arguments or {}).items() if value is not None)
        arguments = ", ".join(f"{name}={_json(value)}" for name, value in given)
    else:
        arguments = written.strip()
    line = Text().append(visible(call.name) or "(no name)", style="bold yellow").append(f"({_short(arguments)})")
    return line.append(_spent(call), style="dim")


def _inner_calls(calls: Sequence[InnerCall], depth: int = 1) -> Iterator[Text]:
    """Yield a line for each call made inside of another, indented by its depth."""
    for call in calls:
        line = Text("  " * depth + "└ ", style="dim").append(visible(call.name), style="yellow")
        line.append(_spent(call))
        if call.status is not Status.OK:
            line.append(f"  {_error(call)}", style="red")
        yield line
        yield from _inner_calls(call.children, depth + 1)


def _spent(call: CallRecord | InnerCall) -> str:
    timing = f"  {call.start:.1f}–{call.end:.1f} s"
    return timing if not call.cost else f"{timing}, ${call.cost:.4f}"


def _result(call: CallRecord) -> Text:
    if call.status is Status.OK:
        return Text("→ " + _short(_json(call.value)), style="green")
    return Text(_error(call), style="red")


def _error(call: CallRecord | InnerCall, limit: int = _MAX_VALUE) -> str:
    return f"✗ {call.status}: {_short(call.error or '', limit)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _short(text: str, limit: int = _MAX_VALUE) -> str:
    return visible(text if len(text) <= limit else f"{text[:limit]}…")


def _ending(episode: Episode) -> list[RenderableType]:
    """Return the line with the outcome, if the episode is over."""
    if episode.outcome is None:
        return []
    outcome = str(episode.outcome)
    calls = sum(len(turn.calls) for turn in episode.turns)
    line = Text().append(outcome, style=OUTCOME_STYLE.get(outcome, "bold magenta"))
    if len(episode.agents) > 1:
        rewards = ", ".join(f"{agent} {reward:g}" for agent, reward in episode.rewards.items()) or "none"
    else:
        rewards = "none" if episode.reward is None else f"{episode.reward:g}"
    line.append(f" · reward {rewards} · {len(episode.turns)} turns · {calls} calls")
    line.append(f" · ${episode.cost:.4f} · {episode.clock:.1f} s")
    if parts := _parts(episode):
        line.append(f"\n{parts}", style="dim")
    if episode.why and episode.why != outcome:
        line.append(f"\n{_short(episode.why)}", style="dim")
    return [line]
