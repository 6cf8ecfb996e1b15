"""How a user without a language model reads messages: questions, reports, and requests to use a tool.

It recognises phrases, not meaning, and is conservative: it gives facts only for recognised questions, and ends the
dialogue only after a recognised report. `ScriptedUser` and fault attribution use the same rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from toolorchestra.envs.dialogue.request_facts import ORDINALS, RequestFact
from toolorchestra.toolscale.tasks.task import Call

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]*", re.DOTALL)
_ASKING = re.compile(
    r"\b(?:(?:tell|give|send) (?:me|us)|let (?:me|us) know|provide|share|specify|state"
    r"|i (?:also |still )?need (?:the|your|to know)|i(?:'d| would) need)\b",
    re.IGNORECASE,
)
_WHOLE = r"(?:everything|all(?: of (?:it|this|that))?|your (?:request|task)|the (?:request|task))"
_DONE = re.compile(
    rf"\b(?:that(?:'s| is) (?:all|everything)|{_WHOLE} (?:is|was|has been|has now been) (?:now )?"
    r"(?:done|set|settled|completed?|finished|met|taken care of|arranged)|all (?:done|set)"
    r"|(?:completed|finished|done|fulfilled|settled) (?:everything|all of it|it all|(?:your|the) (?:request|task))"
    r"|nothing (?:else|more|further) (?:is |remains )?(?:to (?:be )?do(?:ne)?|can be done))\b",
    re.IGNORECASE,
)
_NOT_YET = re.compile(r"\b(?:not|n't|once|when|if|until|before|after|will|soon|almost|nearly|unless)\b|n't\b", re.I)
_YES = re.compile(r"\W*(?:yes|yeah|yep|correct|indeed|right|it is|certainly|of course)\b", re.IGNORECASE)
_ARGUMENT = re.compile(r"\s*([A-Za-z_]\w*)=")
_COMMA = re.compile(r"\s*(?:,|(?=\)))")
_END = re.compile(r"\s*\)")
_JSON = json.JSONDecoder()


def questions(text: str) -> list[str]:
    """Return the sentences of a text that ask for something.

    >>> questions("I found the order. For which date is it? Please tell me the customer.")
    ['For which date is it?', 'Please tell me the customer.']
    """
    sentences = (sentence.strip() for sentence in _SENTENCE.findall(text))
    return [sentence for sentence in sentences if sentence.endswith("?") or _ASKING.search(sentence)]


def requested_facts(text: str, facts: Sequence[RequestFact]) -> list[RequestFact]:
    """Return the facts that the questions of a text ask for.

    "Which chef?" asks for every chef among the facts, "the second chef" for that one.
    """
    phrases = sorted({phrase for fact in facts for phrase in fact.words}, key=len, reverse=True)
    asking = " ".join(questions(text)).lower()
    if not phrases or not asking:
        return []
    pattern = rf"\b(?:({'|'.join(ORDINALS)}) )?({'|'.join(map(re.escape, phrases))})(?:e?s)?\b"
    found = set(re.findall(pattern, asking))
    return [fact for fact in facts if any(phrase in fact.words and _is(number, fact) for number, phrase in found)]


def _is(ordinal: str, fact: RequestFact) -> bool:
    return not ordinal or fact.label == f"{ordinal} {fact.noun}" or (ordinal == "first" and fact.label == fact.noun)


def reports_done(text: str, *, after_question: bool = False) -> bool:
    """Return whether a text says that everything is done, or, if that has just been asked, says yes.

    >>> reports_done("The bill is $12. Everything is done."), reports_done("Once everything is done I tell you.")
    (True, False)
    """
    for sentence in _SENTENCE.findall(text):
        if not sentence.strip().endswith("?") and _DONE.search(sentence) and not _NOT_YET.search(sentence):
            return True
    return after_question and _YES.match(text) is not None


def asks_if_done(text: str) -> bool:
    """Return whether a text asks whether everything is done."""
    return any("done" in question.lower() for question in questions(text))


def requests(text: str, tools: Collection[str]) -> list[Call]:
    """Return the calls of `tools` that a text asks for, where they can be read; values are JSON.

    >>> requests('Please call pay_bill(order="O1001", amount=12.5) now.', ["pay_bill"])
    [Call(name='pay_bill', arguments={'order': 'O1001', 'amount': 12.5}, stage=0)]
    """
    calls = (match for match in re.finditer(r"\b(\w+)\(", text) if match[1] in tools)
    read = ((call[1], _arguments(text, call.end())) for call in calls)
    return [Call(name, arguments) for name, arguments in read if arguments is not None]


def request(call: Call) -> str:
    """Return a call as `requests` reads it.

    >>> request(Call("pay_bill", {"order": "O1001", "amount": 12.5}))
    'pay_bill(order="O1001", amount=12.5)'
    """
    given = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(given)})"


def _arguments(text: str, place: int) -> dict[str, Any] | None:
    """Return the arguments that stand at a place, up to the closing parenthesis."""
    arguments: dict[str, Any] = {}
    while not _END.match(text, place):
        name = _ARGUMENT.match(text, place)
        if name is None:
            return None
        try:
            arguments[name[1]], place = _JSON.raw_decode(text, name.end())
        except (ValueError, RecursionError):
            return None
        comma = _COMMA.match(text, place)
        if comma is None:
            return None
        place = comma.end()
    return arguments
