"""Credentials in URLs: they are used, and neither shown nor recorded."""

from __future__ import annotations

import re

_USER = re.compile(r"://[^\s/?#@'\"]{1,1000}@")
_SECRET = re.compile(
    r"([?&](?:[\w.-]{0,30}(?:key|token|secret|password|passwd|signature|auth)|sig|pwd|code)=)[^&\s#'\")]+",
    re.IGNORECASE,
)


def without_credentials(text: str) -> str:
    """Return a text whose URLs name no user, no password, and no value of a parameter that sounds like a secret.

    >>> without_credentials("http://ada:pass@localhost:8000/v1?api_key=sk-1&page=2 does not answer.")
    'http://localhost:8000/v1?api_key=…&page=2 does not answer.'
    """
    return _SECRET.sub(r"\1…", _USER.sub("://", text)) if "://" in text else text
