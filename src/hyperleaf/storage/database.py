"""A connection to SQLite or PostgreSQL: transactions that read one view or write alone, durable on return, and a schema brought
up to date on opening.

Within a process, one transaction at a time uses the one connection, which is closed before a fork and opened again when needed:
SQLite keeps its locks in memory per process, so that an inherited connection could lose data, even by being closed.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from hyperleaf.storage.addresses import REMEDY
from hyperleaf.storage.base import LostStoreError, StorageError, UnreachableError
from hyperleaf.storage.engines import Watch, check_file, postgresql, sqlite
from hyperleaf.storage.presence import Identity, identity_of, lost
from hyperleaf.storage.schema import REVISION, REVISION_TABLE

log = logging.getLogger(__name__)
PATIENCE = 60.0  # seconds that a writer waits for its turn on a SQLite file
MIGRATION_LOCK = 0x68796C66  # any number that is always the same: PostgreSQL's advisory locks are known by numbers


class Database:
    """`reading()` and `writing()` are transactions; whatever SQLAlchemy raises in them comes out as StorageError."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.address = url
        self._file: Path | None
        self.url, engine, self._file = sqlite(url) if url.startswith("sqlite:") else postgresql(url)
        if self._file is not None:
            check_file(self._file, create)
        self._engine = engine
        self._reader: Engine = engine
        self._writer: Engine = engine.execution_options(hyperleaf_writes=True)
        if self._file is None:
            self._reader = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            self._writer = engine.execution_options(isolation_level="READ COMMITTED")
        self._lock = Lock()
        self._identity: Identity | None = None
        self._lost: LostStoreError | None = None
        self._watch = nullcontext if self._file is not None else Watch(engine)
        self.close = weakref.finalize(self, engine.dispose)
        _open_databases.add(self)
        try:
            self._prepare()
            if self._file is not None:
                self._identity = identity_of(self._file)
        except BaseException:
            self.close()
            raise

    def now(self) -> float:
        """By the server's clock; a file has that of the machine."""
        if self._file is not None:
            return time.time()
        with self.reading() as connection:
            return float(connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0.0)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """All statements see the store as it was at one moment."""
        with self._transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def writing(self, afterwards: Callable[[], None] | None = None) -> Iterator[Connection]:
        """On disk when left, unless by an exception: then nothing happened. SQLite has one writer at a time; with PostgreSQL the
        writer locks the rows it must be alone with. `afterwards` is called once it is on disk, before the next transaction."""
        with self._transaction(self._writer, afterwards) as connection:
            yield connection

    @contextmanager
    def _transaction(self, engine: Engine, afterwards: Callable[[], None] | None = None) -> Iterator[Connection]:
        if not self.close.alive:
            raise StorageError(f"The store {self.url} was closed. Open it again.")
        with self._lock, self._watch():
            try:
                self._check_there()
                with self._begun(engine) as connection:
                    yield connection
                    connection.commit()
                if afterwards is not None:
                    afterwards()
                self._check_there()  # else what was written went to a file that nobody will find
            except (SQLAlchemyError, sqlite3.Error) as error:
                raise self._explained(error) from error

    def _check_there(self) -> None:
        """A file that was deleted, or replaced by another one, is noticed before and after each transaction."""
        if self._lost is not None:
            raise self._lost
        if self._file is None or self._identity is None or identity_of(self._file) == self._identity:
            return
        pooled = self._engine.pool.checkedin()  # type: ignore[attr-defined]  # an open connection still sees all of it
        connection = self._engine.raw_connection() if pooled else None
        self._lost = lost(self._file, None if connection is None else connection.driver_connection)
        raise self._lost

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
                log.info("bringing %s from schema %s to %s", self.url, found, REVISION)
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
        kind = UnreachableError if _is_passing(error) else StorageError
        match _sqlite_code(error):
            case sqlite3.SQLITE_NOTADB:
                return StorageError(f"{self._file} is not a SQLite database. Choose another file for studies.")
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return UnreachableError(
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
            case None if isinstance(error, OperationalError | InterfaceError):
                remedy = "Check that the server runs, and the host, port, user, password and database in the address."
            case _:
                remedy = "Nothing was written."
        return kind(f"The store {self.url} cannot be used: {cause}. {remedy}")


# --- within


def _revision(connection: Connection) -> str | None:
    """Of the schema that is there; None if there is none."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {REVISION_TABLE}").scalar()


def _is_passing(error: Exception) -> bool:
    """Whether the trouble may be over in a while: a server that is away, a disk that is full."""
    code = _sqlite_code(error)
    if code is not None:
        return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None)  # None: the line was cut; else what the server said
    if state is not None:
        return state[:2] in ("08", "53", "57")
    said = str(error.orig).partition("FATAL:")[2]  # by a server that answers, and does not let us in
    return not said or any(words in said for words in ("starting up", "shutting down", "recovery mode", "too many"))


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
