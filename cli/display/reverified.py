"""What became of recorded episodes that were judged anew, as `reverify` prints it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from toolorchestra.cli.display.console import numbers, plain_table

_SHOWN = 50  # episodes of each list
_STYLES = {"solved": "green", "failed": "red"}
_TITLES = {
    "flipped": ("flipped", "bold red"),
    "drifted": ("the same verdict, but something differs from the record", "yellow"),
    "unjudged": ("not judged", "magenta"),
}


def reverified_text(found: Mapping[str, Any]) -> Group:
    """Return the counts of outcomes, recorded and of today, and each episode that flipped, differs or was not judged.

    Args:
        found: What ``reverify --json`` prints.
    """
    rows: list[list[Text | str]] = [
        [_outcome(row["recorded"]), _outcome(row["now"]), f"{row['episodes']:,}"] for row in found["outcomes"]
    ]
    parts: list[RenderableType] = [plain_table("recorded", "now", *numbers("episodes"), rows=rows)]
    for name, (title, style) in _TITLES.items():
        if episodes := found[name]:
            listed = _by_reason(episodes) if name == "unjudged" else [*map(_changed, episodes)]
            parts += [Text(f"\n{len(episodes):,} {title}", style=style), *listed[:_SHOWN]]
            if len(listed) > _SHOWN:
                parts.append(Text(f"  … {len(listed) - _SHOWN:,} more; --json lists all", style="dim"))
    if not any(found[name] for name in _TITLES):
        parts.append(Text(f"All {found['episodes']:,} verdicts are those recorded.", style="green"))
    return Group(*parts)


def _changed(one: Mapping[str, Any]) -> Text:
    """Return two lines for an episode: what changed, and why."""
    head = Text.assemble((f"{_place(one)}  ", "cyan"), one["task"], "  ")
    head.append(f"{_change(one['outcome'])}, reward {_change(one['reward'])}", style="bold")
    return head.append(f"\n    {' '.join(one['reason'].split())}", style="default")


def _by_reason(episodes: Sequence[Mapping[str, Any]]) -> list[Text]:
    """Return a line for each reason: how many episodes have it, and the first of them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in episodes:
        found.setdefault(" ".join(one["reason"].split()), []).append(one)
    return [
        Text.assemble((f"{len(group):,} × ", "bold"), reason, (f"  {_place(group[0])}", "cyan"))
        for reason, group in sorted(found.items(), key=lambda item: -len(item[1]))
    ]


def _place(one: Mapping[str, Any]) -> str:
    return f"{one['recording']}:{one['episode']}"


def _change(values: Mapping[str, Any]) -> str:
    """Return what was recorded and what is there now, once if it is the same."""
    shown = (format(value, ".4g") if isinstance(value, float) else str(value or "none") for value in values.values())
    return " → ".join(dict.fromkeys(shown))


def _outcome(name: str) -> Text:
    return Text(name, style=_STYLES.get(name, "magenta"))
