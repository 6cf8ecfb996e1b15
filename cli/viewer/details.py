"""One episode for the page: its record, and what is derived from it alone.

What needs the task as well, such as the reference's changes of the database, is in
`toolorchestra.cli.viewer.reference`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from toolorchestra.agents.messages.reading import read_message, read_text
from toolorchestra.cli.viewer.places import RecordingFile
from toolorchestra.cli.viewer.token_texts import token_texts
from toolorchestra.envs.records.episode import Episode, Turn
from toolorchestra.envs.records.failures import criteria_messages, reasons
from toolorchestra.envs.task_source import EXERCISES, QUESTIONS
from toolorchestra.toolscale.common.errors import OptionError, ToolOrchestraError

DOMAIN_CRITERIA = ("execution", "completeness", "fidelity")
_MEANINGS = {
    "execution": "The net change of the database equals that of a reference trajectory.",
    "completeness": "Every entry that the reference trajectory wrote was written; what it looked up was seen.",
    "fidelity": "The answer has every piece of information that is asked for: in its slots, or as prose mentions it.",
    "answer": "The final answer is right.",
}


def details(recording: RecordingFile, line: bytes) -> dict[str, Any]:
    """Return an episode and what is derived from it.

    Raises:
        OptionError: The line is no episode (any more).
    """
    try:
        episode = msgspec.json.decode(line, type=Episode)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OptionError(f"{recording.path}: expected an episode: {error}.") from None
    parts = episode.clock_parts
    return {
        "episode": msgspec.Raw(line.strip()),
        "recording": recording.name,
        "policy": recording.policy,
        "reasons": reasons(episode),
        "said": [_said(turn, episode.tools) for turn in episode.turns],
        "criteria": criteria(episode),
        "cost_parts": episode.cost_parts,
        "clock_parts": parts,
        "histories": {agent: episode.history(agent) for agent in episode.agents},
        "design": _design(episode),
        "tree": _tree(episode),
        "tokens": _token_texts(recording, episode),
    }


def _said(turn: Turn, tools: tuple[str, ...]) -> dict[str, str]:
    """Return what a message thinks and what it says, without its calls."""
    read = read_message(turn.message, tools) if turn.calls else read_text(turn.message)
    return {"thought": read.reasoning, "text": read.text}


def criteria(episode: Episode) -> list[dict[str, Any]]:
    """Return the criteria by which an episode is judged: whether each holds (None: not judged), and what is wrong."""
    source = episode.env_id.split("-")[-2] if episode.env_id.count("-") > 1 else ""
    found = criteria_messages(episode.why) if episode.outcome == "failed" else {}
    question = source in QUESTIONS | EXERCISES or "answer" in found or episode.task_id.startswith(("math/", "masbench"))
    names = list(dict.fromkeys([*(("answer",) if question else DOMAIN_CRITERIA), *found]))
    judged = episode.outcome == "solved" or bool(found)
    return [
        {
            "name": name,
            "meaning": _MEANINGS[name],
            "holds": name not in found if judged else None,
            "messages": found.get(name, []),
        }
        for name in names
    ]


def _design(episode: Episode) -> dict[str, Any] | None:
    """Return the design that an episode of MAS-Orchestra wrote, as a graph; None if it wrote none that is valid."""
    if not episode.env_id.startswith("MASOrchestra") or not episode.turns:
        return None
    from toolorchestra.envs.masorchestra.design import Design
    from toolorchestra.envs.masorchestra.paper_parser import parse_paper_design
    from toolorchestra.envs.masorchestra.parser import parse_design

    text = str(episode.turns[0].message.get("content") or "")
    parsers = (parse_design, parse_paper_design) if episode.turns[0].calls else (parse_design,)  # one that was run
    designs = (parse(text, dom, episode.tools) for parse in parsers for dom in ("high", "low"))
    design = next((one for one in designs if isinstance(one, Design)), None)
    if design is None:
        return None
    levels = {one: number for number, row in enumerate(design.levels) for one in row}
    agents = [msgspec.structs.asdict(agent) | {"level": levels[agent.id]} for agent in design.agents]
    return {"agents": agents, "edges": design.edges, "sink": design.sink, "thinking": design.thinking}


def _tree(episode: Episode) -> Any:
    """Return the decision tree of an episode of TMATR, or None."""
    if not episode.env_id.startswith("TMATR"):
        return None
    from toolorchestra.envs.tmatr.tree import decision_tree

    try:
        return msgspec.to_builtins(decision_tree(episode))
    except (ToolOrchestraError, KeyError):  # an episode that breaks the protocol's rules, as a foreign one may
        return None


def _token_texts(recording: RecordingFile, episode: Episode) -> list[list[str] | None] | None:
    """Return each turn's tokens as text, where the run has a tokenizer; None without token ids."""
    if recording.run is None or not any(turn.token_ids for turn in episode.turns):
        return None
    return [token_texts(recording.run, turn.agent, turn.token_ids or ()) for turn in episode.turns]
