"""Users of τ²-bench's tasks, which have a scenario of their own: the reason for the call, what is known, and wishes.

The scripted user of such a task reads out what τ²-bench tells it, word for word: the reason first, and the rest when it
is asked for it. Its words are in `told_scenario.yaml`. It does not act as its instructions say ("if the agent refuses,
…"): no rule reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolorchestra.envs.dialogue.request_facts import RequestFact
from toolorchestra.envs.dialogue.scenario import Reveal
from toolorchestra.toolscale.common.yaml_reader import read_yaml
from toolorchestra.toolscale.export.exchange_rows import tau2_instruction

_WORDS: Mapping[str, Any] = read_yaml(Path(__file__).with_name("told_scenario.yaml"))


def told_request(told: Mapping[str, str], reveal: Reveal) -> tuple[tuple[RequestFact, ...], str]:
    """Return what a user knows that was told a scenario of τ²-bench, and its first request.

    >>> told = {"reason_for_call": "You want to cancel order #W1.", "known_info": "You are Mia Li."}
    >>> facts, request = told_request(told, "asked")
    >>> request
    'I read out what I was told: "You want to cancel order #W1." [note about me]'
    >>> facts[0].label, facts[0].value
    ('note about me', '"You are Mia Li."')
    """
    facts = []
    for kind in _WORDS["facts"]:
        if text := " ".join(" ".join(told[key].split()) for key in kind["keys"] if key in told):
            facts.append(_fact(kind, f'"{text}"'))
    shown = told["reason_for_call"] if reveal == "asked" else tau2_instruction(dict(told))
    request = _WORDS["request"].format(text=shown.strip())
    if reveal == "asked":
        request = " ".join([request, *(f"[{fact.label}]" for fact in facts)])
    return (*facts, _fact(_WORDS["confirmation"], _WORDS["confirmation"]["value"])), request


def _fact(kind: Mapping[str, Any], value: str) -> RequestFact:
    return RequestFact(kind["label"], value, kind["label"], (kind["label"], *kind["words"]))
