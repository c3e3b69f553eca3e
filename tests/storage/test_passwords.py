"""A password is never kept in a store and never shown; it comes from the environment or from .pgpass."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import psycopg
import pytest

from hyperleaf.config import ConfigError, parse_toml
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.storage import StorageError, open_storage
from hyperleaf.study import Study

GOLDEN = Path(__file__).parents[1] / "golden"
TOML = """
[study]
name = "t"
storage = "{storage}"
[inputs]
a = {{ low = 0.0, high = 3.0 }}
[outputs]
y = {{}}
[surrogate]
kind = "treed"
"""


@pytest.mark.parametrize(
    "mistyped",
    [
        "postgresql//me:secret@host/db",
        "postgresql:/me:secret@host/db",
        "postgresql:me:secret@host/db",
        "me:secret@host/db",
        "secret@host/db",
        "sqlite://me:secret@host/db",
        "postgresqll://me:secret@host/db",
        "postgresql://me:top@secret@nowhere.invalid/db",
        "postgresql://me:secret@nowhere.invalid/db?port=x",
        "postgresql://me:secret@nowhere.invalid/db?sslpassword=secret&nonsense=1",
        "postgresql://me@nowhere.invalid/db?password=secret&password=secret",
    ],
)
def test_a_mistyped_address_is_explained_without_the_password(mistyped: str) -> None:
    with pytest.raises(HyperleafError) as caught:
        open_storage(mistyped)
    error: BaseException | None = caught.value
    while error is not None:  # also what a traceback would show
        assert "secret" not in str(error), error
        error = error.__cause__


def test_a_study_file_with_a_password_is_refused_with_the_remedy() -> None:
    for storage in ("postgresql://me:secret@nowhere.invalid/db", "postgresql://me@nowhere.invalid/db?password=secret"):
        with pytest.raises(ConfigError, match=r"PGPASSWORD.*\.pgpass") as caught:
            Study.define(parse_toml(TOML.format(storage=storage)))
        assert "secret" not in str(caught.value)


def test_a_store_does_not_keep_its_own_address(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/s.db"
    definition = parse_toml(TOML.format(storage=address))
    Study.define(definition)
    Study.define(parse_toml(TOML.format(storage=address) + "[stop]\nqueries = 9\n"))
    assert "storage" not in open_storage(address).read("t").definition["study"]
    assert b"sqlite:///" not in (tmp_path / "s.db").read_bytes()


def test_an_address_that_an_older_version_kept_is_taken_out(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    shutil.copy(GOLDEN / "store-v1.sqlite", file)
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        kept = json.dumps({"study": {"name": "s", "storage": f"postgresql://me:{'secret' * 3000}@host/db"}, "other": [1.5, "ü"]})
        connection.execute("UPDATE hyperleaf_studies SET definition = ? WHERE name = 'empty'", (kept,))
    store = open_storage(f"sqlite:///{file}")
    assert store.read("empty").definition == {"study": {"name": "s"}, "other": [1.5, "ü"]}
    store.close()
    assert b"secret" not in file.read_bytes()


def test_the_password_comes_from_the_environment_or_from_pgpass(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE locked SUPERUSER LOGIN PASSWORD 'secret'")
        try:
            rules.write_text("local all locked scram-sha-256\n" + before)
            connection.execute("SELECT pg_reload_conf()")
            address = server.new_database().replace("hyperleaf@", "locked@")
            for name in ("PGPASSWORD", "PGPASSFILE"):
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("HOME", str(tmp_path))
            with pytest.raises(StorageError, match=r"PGPASSWORD.*\.pgpass"):
                open_storage(address)
            monkeypatch.setenv("PGPASSWORD", "wrong")
            with pytest.raises(StorageError, match=r"PGPASSWORD.*\.pgpass"):
                open_storage(address)
            monkeypatch.setenv("PGPASSWORD", "secret")
            open_storage(address).close()
            monkeypatch.delenv("PGPASSWORD")
            file = tmp_path / "pass"
            file.write_text("*:*:*:locked:secret\n")
            file.chmod(0o600)
            monkeypatch.setenv("PGPASSFILE", str(file))
            open_storage(address).close()
            monkeypatch.delenv("PGPASSFILE")
            shown = open_storage(address.replace("locked@", "locked:secret@")).url  # in Python an address may hold it
            assert "secret" not in shown
        finally:
            rules.write_text(before)
            connection.execute("SELECT pg_reload_conf()")


def test_an_address_may_not_be_split_by_its_password() -> None:
    with pytest.raises(InputError, match="%40"):
        open_storage("postgresql://me:a@b@host/db")
