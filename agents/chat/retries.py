"""Which refusals of a server may pass, and how long to wait before the next attempt.

They follow the official clients: statuses 408, 409, 429 and 5xx are tried again, with exponential backoff, or when the
server says so.
"""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Mapping

import msgspec

from toolorchestra.agents.chat.bounded_requests import Response

_FIRST_PAUSE, _MAX_PAUSE = 0.5, 8.0
"""Seconds before another attempt, doubled each time."""
_MAX_RETRY_AFTER = 120.0
"""Seconds that a server may ask to wait for in ``Retry-After``; if it asks for more, the request fails."""


def message(response: Response) -> str:
    """Return what a server says about its refusal, in OpenAI's form or one of its own."""
    try:
        body = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return response.content[:300].decode(errors="replace") or response.reason
    found = body.get("error") or body if isinstance(body, dict) else body
    if isinstance(found, dict) and isinstance(found.get("message"), str):
        return str(found["message"])
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


def may_pass(response: Response) -> bool:
    """Return whether a request that a server refused may be sent again; it can say so itself."""
    wanted = response.headers.get("x-should-retry")
    if (after := retry_after(response.headers)) is not None and after > _MAX_RETRY_AFTER:
        return False
    if wanted in ("true", "false"):
        return wanted == "true"
    return response.status in (408, 409, 429) or response.status >= 500


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds for which a server asks to wait, which it gives as a number or as a date."""
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers[name]) / divisor
        except (KeyError, ValueError):
            continue
        if not math.isnan(seconds):
            return seconds
    try:
        return float(email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def pause(attempt: int, headers: Mapping[str, str]) -> float:
    """Return the seconds to wait before the next attempt; some at random, so that not all come back at once."""
    after = retry_after(headers)
    if after is not None and 0 < after <= _MAX_RETRY_AFTER:
        return after
    return min(_FIRST_PAUSE * 2.0**attempt, _MAX_PAUSE) * random.uniform(0.75, 1.0)
