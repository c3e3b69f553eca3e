"""Requests to a server: sent again with the same key until they are answered, or the patience ends; nothing is done twice.

The standard library's HTTP is enough, so that a worker needs nothing else.
"""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hyperleaf import errors
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.server import tokens
from hyperleaf.simulators.durations import parse_duration
from hyperleaf.storage import base
from hyperleaf.storage.base import UnreachableError

log = logging.getLogger(__name__)
AGAIN = (408, 502, 503, 504)  # answers after which the same request may do better


class ServerError(HyperleafError, RuntimeError):
    """A server refused a request, for a reason that is none of the study's."""


class Connection:
    """Requests to one server; each thread has a connection of its own, which is kept open."""

    def __init__(self, url: str, token: str | None, patience: float | str) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"a server is named as http://host:port; got {url!r:.200}.")
        self.secure, self.host = parts.scheme == "https", parts.hostname
        self.port = parts.port or (443 if self.secure else 80)
        self.address, self.path = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path
        given = token or parse_qs(parts.query).get("token", [None])[0]
        self._find = (lambda: given) if given else (lambda: tokens.find(self.host, self.port))
        self.token, self.patience = self._find(), parse_duration(patience, "patience")
        self._own = threading.local()

    def request(self, method: str, path: str, values: Mapping[str, Any] | None = None, *, once: bool = False) -> bytes:
        """The answer, waited for with patience; `once` marks what is not to be done twice."""
        body = None if values is None else _json({k: v for k, v in values.items() if v is not None})
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": uuid.uuid4().hex} if once else {})
        since, pause, said = time.monotonic(), 0.2, False
        while True:
            try:
                status, content = self._sent(method, path, body, headers)
            except ssl.SSLCertVerificationError as error:  # waiting does not help
                raise ServerError(
                    f"the certificate of {self.address} must be trusted; it is not ({error}). One of yours: SSL_CERT_FILE=FILE."
                ) from None
            except (OSError, http.client.HTTPException) as error:
                status, content = 503, _json({"error": {"kind": "UnreachableError", "message": str(error) or repr(error)}})
            found = self._find()
            if status == 401 and found != self.token:  # the server was started anew
                self.token = found
                continue
            if status not in AGAIN:
                return _checked(status, content)
            if time.monotonic() - since + pause > self.patience:
                _checked(status, content, self.address)
            if not said:
                log.warning("%s does not answer; it is asked again for up to %s.", self.address, _span(self.patience))
            said = True
            time.sleep(pause)
            pause = min(1.6 * pause, 10.0)

    def close(self) -> None:
        """The connection of this thread; the next request opens another."""
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._own.connection = None

    def _sent(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        given = {**headers, **({} if self.token is None else {"Authorization": f"Bearer {self.token}"})}
        connection = getattr(self._own, "connection", None)
        if connection is None:
            kind: Any = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
            more = {"context": ssl.create_default_context()} if self.secure else {}
            connection = self._own.connection = kind(self.host, self.port, timeout=600, **more)
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except BaseException:
            self.close()
            raise


def _json(values: Any) -> bytes:
    """Values as they are sent; those of NumPy are numbers too."""
    try:
        return json.dumps(values, allow_nan=False, default=lambda value: value.tolist()).encode()
    except AttributeError:
        raise InputError(f"what is sent must be numbers and texts; got an object of another type in {values!r:.200}.") from None
    except ValueError:
        raise InputError(
            f"numbers that are sent must be finite; got {values!r:.200}. If a run failed, say so: tell_failed."
        ) from None


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 90 else f"{seconds / 60:.3g} min"


def _checked(status: int, content: bytes, address: str = "") -> bytes:
    """The content, or the error that it is, of the class that the server raised."""
    if status < 400:
        return content
    try:
        found = json.loads(content)["error"]
        kind, message = str(found["kind"]), str(found["message"])
    except (ValueError, KeyError, TypeError):
        kind, message = "", content[:200].decode("utf-8", "replace")
    if kind == "UnreachableError" and address:
        raise UnreachableError(f"the server {address} does not answer ({message}). Check that it runs: hyperleaf serve.")
    known = getattr(base, kind, None) or getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, HyperleafError):
        raise known(message)
    raise ServerError(f"{message} ({status})")
