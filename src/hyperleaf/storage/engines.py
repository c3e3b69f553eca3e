"""How SQLite and PostgreSQL are connected to, and how long a server may take to answer."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from hyperleaf.errors import InputError
from hyperleaf.storage.addresses import REMEDY, masked
from hyperleaf.storage.base import NoStoreError, StorageError
from hyperleaf.storage.checks import to_json
from hyperleaf.storage.rows import from_json

ANSWER_TIMEOUT = 60.0  # seconds for a server to do what it is asked
LINE = {  # how a dead line to a server is noticed: seconds to connect, and keepalives after 10 s of silence
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}


class Watch:
    """Hangs up on a server that takes a statement and never answers, as behind a proxy that went silent: keepalives do not
    notice that, and PostgreSQL's own timeouts are the server's."""

    def __init__(self, engine: Engine) -> None:
        self._line: Any = None

        @event.listens_for(engine, "connect")
        def connected(connection: Any, _: Any) -> None:
            self._line = connection

    @contextmanager
    def __call__(self) -> Iterator[None]:
        timer = Timer(ANSWER_TIMEOUT, self._hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        with suppress(Exception):  # it may have ended by itself at this moment
            line = socket.socket(fileno=os.dup(self._line.fileno()))
            try:
                line.shutdown(socket.SHUT_RDWR)
            finally:
                line.close()


def sqlite(url: str) -> tuple[str, Engine, Path]:
    match = re.fullmatch(r"sqlite:///([^\0]+)", url, re.DOTALL)
    if match is None or match[1] == ":memory:":
        raise InputError(
            f"The address of a SQLite store is sqlite:///FILE.db (relative) or sqlite:////FOLDER/FILE.db; got {masked(url)!r}"
        )
    if re.search(r"\?\w+=[^/]*$", url):
        raise InputError(f"A SQLite store takes no options after a question mark; got {masked(url)!r}")
    file = Path(os.path.abspath(match[1]))  # a later chdir must not lead elsewhere

    made: list[bool] = []

    def connect() -> sqlite3.Connection:
        # Once there, never made anew: a file that was deleted is to be missed.
        mode = "rw" if made else "rwc"
        place = f"file:{quote(os.fsencode(file))}?mode={mode}"
        connection = sqlite3.connect(place, uri=True, timeout=5, isolation_level=None, check_same_thread=False)
        made.append(True)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    engine = create_engine(
        "sqlite://",
        creator=connect,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        json_serializer=to_json,
        json_deserializer=from_json,
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes its lock at once: one that reads first and then wants to write could be refused in the middle.
        writes = connection.get_execution_options().get("hyperleaf_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return f"sqlite:///{file}", engine, file


def check_file(file: Path, create: bool) -> None:
    if not file.parent.is_dir():
        raise StorageError(f"The folder {file.parent} for the store {file.name} does not exist. Create it first.")
    if file.is_dir():
        raise StorageError(f"{file} is a folder; a SQLite store is a file. Name a file in it.")
    if not create and not file.exists():
        raise NoStoreError(f"There is no store {file}. Check the path, or create a study first.")


_POSTGRESQL = "The address of a PostgreSQL store is postgresql://USER@HOST:PORT/DATABASE"


def postgresql(url: str) -> tuple[str, Engine, None]:
    try:
        address: URL = make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise InputError(_POSTGRESQL) from None
    if "@" in (address.host or "") or "@" in (address.database or ""):  # else a part of the password would be shown as a host
        raise InputError(f"{_POSTGRESQL}; got one with two @. In a user or a password write %40 for @. {REMEDY}.")
    arguments = {key: value for key, value in LINE.items() if key not in address.query}
    try:
        engine = create_engine(
            address,
            connect_args=arguments,
            pool_size=1,
            max_overflow=0,
            pool_pre_ping=True,
            json_serializer=to_json,
            json_deserializer=from_json,
        )
    except (ArgumentError, ValueError):
        raise InputError(_POSTGRESQL) from None
    except ImportError as error:
        raise StorageError("A PostgreSQL store needs psycopg: pip install 'hyperleaf[postgres]'.") from error

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        # A server may be set to acknowledge before it has written; not for us.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
            )
            limit = str(round(1000 * ANSWER_TIMEOUT))
            cursor.execute("SELECT set_config('statement_timeout', %s, false)", (limit,))
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (limit,))
        connection.commit()

    return masked(address.set(drivername="postgresql").render_as_string(hide_password=True)), engine, None
