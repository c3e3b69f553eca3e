"""Passwords in addresses: found, and blanked out of everything that is shown."""

from __future__ import annotations

import re

REMEDY = "Put the password in the environment variable PGPASSWORD or in the file ~/.pgpass"
_SECRETS = re.compile(r"((?:^|[?&;\s])\w*pass(?:word|wd)\s*=)[^&;\s]*", re.IGNORECASE)


def masked(address: str) -> str:
    """The address, however mistyped, without what may be a password: all from the first colon after the scheme to the last @."""
    address = _SECRETS.sub(r"\1***", address)
    head, at, tail = address.rpartition("@")
    if not at:
        return address
    scheme = re.match(r"\w[\w+.-]*:/*|", head)
    start = scheme.end() if scheme else 0
    user, colon, _ = head[start:].partition(":")
    if not head[:start].endswith("://"):
        return f"{head[:start]}***@{tail}"  # nobody knows which part is which
    return f"{head[:start]}{user}{':***' if colon else ''}@{tail}"


def has_password(address: str) -> bool:
    return bool(re.match(r"\w[\w+.-]*://[^/?@]*:[^@]*@", address)) or _SECRETS.search(address) is not None
