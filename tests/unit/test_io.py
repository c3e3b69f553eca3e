"""Files are written whole or not at all."""

import os

import pytest

from hyperleaf.io import read_file, replacing


def test_a_file_is_replaced_only_when_all_is_written(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with replacing(path) as unfinished:
        unfinished.write_text("new")
        assert unfinished.suffix == ".csv" and unfinished.parent == tmp_path and path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as unfinished:
        unfinished.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_it_is_on_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    calls = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append("sync") or sync(handle))
    monkeypatch.setattr(os, "replace", lambda *paths: calls.append("replace") or replace(*paths))
    with replacing(tmp_path / "a") as unfinished:
        unfinished.touch()
    assert calls == ["sync", "replace"]


def test_others_may_read_what_the_umask_lets_them(tmp_path):
    mask = os.umask(0o022)
    try:
        with replacing(tmp_path / "a") as unfinished:
            unfinished.touch()
    finally:
        os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_reading_a_small_file_makes_no_room_for_the_largest(tmp_path):
    import tracemalloc

    (tmp_path / "f").write_bytes(b"abc")
    tracemalloc.start()
    assert read_file(tmp_path / "f", 2**29) == b"abc"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
