"""A connection to SQLite or PostgreSQL: transactions that read one view or write alone, durable on return, and a schema brought
up to date on opening.

Within a process, one transaction at a time uses the one connection, which is closed before a fork and opened again when needed:
SQLite keeps its locks in memory per process, so that an inherited connection could lose data, even by being closed.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from hyperleaf.errors import InputError
from hyperleaf.storage.addresses import REMEDY, masked
from hyperleaf.storage.base import StorageError
from hyperleaf.storage.checks import to_json
from hyperleaf.storage.rows import from_json
from hyperleaf.storage.schema import REVISION, REVISION_TABLE

PATIENCE = 60.0  # seconds that a writer waits for its turn on a SQLite file
CONNECT_TIMEOUT = 10  # seconds for a PostgreSQL server to answer
MIGRATION_LOCK = 0x68796C66  # any number that is always the same: PostgreSQL's advisory locks are known by numbers


class Database:
    """`reading()` and `writing()` are transactions; whatever SQLAlchemy raises in them comes out as StorageError."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.address = url
        self._file: Path | None
        self.url, engine, self._file = _sqlite(url) if url.startswith("sqlite:") else _postgresql(url)
        if self._file is not None:
            _check_file(self._file, create)
        self._engine = engine
        self._reader: Engine = engine
        self._writer: Engine = engine.execution_options(hyperleaf_writes=True)
        if self._file is None:
            self._reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._writer = engine.execution_options(isolation_level="READ COMMITTED")
        self._lock = Lock()
        self.close = weakref.finalize(self, engine.dispose)
        _open_databases.add(self)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """All statements see the store as it was at one moment."""
        with self._transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """On disk when left, unless by an exception: then nothing happened. SQLite has one writer at a time; with PostgreSQL the
        writer locks the rows it must be alone with."""
        with self._transaction(self._writer) as connection:
            yield connection

    @contextmanager
    def _transaction(self, engine: Engine) -> Iterator[Connection]:
        if not self.close.alive:
            raise StorageError(f"The store {self.url} was closed. Open it again.")
        with self._lock:
            try:
                with self._begun(engine) as connection:
                    yield connection
                    connection.commit()
            except (SQLAlchemyError, sqlite3.Error) as error:
                raise self._explained(error) from error

    def _begun(self, engine: Engine) -> Connection:
        """A connection inside a transaction. SQLite's busy timeout does not cover every moment at which a file is locked, such as
        when the last process at it leaves; nothing has been done yet, so that trying again is safe."""
        deadline = time.monotonic() + PATIENCE
        while True:
            connection = None
            try:
                connection = engine.connect()
                connection.begin()
                if self._file:
                    connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").all()  # takes the view
                return connection
            except (OperationalError, sqlite3.OperationalError) as error:
                if connection is not None:
                    connection.close()
                if _sqlite_code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.02))

    # --- the schema

    def _prepare(self) -> None:
        with self.reading() as connection:
            if _revision(connection) == REVISION:
                return
            if self._file and _revision(connection) is None and inspect(connection).get_table_names():
                raise StorageError(f"{self._file} is a database of another program. Choose another file for studies.")
        if self._file:
            self._write_ahead()
        from hyperleaf.storage import migrations  # loads Alembic, which takes a while

        with self.writing() as connection:
            if not self._file:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            found = _revision(connection)  # again: another process may have been faster
            if found is not None and found not in migrations.known_revisions():
                raise StorageError(
                    f"{self.url} was written by a newer version of hyperleaf (schema {found!r}; this version knows up to "
                    f"{REVISION!r}). Upgrade hyperleaf."
                )
            if found != REVISION:
                migrations.upgrade(connection)

    def _write_ahead(self) -> None:
        """A property of the file, set once: readers do not wait for writers. Where the file system cannot do it, SQLite stays
        with its rollback journal, which is as durable."""
        with self._lock:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    with self._engine.connect() as connection:
                        cursor = connection.connection.cursor()  # not through SQLAlchemy, which would begin a transaction
                        cursor.execute("PRAGMA journal_mode=WAL")
                        cursor.close()
                        return
                except (SQLAlchemyError, sqlite3.Error) as error:
                    if _sqlite_code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                        raise self._explained(error) from error
                    time.sleep(random.uniform(0.001, 0.02))

    # --- errors

    def _explained(self, error: Exception) -> StorageError:
        cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        match _sqlite_code(error):
            case sqlite3.SQLITE_NOTADB:
                return StorageError(f"{self._file} is not a SQLite database. Choose another file for studies.")
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StorageError(
                    f"{self._file} has been locked by another process for {PATIENCE:.0f} s. End it, or try again."
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN:
                remedy = "Check that this user may write to the file and to its folder."
            case sqlite3.SQLITE_FULL:
                remedy = "Make room on the disk."
            case sqlite3.SQLITE_CORRUPT:
                remedy = "The file was damaged by something else than hyperleaf; restore it from a copy."
            case None if isinstance(error, OperationalError) and "password" in cause:
                remedy = f"{REMEDY}."
            case None if isinstance(error, OperationalError):
                remedy = "Check that the server runs, and the host, port, user, password and database in the address."
            case _:
                remedy = "Nothing was written."
        return StorageError(f"The store {self.url} cannot be used: {cause}. {remedy}")


# --- engines


def _sqlite(url: str) -> tuple[str, Engine, Path]:
    match = re.fullmatch(r"sqlite:///([^\0]+)", url, re.DOTALL)
    if match is None or match[1] == ":memory:":
        raise InputError(
            f"The address of a SQLite store is sqlite:///FILE.db (relative) or sqlite:////FOLDER/FILE.db; got {masked(url)!r}"
        )
    if re.search(r"\?\w+=[^/]*$", url):
        raise InputError(f"A SQLite store takes no options after a question mark; got {masked(url)!r}")
    file = Path(os.path.abspath(match[1]))  # a later chdir must not lead elsewhere

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(file, timeout=5, isolation_level=None, check_same_thread=False)
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


def _check_file(file: Path, create: bool) -> None:
    if not file.parent.is_dir():
        raise StorageError(f"The folder {file.parent} for the store {file.name} does not exist. Create it first.")
    if file.is_dir():
        raise StorageError(f"{file} is a folder; a SQLite store is a file. Name a file in it.")
    if not create and not file.exists():
        raise StorageError(f"There is no store {file}. Check the path, or create a study first.")


_POSTGRESQL = "The address of a PostgreSQL store is postgresql://USER@HOST:PORT/DATABASE"


def _postgresql(url: str) -> tuple[str, Engine, None]:
    try:
        address: URL = make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise InputError(_POSTGRESQL) from None
    if "@" in (address.host or "") or "@" in (address.database or ""):  # else a part of the password would be shown as a host
        raise InputError(f"{_POSTGRESQL}; got one with two @. In a user or a password write %40 for @. {REMEDY}.")
    arguments: dict[str, Any] = {} if "connect_timeout" in address.query else {"connect_timeout": CONNECT_TIMEOUT}
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
        connection.commit()

    return masked(address.set(drivername="postgresql").render_as_string(hide_password=True)), engine, None


def _revision(connection: Connection) -> str | None:
    """Of the schema that is there; None if there is none."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {REVISION_TABLE}").scalar()


def _sqlite_code(error: Exception) -> int | None:
    """SQLite's primary result code, if the error came from there."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


# --- forks

_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_forking = Lock()
_held: list[Database] = []


def _before_fork() -> None:
    _forking.acquire()
    for database in list(_open_databases):
        database._lock.acquire()  # waits for the transaction of another thread
        _held.append(database)
        database._engine.dispose()


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
