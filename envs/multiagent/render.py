"""Episodes of several agents as text for the terminal: who said what, which tools ran, and who was told what of it."""

from __future__ import annotations

import msgspec
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from toolorchestra.envs.episode import CallRecord
from toolorchestra.envs.multiagent.record import JointEpisode, Move
from toolorchestra.envs.render import OUTCOME_STYLE, WIDTH, drawn
from toolorchestra.toolscale.tool import Status

_LONGEST = 1_200
_COLOURS = ("blue", "magenta", "yellow", "green")


def joint_text(episode: JointEpisode, *, width: int = WIDTH, color: bool | None = None) -> str:
    """Return the transcript of an episode, in progress or over."""
    title = Text(f"{episode.task_id} · {episode.split} · difficulty {episode.difficulty}")
    parts: list[RenderableType] = [
        Panel(Text(_short(episode.instruction)), title=title, title_align="left", border_style="cyan")
    ]
    for move in episode.turns:
        parts += _move(move, episode)
    if episode.outcome is not None:
        parts.append(_ending(episode))
    return drawn(Group(*parts), width, color)


def move_text(move: Move, episode: JointEpisode, *, width: int = WIDTH, color: bool | None = None) -> str:
    """Return one move, and the ending if the episode is over."""
    parts = _move(move, episode)
    if episode.outcome is not None:
        parts.append(_ending(episode))
    return drawn(Group(*parts), width, color)


def _move(move: Move, episode: JointEpisode) -> list[RenderableType]:
    colour = _COLOURS[episode.agents.index(move.agent) % len(_COLOURS)]
    said = str(move.message.get("content") or "") or "(nothing)"
    parts: list[RenderableType] = [
        Panel(Text(_short(said)), title=Text(move.agent), title_align="left", border_style=colour)
    ]
    parts += [_call(call) for call in move.calls]
    parts += [Text(f"    → {agent}: {_short(text)}", style="dim") for agent, text in move.told.items()]
    return parts


def _call(call: CallRecord) -> Text:
    line = Text("    ").append(call.name, style="bold yellow").append(f"  {call.start:.1f}–{call.end:.1f} s", "dim")
    if call.status is not Status.OK:
        return line.append(f"  ✗ {call.status}: {_short(call.error or '')}", "red")
    shown = call.value if isinstance(call.value, str) else msgspec.json.encode(call.value).decode()
    return line.append(f"  {len(shown):,} characters", "green")


def _ending(episode: JointEpisode) -> Text:
    outcome = str(episode.outcome)
    paid = ", ".join(f"{agent} {reward:g}" for agent, reward in episode.paid.items()) or "nobody paid"
    line = Text(outcome, style=OUTCOME_STYLE.get(outcome, "bold magenta"))
    line.append(f" · {paid} · {len(episode.turns)} messages · {sum(1 for _ in episode.calls)} calls", "default")
    line.append(f" · ${episode.cost:.4f} · {episode.clock:.1f} s", "default")
    if episode.why and episode.why != outcome:
        line.append(f"\n{_short(episode.why)}", style="dim")
    return line


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
