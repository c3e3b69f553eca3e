"""Figures of benchmarks are kept per machine and commit, and compared with the last ones of another commit."""

import json

import pytest
from benchmarks import history


@pytest.fixture(autouse=True)
def steady(monkeypatch):
    monkeypatch.setattr(history, "machine", lambda: {"processor": "one", "cores": "2"})
    monkeypatch.setattr(history.time, "time", iter(range(100)).__next__)


def test_a_run_is_compared_with_the_last_of_another_commit(tmp_path):
    assert "nothing to compare" in history.keep("gradient", {"n = 64": 2.0}, tmp_path, "aaa")[0]
    assert "nothing to compare" in history.keep("gradient", {"n = 64": 3.0}, tmp_path, "aaa")[0]  # the same commit again
    (said,) = history.keep("gradient", {"n = 64": 6.0, "n = 128": 1.0}, tmp_path, "bbb")
    assert "2.00 of the 3 at aaa: slower" in said
    (said,) = history.keep("gradient", {"n = 64": 3.1}, tmp_path, "ccc")
    assert "at bbb: faster" in said
    assert "nothing to compare" in history.keep("start", {"ask": 3.1}, tmp_path, "ccc")[0]
    (place,) = tmp_path.iterdir()
    kept = json.loads((place / "ccc.json").read_text())
    assert kept["figures"] == {"gradient": {"n = 64": 3.1}, "start": {"ask": 3.1}}
    assert kept["machine"] == {"processor": "one", "cores": "2"}


def test_machines_are_not_compared(tmp_path, monkeypatch):
    history.keep("gradient", {"n = 64": 2.0}, tmp_path, "aaa")
    monkeypatch.setattr(history, "machine", lambda: {"processor": "another", "cores": "2"})
    assert "nothing to compare" in history.keep("gradient", {"n = 64": 2.0}, tmp_path, "bbb")[0]
