"""Tokens of servers: made at each start, kept where only the user who started it can read them, and found again by clients.

A server's own token lets people and programs answer. Those who may only look have another one that follows from it; so does what
a browser keeps as its cookie, which is thereby worth nothing as a token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from hyperleaf.errors import InputError

VARIABLE = "HYPERLEAF_TOKEN"
LEAST = 16  # characters of a token that somebody chose


def folder() -> Path:
    """Where tokens of this user's servers are kept."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "hyperleaf"


def path_of(port: int) -> Path:
    """Of the token of the server at a port of this machine."""
    return folder() / f"serve-{port}.token"


def new() -> str:
    return secrets.token_urlsafe(32)


def derived(token: str, purpose: str) -> str:
    """Another secret that follows from the token, and from which the token does not."""
    digest = hmac.new(token.encode(), f"hyperleaf {purpose}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def keep(path: Path, token: str) -> None:
    """Write the token to a new file that its owner alone can read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    os.replace(unfinished, path)


def forget(path: Path, token: str) -> None:
    """Remove the file, unless another server has put its own token there."""
    try:
        if path.read_text().strip() == token:
            path.unlink()
    except OSError:
        pass


def read_or_make(path: Path) -> str:
    """The token in a file of the user's choice, which outlives a start; made if it is not there."""
    if not path.exists():
        keep(path, new())
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InputError(f"a token must be readable by its owner alone; {path} is not. Say: chmod 600 {path}")
    token = path.read_text().strip()
    if len(token) < LEAST or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"a token must be {LEAST} ASCII characters or more without spaces; that in {path} is not.")
    return token


def find(host: str, port: int) -> str | None:
    """The token for a server: from the environment, or kept by a server of the same user on this machine."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    if host not in ("localhost", "127.0.0.1", "::1"):
        return None
    try:
        return path_of(port).read_text().strip() or None
    except OSError:
        return None
