"""A PostgreSQL server for the tests, on a socket in a folder of its own, and the three kinds of store."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperleaf.storage import Storage, open_storage

KINDS = ("memory", "sqlite", "postgresql")


class Server:
    """Started from Debian's binaries; as another user if this one is root, whom PostgreSQL refuses."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.folder, self._binaries, self._data = folder, binaries, folder / "data"
        self._as: dict = {}
        if os.geteuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = names.get("postgres") or names["nobody"]
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        options = ["--auth=trust", "--username=hyperleaf", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        made = subprocess.run(
            [binaries / "initdb", "-D", self._data, *options], cwd=folder, capture_output=True, text=True, **self._as
        )
        if made.returncode != 0:
            pytest.fail(f"initdb failed:\n{made.stdout}{made.stderr}")
        self._number, self.shared = 0, ""
        self.start()

    def start(self) -> None:
        # Without fsync: the tests crash the server, never the machine.
        settings = ["-c", "listen_addresses=", "-c", "fsync=off"]
        command: list = [self._binaries / "postgres", "-D", self._data, "-k", self.folder, *settings]
        if shutil.which("setpriv"):  # if the tests are killed, so is the server
            command = ["setpriv", "--pdeathsig", "QUIT", "--", *command]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **self._as)
        ready = [self._binaries / "pg_isready", "-q", "-h", self.folder]
        deadline = time.monotonic() + 60
        while subprocess.run(ready).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.05)

    def crash(self) -> None:
        """Without any saving of what is in memory."""
        self._process.send_signal(3)  # SIGQUIT: PostgreSQL's immediate shutdown
        self._process.wait(30)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://hyperleaf@/{database}?host={self.folder}"

    def new_database(self) -> str:
        import psycopg

        self._number += 1
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE fresh_{self._number}")
        return self.url(f"fresh_{self._number}")


def _binaries() -> Path | None:
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists() and (place / "postgres").exists()), None)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    binaries = _binaries()
    if binaries is None:
        message = "PostgreSQL's programs were not found in PATH or /usr/lib/postgresql; install Debian's package postgresql"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    folder = Path(tempfile.mkdtemp(prefix="hl-pg-"))  # short: the path of a socket may have 107 characters
    try:
        running = Server(binaries, folder)
        try:
            yield running
        finally:
            running.crash()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("store") / "empty.db"
    open_storage(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store, of the kind that the test is parametrised with."""
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{shutil.copy(request.getfixturevalue('empty_file'), tmp_path / 'store.db')}"
    server: Server = request.getfixturevalue("server")
    server.shared = server.shared or server.new_database()
    leftovers = open_storage(server.shared)
    for name in leftovers.study_names():
        leftovers.delete_study(name)
    leftovers.close()
    return server.shared


@pytest.fixture
def store(address: str) -> Iterator[Storage]:
    opened = open_storage(address)
    yield opened
    opened.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "address" in metafunc.fixturenames:
        kinds = KINDS if "store" in metafunc.fixturenames else KINDS[1:]  # an address alone is for several openings
        metafunc.parametrize("address", kinds, indirect=True)
