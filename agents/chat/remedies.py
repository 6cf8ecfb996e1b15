"""What to do about a request that failed, with options by the names under which the user knows them.

Whoever makes a client for users of a command line or of a catalogue says how these call its options; what they cannot
set is not proposed to them.
"""

from __future__ import annotations

from collections.abc import Mapping

_CORRECT = (("correct the request: its messages, tools or sampling settings",), ("leave fields out with {}", "extra"))
_LOG = ("look at the server's log",)
_RECOVERS = (_LOG, ("raise {} if it recovers by itself", "max_retries"))
_REMEDIES: dict[int | str, tuple[tuple[str, ...], ...]] = {
    400: _CORRECT,
    401: (("set {}", "api_key", "api_key_env"),),
    403: (("use a key that may ask this model",),),
    404: (("correct {}", "model", "base_url"),),
    413: _CORRECT,
    422: _CORRECT,
    429: (("lower {}", "max_concurrency"), ("raise {}", "max_retries")),
    500: _RECOVERS,
    "timeout": (
        ("raise {}", "timeout"),
        ("lower {}", "max_concurrency", "max_tokens"),
        ("have long answers sent with {}", "stream"),
    ),
    "deadline": (("raise {}", "deadline"), ("lower {}", "max_tokens")),
    "unreachable": (("start it or correct {}", "base_url"), ("of one that was running, see the log",)),
    "broken off": _RECOVERS,
    "unreadable": (("check that {} is the server's OpenAI-compatible root, mostly ending in /v1", "base_url"), _LOG),
    "budget": (("raise {} or call meter.reset()", "budget"),),
    "logprobs": (("leave out {}", "stream"), ("update the server",)),
    "length": (("raise {}", "max_tokens"), ("have it think less, e.g. by its reasoning_effort",)),
}
"""By the status of a refusal or what went wrong: phrases, and the options that each is about."""


def remedy(about: int | str, names: Mapping[str, str] | None = None) -> str:
    """Return what to do as a sentence, or an empty text; without `names` options are arguments of `OpenAIChat`.

    >>> remedy(429)
    'Lower max_concurrency=; raise max_retries=.'
    >>> remedy(429, {"max_concurrency": "--in-flight"})
    'Lower --in-flight.'
    """
    if about not in _REMEDIES and isinstance(about, int) and about >= 500:
        about = 500
    said = []
    for phrase, *options in _REMEDIES.get(about, ()):
        named = [name for option in options if (name := option_name(option, names))]
        if named or not options:
            said.append(phrase.format(" or ".join(named)))
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def option_name(option: str, names: Mapping[str, str] | None = None) -> str | None:
    """Return how the user calls an option, or None if there is no such option for this user."""
    return f"{option}=" if names is None else names.get(option)
