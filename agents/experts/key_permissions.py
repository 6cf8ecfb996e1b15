"""Which keys a catalogue may have sent where: a file from someone else must not send your keys to its author.

A key goes to the company that its variable is named after (``TOGETHER_API_KEY`` to ``api.together.xyz``), or to this
machine. Any other variable must be allowed by you, in `ALLOWED`, which no file can set.
"""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import urlsplit

ALLOWED = "TOOLORCHESTRA_CATALOG_KEYS"
"""Environment variable with the names of those variables whose keys catalogues may have sent anywhere."""
_KEY = re.compile(r"([A-Z][A-Z0-9_]*)_API_KEY")
_GENERIC = frozenset(("co", "com", "net", "org", "ac", "edu", "gov"))  # as in company.co.uk


def key_fault(variable: str, url: str) -> str | None:
    """Return why a catalogue may not have the key in an environment variable sent to a URL; None if it may.

    >>> key_fault("TOGETHER_API_KEY", "https://api.together.xyz/v1")
    >>> print(key_fault("OPENAI_API_KEY", "https://openai.example.net/v1"))  # doctest: +ELLIPSIS
    Expected EXAMPLE_API_KEY for example.net, found OPENAI_API_KEY: ...
    """
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # no URL; nothing can be sent there
        host = ""
    if variable in re.split(r"[\s,]+", os.environ.get(ALLOWED, "")) or _is_this_machine(host):
        return None
    labels = host.split(".")
    generic = len(labels) > 2 and labels[-2] in _GENERIC
    company = labels[-3] if generic else labels[-2] if len(labels) > 1 else host
    named = _KEY.fullmatch(variable)
    if named and named[1].replace("_", "") == company.replace("-", "").upper():
        return None
    expected = f"{company.replace('-', '_').upper()}_API_KEY" if re.fullmatch(r"[a-z][a-z0-9-]*", company) else "no key"
    place = host if expected == "no key" else ".".join(labels[-3 if generic else -2 :])
    return (
        f"Expected {expected} for {place or repr(url)}, found {variable}: a catalogue could send any of your keys to "
        f"its author. If you trust this one with {variable}: export {ALLOWED}={variable}"
    )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
