"""Runs the application: on loopback with a token of its own, elsewhere only with TLS or behind a proxy that has it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hyperleaf.errors import InputError
from hyperleaf.server import tokens
from hyperleaf.server.access import Access, Limits
from hyperleaf.server.application import Application
from hyperleaf.server.studies import Studies
from hyperleaf.storage.base import Storage

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
GRACE = 2  # seconds that open streams and requests have when the server ends


@dataclass(frozen=True)
class Settings:
    """How a server is reached. `token_file` keeps one token over starts; `proxy` says that TLS ends before this server."""

    host: str = "127.0.0.1"
    port: int = 8765
    token_file: Path | None = None
    no_token: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    proxy: bool = False
    allow_hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Refuse what would be open to others."""
        if not 0 <= self.port <= 65535:
            raise InputError(f"a port must be a number from 0 to 65535; got {self.port}.")
        if (self.tls_key is None) != (self.tls_cert is None):
            raise InputError("TLS needs a certificate and its key; got one of them. Say --tls-cert FILE --tls-key FILE.")
        for file in (self.tls_cert, self.tls_key):
            if file is not None and not file.is_file():
                raise InputError(f"TLS needs files that are there; there is no {file}.")
        if is_loopback(self.host):
            return
        if self.no_token:
            raise InputError(
                f"a server that others can reach needs its token; got --no-token with --host {self.host}. Leave it out."
            )
        if self.tls_cert is None and not self.proxy:
            raise InputError(
                f"a server that others can reach needs TLS, or its token could be read on the way; got --host {self.host}. Say "
                "--tls-cert FILE --tls-key FILE, or --behind-proxy if a proxy of yours ends TLS, or reach this machine by ssh -L."
            )


class Server:
    """A server that is ready to run; `url` is a link with the token in it."""

    def __init__(
        self, storage: Storage, settings: Settings, folder: Path | str = ".", names: tuple[str, ...] | None = None
    ) -> None:
        settings.check()
        self.settings = settings
        self.studies = Studies(storage, folder, names)
        self.socket = _bound(settings)
        port = self.socket.getsockname()[1]
        if settings.no_token:
            token = None
        elif settings.token_file is not None:
            token = tokens.read_or_make(settings.token_file)
        else:
            token = tokens.new()
        own = () if settings.host in ("0.0.0.0", "::") else (settings.host.lower(),)
        hosts = LOOPBACK | {*own, *(name.lower() for name in settings.allow_hosts)}
        self.access = Access(token, hosts, port, settings.tls_cert is not None or settings.proxy, settings.limits)
        self.application = Application(self.studies, self.access)
        config = uvicorn.Config(
            self.application.guarded(),
            http=Patient,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=settings.limits.connections,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=32 * 1024,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        self._server = _Uvicorn(config)

    @property
    def address(self) -> str:
        host = self.settings.host
        shown = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host
        scheme = "https" if self.settings.tls_cert is not None else "http"
        return f"{scheme}://{shown}:{self.access.port}"

    def link(self, token: str | None) -> str:
        return f"{self.address}/" if token is None else f"{self.address}/?token={token}"

    @property
    def url(self) -> str:
        return self.link(self.access.token)

    @property
    def view_url(self) -> str:
        return self.link(self.access.view_token)

    def run(self, started: Callable[[], Any] | None = None) -> None:
        """Until it is told to stop: by Ctrl-C, by a signal, or by `stop`."""
        kept = self.access.token if self.settings.token_file is None else None
        path = tokens.path_of(self.access.port)
        if self.access.token is not None:
            tokens.keep(path, self.access.token)  # for clients of the same user on this machine
        self._server.started_with = started
        try:
            with contextlib.suppress(KeyboardInterrupt):  # the usual end
                self._server.run([self.socket])
        finally:
            if kept is not None:
                tokens.forget(path, kept)

    def stop(self) -> None:
        self.application.ends = True
        self._server.should_exit = True

    @contextlib.contextmanager
    def in_background(self) -> Iterator[Server]:
        """In a thread of this process."""
        ready = threading.Event()
        thread = threading.Thread(target=self.run, args=(ready.set,), name="hyperleaf-server", daemon=True)
        thread.start()
        if not ready.wait(60):
            raise RuntimeError("the server did not start")
        try:
            yield self
        finally:
            self.stop()
            thread.join(30)


class _Uvicorn(uvicorn.Server):
    """Says when it has started; signals are its own only in the main thread."""

    started_with: Callable[[], Any] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started_with is not None:
            self.started_with()


class Patient(H11Protocol):
    """A connection that has to say what it wants within a time: one that sends a letter now and then is closed."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waits = self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if waits:
            self._watch()
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self._deadline is None:
            guard: Any = self.app
            self._deadline = self.loop.call_later(guard.access.limits.seconds, self._close)

    def _close(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(settings: Settings) -> socket.socket:
    """A socket at the address, or an error that says what is there already."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named asyncio sends at once; else the second part of an answer waits 40 ms to be acknowledged.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
        found.listen(256)
    except OSError as error:
        found.close()
        raise InputError(
            f"a server needs a free port; {settings.host}:{settings.port} cannot be used ({error.strerror}). "
            "Choose another: --port."
        ) from None
    return found
