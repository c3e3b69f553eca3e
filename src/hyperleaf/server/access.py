"""Who may do what, and how much: what every request goes through before anything else looks at it.

The guard refuses names of other hosts (a page elsewhere that makes its own name lead here could read everything otherwise), asks
for the token or for the cookie that a browser got for it, lets nobody write from a page of another origin or by a plain form, and
bounds what a request may send and how long that may take. It puts headers on every answer that keep a browser strict.
"""

from __future__ import annotations

import asyncio
import hmac
import html
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from starlette.responses import HTMLResponse, JSONResponse, Response

from hyperleaf.server import tokens

Role = Literal["answer", "view"]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"  # of "": Plotly adds empty style elements and fills them
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {EMPTY_STYLE}",
        "style-src-attr 'unsafe-inline'",  # Plotly says so how images are drawn; no attribute comes from a study
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
LOOKING = ("GET", "HEAD")
HEAD = (  # with an icon of its own, for which no browser looks elsewhere
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    '<link rel="icon" href="data:,"><title>hyperleaf</title>'
)


@dataclass(frozen=True)
class Limits:
    """What one request, and all together, may take."""

    body: int = 2 * 2**20  # bytes
    points: int = 5000  # of one prediction
    seconds: float = 15.0  # until the whole request has arrived
    connections: int = 200
    listeners: int = 64  # to events


@dataclass(frozen=True)
class Access:
    """`token` None lets everybody on this machine in. `hosts` are the names by which the server may be called, at its own port;
    written name:port, at another one that leads here."""

    token: str | None
    hosts: frozenset[str]
    port: int
    secure: bool = False
    limits: Limits = field(default_factory=Limits)

    @property
    def view_token(self) -> str | None:
        return None if self.token is None else tokens.derived(self.token, "view")

    @property
    def cookie_name(self) -> str:
        return f"hyperleaf-{self.port}"  # browsers keep cookies by host, whatever the port

    def role_of_token(self, given: str) -> Role | None:
        return _matching(given, {"answer": self.token, "view": self.view_token})

    def role_of_cookie(self, given: str) -> Role | None:
        return _matching(given, {"answer": self.cookie("answer"), "view": self.cookie("view")})

    def cookie(self, role: Role) -> str | None:
        return None if self.token is None else tokens.derived(self.token, f"cookie {role}")

    def names(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name, _, port = host.rpartition(":") if host.rpartition(":")[2].isdigit() else (host, "", "")
        return host.lower() in self.hosts or ((name or host).lower() in self.hosts and port in ("", str(self.port)))


def _matching(given: str, known: dict[Role, str | None]) -> Role | None:
    """Every one is compared, in a time that does not depend on what was given."""
    found: Role | None = None
    for role, secret in known.items():
        if secret is not None and hmac.compare_digest(given.encode(), secret.encode()):
            found = role
    return found


class Guard:
    """An ASGI application around another one. What it lets through has its `role` in the state of the request."""

    def __init__(self, application: Any, access: Access) -> None:
        self.application, self.access = application, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        given = dict(headers)
        refused = self._refused(scope, given, [value for name, value in headers if name == "host"])
        strict = _with_headers(send)
        if refused is not None:
            await refused(scope, receive, strict)
            return
        try:
            body = b"" if scope["method"] in LOOKING else await self._body(receive, given)
        except _Refused as error:
            await error.response(scope, receive, strict)
            return
        await self.application(scope, _handed(body, receive), strict)

    # --- within

    def _refused(self, scope: Scope, headers: dict[str, str], hosts: list[str]) -> Response | None:
        """Why this request is not answered, as a response."""
        access = self.access
        if len(hosts) != 1 or not access.names(hosts[0]):
            return problem(
                421,
                "ForeignHost",
                "this server is not called by that name. Name it when it is started: --allow-host NAME, or NAME:PORT.",
            )
        writes = scope["method"] not in LOOKING
        if writes:
            origin = headers.get("origin")
            own = f"{'https' if access.secure else 'http'}://{hosts[0].lower()}"
            if (origin is not None and origin.lower() != own) or headers.get("sec-fetch-site", "same-origin") not in (
                "same-origin",
                "none",
            ):
                return problem(403, "ForeignOrigin", "only this server's own pages may change anything; this came from another.")
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return problem(415, "ContentType", "what is sent must be JSON. Say so: Content-Type: application/json.")
        role = self._role(scope, headers)
        if role is None:
            return self._exchange(scope) or _stranger(scope, headers)
        named = headers.keys() & {"authorization", "origin"} or headers.get("sec-fetch-site") == "same-origin"
        if writes and access.token is not None and not named:  # a browser names where it comes from
            return problem(403, "ForeignOrigin", "with a cookie the Origin must be given. Programs send the token instead.")
        scope.setdefault("state", {})["role"] = role
        return None

    def _role(self, scope: Scope, headers: dict[str, str]) -> Role | None:
        if self.access.token is None:
            return "answer"
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.access.role_of_token(given.strip())
        if "token" in parse_qs(scope["query_string"].decode("latin-1")):
            return None  # exchanged first, so that a link of another role is not overruled by a cookie
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.access.cookie_name)
        except CookieError:
            found = None
        return None if found is None else self.access.role_of_cookie(found.value)

    def _exchange(self, scope: Scope) -> Response | None:
        """A link with the token in it gives a browser its cookie, and leads to the same page without the token.

        By a page and not by a redirect: browsers leave out a strict cookie when the link was clicked in a mail.
        """
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        role = self.access.role_of_token(given)
        if role is None or scope["method"] != "GET":
            return None
        path = "/" + scope.get("raw_path", b"/").decode("latin-1").lstrip("/")
        where = html.escape(urlsplit(f"http://h{path}").path, quote=True)
        response = HTMLResponse(
            f'{HEAD}<meta http-equiv="refresh" content="0; url={where}"></head><body><a href="{where}">Go on</a></body></html>'
        )
        response.set_cookie(
            self.access.cookie_name,
            self.access.cookie(role) or "",
            httponly=True,
            samesite="strict",
            secure=self.access.secure,
            path="/",
        )
        return response

    async def _body(self, receive: Receive, headers: dict[str, str]) -> bytes:
        limits = self.access.limits
        large = problem(413, "TooLarge", f"a request may have up to {limits.body} bytes. Send it in parts.")
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > limits.body:
            raise _Refused(large)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Refused(problem(400, "Disconnected", "the request ended before it was whole."))
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limits.body:
                        raise _Refused(large)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            late = problem(408, "TooSlow", f"a request must arrive within {limits.seconds:g} s.")
            late.headers["connection"] = "close"
            raise _Refused(late) from None


class _Refused(Exception):
    def __init__(self, response: Response) -> None:
        self.response = response


def problem(status: int, kind: str, message: str) -> JSONResponse:
    """An error as clients read it."""
    return JSONResponse({"error": {"kind": kind, "message": message}}, status)


def _stranger(scope: Scope, headers: dict[str, str]) -> Response:
    words = "this server wants its token. Open the link that hyperleaf serve has printed, or send it as Authorization: Bearer …"
    if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
        return HTMLResponse(f"{HEAD}</head><body><main><h1>hyperleaf</h1><p>{html.escape(words)}</p></main></body></html>", 401)
    response = problem(401, "NoToken", words)
    response.headers["www-authenticate"] = "Bearer"
    return response


def _handed(body: bytes, receive: Receive) -> Receive:
    """The body, which was read already, and then what comes after it."""
    handed = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal handed
        if handed:
            return await receive()
        handed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send) -> Send:
    async def strict(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message.get("headers", [])}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in there]
            message["headers"] = [*message.get("headers", []), *more]
        await send(message)

    return strict
