"""Addresses, opening, migrations and the golden store."""

import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from hyperleaf.errors import InputError
from hyperleaf.storage import (
    NewQuery,
    Observation,
    Query,
    State,
    StorageError,
    StudyExistsError,
    migrations,
    open_storage,
    rows,
    schema,
    sql,
)
from hyperleaf.storage.memory import MemoryStorage

GOLDEN = Path(__file__).parents[1] / "golden"


# --- addresses


def test_the_usual_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_storage(None), MemoryStorage) and isinstance(open_storage("memory://"), MemoryStorage)
    monkeypatch.chdir(tmp_path)
    relative = open_storage("sqlite:///a.db")
    assert (tmp_path / "a.db").exists() and relative.url == f"sqlite:///{tmp_path}/a.db"
    assert open_storage(relative) is relative
    monkeypatch.chdir("/")  # leads nowhere else
    relative.create_study("s", {}, now=1.0)
    assert open_storage(f"sqlite:///{tmp_path}/a.db").study_names() == ("s",)


@pytest.mark.parametrize("name", ["with space", "größe 漢", "100%20", "a#b", "what?", "semi;colon"])
def test_paths_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    store = open_storage(f"sqlite:///{folder}/{name}.db")
    store.create_study("s", {}, now=1.0)
    store.close()
    assert [file.name for file in folder.iterdir()] == [f"{name}.db"], "one file remains when the store is closed"
    assert open_storage(store.url).study_names() == ("s",)


@pytest.mark.parametrize(
    "bad, words",
    [
        ("study.db", "sqlite:///study.db"),
        ("", "memory://"),
        ("mysql://me:secret@host/db", "begins with mysql://"),
        ("memory://other", "memory://,"),
        ("sqlite://", "sqlite:///FILE.db"),
        ("sqlite://file.db", "sqlite:///FILE.db"),
        ("sqlite:///:memory:", "sqlite:///FILE.db"),
        ("sqlite:///a\0.db", "sqlite:///FILE.db"),
        ("sqlite:///a.db?timeout=5", "no options"),
        ("postgresql://me:secret@host:port/db", "postgresql://USER"),
        (7, "named by an address"),
        (Path("a.db"), "named by an address"),
    ],
)
def test_a_bad_address_is_explained(bad, words: str) -> None:
    with pytest.raises(InputError) as caught:
        open_storage(bad)
    assert words in str(caught.value) and "secret" not in str(caught.value)


def test_a_file_that_cannot_be_a_store_is_explained_and_left_alone(tmp_path: Path) -> None:
    text, foreign, folder = tmp_path / "notes.txt", tmp_path / "foreign.db", tmp_path / "folder"
    text.write_text("hyperleaf " * 500)
    folder.mkdir()
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE songs (title)")
    connection.close()
    before = {file: file.read_bytes() for file in (text, foreign)}
    for file, words in [
        (text, "is not a SQLite database"),
        (foreign, "another program"),
        (folder, "is a folder"),
        (tmp_path / "none" / "a.db", "folder .*none.* does not exist"),
    ]:
        with pytest.raises(StorageError, match=words):
            open_storage(f"sqlite:///{file}")
    assert {file: file.read_bytes() for file in before} == before
    assert not (tmp_path / "none").exists()


def test_a_store_is_not_made_unless_wanted(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no store"):
        open_storage(f"sqlite:///{tmp_path}/typo.db", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_explained(tmp_path: Path) -> None:
    open_storage(f"sqlite:///{tmp_path}/a.db").close()
    (tmp_path / "a.db").chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="may write"):
            open_storage(f"sqlite:///{tmp_path}/a.db").create_study("s", {}, now=1.0)
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder where even root cannot make a file")
def test_a_folder_where_no_file_can_be_made_is_explained() -> None:
    with pytest.raises(StorageError, match="may write to the file and to its folder"):
        open_storage("sqlite:////proc/a.db")


def test_a_damaged_file_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    shutil.copy(GOLDEN / "store-v1.sqlite", file)
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(StorageError, match="restore it from a copy"):
        open_storage(f"sqlite:///{file}").read("Kühlung 1")


def test_an_unreachable_server_is_explained_without_the_password(tmp_path: Path) -> None:
    address = f"postgresql://me:secret@/db?host={tmp_path}&password=secret&connect_timeout=2"
    with pytest.raises(StorageError, match="Check that the server runs") as caught:
        open_storage(address)
    assert "secret" not in str(caught.value)


def test_a_missing_driver_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StorageError, match=r"pip install 'hyperleaf\[postgres\]'"):
        open_storage("postgresql://me@localhost/db")


def test_a_password_is_not_shown(server) -> None:
    address = server.url().replace("hyperleaf@", "hyperleaf:secret@")
    shown = open_storage(address).url
    assert "secret" not in shown and shown.startswith("postgresql://hyperleaf:***@/postgres")


# --- opening, closing, handing over


def test_what_was_kept_is_found_on_opening_again(address: str) -> None:
    first = open_storage(address)
    first.create_study("s", {"a": 1}, now=1.0)
    first.append("s", [NewQuery({"x": 1.0}, "design", outputs={"y": 2.0})], version=None, now=1.0)
    first.put_artifact("s", "k", b"\0\xff")
    record = first.read("s")
    first.close()
    first.close()
    with pytest.raises(StorageError, match="closed"):
        first.read("s")
    again = open_storage(address, create=False)
    assert again.read("s") == record and again.artifact("s", "k") == b"\0\xff"
    with pytest.raises(StudyExistsError):
        again.create_study("s", {}, now=2.0)


def test_a_store_can_be_handed_to_another_process(address: str) -> None:
    store = open_storage(address)
    store.create_study("s", {}, now=1.0)
    assert pickle.loads(pickle.dumps(store)).study_names() == ("s",)
    with pytest.raises(StorageError, match="another process"):
        pickle.dumps(open_storage(None))


def test_a_reader_is_not_held_up_by_a_writer_and_sees_one_moment(address: str) -> None:
    store, other = open_storage(address), open_storage(address)
    store.create_study("s", {}, now=1.0)
    with store._alone("s") as (connection, study):
        sql._changed(connection, study, epoch=5)
        assert other.read("s").epoch == 0
    assert other.read("s").epoch == 5
    with other._database.reading() as connection:
        before = other._found(connection, "s").version
        store.append("s", [NewQuery({}, "design")], version=None, now=2.0)
        assert other._found(connection, "s").version == before
    assert other.version("s") == before + 1


def test_a_writer_that_fails_leaves_no_trace(address: str) -> None:
    store = open_storage(address)
    store.create_study("s", {}, now=1.0)
    before = store.read("s")
    with pytest.raises(KeyboardInterrupt), store._alone("s") as (connection, study):
        sql._changed(connection, study, epoch=5)
        raise KeyboardInterrupt
    assert store.read("s") == before
    store.append("s", [NewQuery({}, "design")], version=before.version, now=2.0)


def test_the_database_itself_refuses_a_double(address: str) -> None:
    """Even if the code were wrong."""
    store = open_storage(address)
    store.create_study("s", {}, now=1.0)
    store.append("s", [NewQuery({}, "design", outputs={"y": 1.0})], version=None, now=1.0)
    record = store.read("s")
    for table, row in [
        (schema.queries, lambda study: rows.query_row(study, record.queries[0])),
        (schema.observations, lambda study: rows.observation_row(study, record.observations[0])),
        (schema.observations, lambda study: rows.observation_row(study, Observation(2, {"y": 1.0}, told_at=1.0))),  # of no query
    ]:
        with pytest.raises(StorageError, match=r"(?i)unique|foreign key"), store._alone("s") as (connection, study):
            connection.execute(table.insert(), row(study))
    assert store.read("s") == record


def test_sqlite_is_set_to_be_durable(tmp_path: Path) -> None:
    store = open_storage(f"sqlite:///{tmp_path}/a.db")
    with store._database.reading() as connection:
        settings = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")}
        assert settings == {"journal_mode": "wal", "synchronous": 2}


def test_a_server_that_acknowledges_early_is_told_not_to(server) -> None:
    address = server.new_database()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {address.partition('@/')[2].partition('?')[0]} SET synchronous_commit = off")
    with open_storage(address)._database.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_importing_the_contract_loads_no_database() -> None:
    code = "import sys, hyperleaf.storage as s; s.open_storage(None); print({'sqlalchemy', 'alembic', 'jax'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_opening_a_store_that_is_up_to_date_does_not_load_alembic(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "store-v1.sqlite", tmp_path / "a.db")
    open_storage(f"sqlite:///{tmp_path}/a.db").close()
    code = f"import sys, hyperleaf.storage as s; s.open_storage('sqlite:///{tmp_path}/a.db'); print('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


# --- migrations


def _differences(url: str) -> list:
    engine = create_engine(url)
    options = {"version_table": schema.REVISION_TABLE, "compare_type": True, "compare_server_default": True}
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata)
        constraints = connection.dialect.get_check_constraints(connection, "hyperleaf_queries")
    engine.dispose()
    assert {constraint["name"] for constraint in constraints} == {"ck_hyperleaf_queries_state", "ck_hyperleaf_queries_owner"}
    return found


def test_migrations_end_at_the_tables_in_the_code(tmp_path: Path, server) -> None:
    assert migrations.known_revisions()[-1] == schema.REVISION
    database = server.new_database()
    for address, url in [(f"sqlite:///{tmp_path}/a.db",) * 2, (database, database.replace("://", "+psycopg://"))]:
        open_storage(address).close()
        assert _differences(url) == []


def test_a_store_of_a_newer_version_is_refused_and_left_alone(address: str) -> None:
    store = open_storage(address)
    with store._database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE {schema.REVISION_TABLE} SET version_num = '9999'")
    try:
        with pytest.raises(StorageError, match=r"newer version of hyperleaf.*Upgrade"):
            open_storage(address)
    finally:
        with store._database.writing() as connection:
            found = connection.exec_driver_sql(f"SELECT version_num FROM {schema.REVISION_TABLE}").scalar()
            connection.exec_driver_sql(f"UPDATE {schema.REVISION_TABLE} SET version_num = '{schema.REVISION}'")
    assert found == "9999"


NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "next", "{last}", None, None

def upgrade():
    op.add_column("hyperleaf_studies", sa.Column("mood", sa.Text, nullable=False, server_default="calm"))
    op.create_table("hyperleaf_moods", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("{statement}")
"""


@pytest.fixture
def next_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As if this version had one more migration, which ends with a statement."""

    def add(statement: str) -> None:
        folder = tmp_path / "migrations"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(migrations.__file__).parent, folder)
        (folder / "versions" / "rev_next.py").write_text(NEXT.format(last=schema.REVISION, statement=statement))
        monkeypatch.setattr("hyperleaf.storage.migrations.FOLDER", folder)
        monkeypatch.setattr("hyperleaf.storage.database.REVISION", "next")

    return add


def _old_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    address = f"sqlite:///{tmp_path}/old.db" if kind == "sqlite" else request.getfixturevalue("server").new_database()
    store = open_storage(address)
    store.create_study("s", {"a": 1}, now=1.0)
    store.append("s", [NewQuery({}, "design", outputs={"y": 0.1})], version=None, now=1.0)
    store.close()
    return address


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_old_store_is_upgraded_on_opening(kind: str, tmp_path: Path, request, next_migration) -> None:
    address = _old_store(kind, tmp_path, request)
    next_migration("UPDATE hyperleaf_studies SET mood = 'glad'")
    store = open_storage(address)
    with store._database.reading() as connection:
        assert connection.exec_driver_sql("SELECT mood FROM hyperleaf_studies").scalars().all() == ["glad"]
    assert store.read("s").observations == (Observation(1, {"y": 0.1}, told_at=1.0),)
    store.close()
    assert open_storage(address).study_names() == ("s",)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_upgrade_that_fails_in_the_middle_leaves_the_old_store(kind: str, tmp_path: Path, request, next_migration) -> None:
    address = _old_store(kind, tmp_path, request)
    with pytest.MonkeyPatch.context() as patch:
        next_migration("UPDATE no_such_table SET a = 1")
        with pytest.raises(StorageError, match="no_such_table"):
            open_storage(address)
        patch.setattr("hyperleaf.storage.database.REVISION", schema.REVISION)
        store = open_storage(address)
        assert len(store.read("s").observations) == 1
        with store._database.reading() as connection:
            columns = list(connection.exec_driver_sql("SELECT * FROM hyperleaf_studies").keys())
    assert "name" in columns and "mood" not in columns


# --- the golden store


@pytest.mark.parametrize("version", [1, 2])
def test_the_golden_stores_of_the_first_schemas_are_read(tmp_path: Path, version: int) -> None:
    shutil.copy(GOLDEN / f"store-v{version}.sqlite", tmp_path / "store.db")
    store = open_storage(f"sqlite:///{tmp_path}/store.db")
    assert store.study_names() == ("Kühlung 1", "empty")
    record = store.read("Kühlung 1")
    assert record.definition == {
        "study": {"name": "Kühlung 1", "seed": 1},
        "inputs": {"mach": {"low": 0.2, "high": 6.0}},
        "outputs": {"lift": {}},
    }
    assert (record.created_at, record.version, record.epoch) == (1731234567.25, 7, 1)
    chosen = Query(4, {"mach": 4.0}, "acquisition", State.WAITING, epoch=1, asked_at=1731234590.0, index=17, score=-1.25)
    assert record.queries == (
        Query(
            1,
            {"mach": 0.30000000000000004},
            "design",
            State.DONE,
            epoch=0,
            asked_at=1731234570.0,
            note="first",
            ended_at=1731234580.0,
            seconds=9.5,
        ),
        Query(
            2,
            {"mach": 0.3333333333333333},
            "design",
            State.RUNNING,
            epoch=0,
            asked_at=1731234570.0,
            owner="bench-1",
            heartbeat=1731234570.0,
        ),
        Query(3, {"mach": 2.5}, "added", State.DONE, epoch=0, asked_at=1731234571.0, ended_at=1731234571.0),
        replace(chosen, attempt=2, reason="mesh"),
        replace(
            chosen,
            id=5,
            state=State.FAILED,
            owner="bench-2",
            heartbeat=1731234590.0,
            ended_at=1731234600.0,
            seconds=3.0,
            reason="no convergence",
        ),
    )
    assert record.observations == (
        Observation(1, {"lift": -0.1}, told_at=1731234580.0, epoch=1),
        Observation(3, {"lift": 5e-324}, told_at=1731234571.0, epoch=1),
    )
    assert store.metrics("Kühlung 1") == ((2, {"rmse": 0.25, "coverage": {"95": 0.9}}),)
    assert store.artifact("Kühlung 1", "posterior") == bytes(range(256))
    assert store.read("empty").queries == ()
    # and it goes on
    (query,) = store.append("Kühlung 1", [NewQuery({"mach": 1.0}, "design")], version=7, now=1731234700.0)
    assert query.id == 6 and store.tell("Kühlung 1", 2, {"lift": 1.0}, now=1731234700.0)


def test_the_golden_store_with_data_put_right_is_read(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "store-v3.sqlite", tmp_path / "store.db")
    record = open_storage(f"sqlite:///{tmp_path}/store.db").read("Kühlung 1")
    assert record.observations == (Observation(1, {"lift": 0.1}, told_at=1731234580.0, epoch=1, point={"mach": 0.31}),)
    assert record.voided == (Observation(3, {"lift": 5e-324}, told_at=1731234571.0, epoch=1),)
    assert (record.queries[2].state, record.queries[2].was, record.queries[2].lease) == (State.VOID, State.DONE, None)
    assert [(one.who, one.kind.value, one.why) for one in record.changes] == [
        ("ann", "voided", "sensor off"),
        ("bob", "corrected", ""),
    ]
