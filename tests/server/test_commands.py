"""The command line at a served study: serve, ask --connect, run --connect."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hyperleaf.cli import app
from hyperleaf.domain import Domain, Real
from hyperleaf.study import Study

ROOT = Path(__file__).resolve().parents[2]
TOML = """[study]
name = "plain"
[inputs]
x = { low = 0.0, high = 1.0 }
[outputs]
y = {}
[surrogate]
kind = "stationary"
[design]
size = 20
[simulator]
function = "double:double"
"""


@pytest.fixture
def plain(served, tmp_path, monkeypatch):
    """A study that only goes through its first design, in the store that is served."""
    url = f"sqlite:///{served.folder / 's.db'}"
    store = served.study.storage
    if "plain" in store.study_names():
        store.delete_study("plain")
    study = Study.create("plain", Domain(x=Real(0, 1)), "y", storage=url, surrogate={"kind": "stationary"}, design=20)
    (tmp_path / "study.toml").write_text(TOML)
    (tmp_path / "double.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.chdir(tmp_path)
    return study


def call(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_a_run_evaluates_queries_of_a_served_study(served, plain):
    url = f"http://127.0.0.1:{served.port}"
    done = call("run", "--connect", url, "--queries", "3")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("→ y=") == 3 and "Stopped: 3 more runs were asked for." in done.stdout
    assert all(one.outputs["y"] == 2 * plain.record().queries[one.query_id - 1].point["x"] for one in plain.record().observations)
    done = call("run", "--connect", url, "--queries", "1", "--json")
    assert json.loads(done.stdout)["num_done"] == 4
    Path("study.toml").write_text(TOML.replace("high = 1.0", "high = 2.0"))
    done = call("run", "--connect", url, "--queries", "1")
    assert done.exit_code == 1 and "differ from those of the served study" in done.stderr
    Path("study.toml").write_text(TOML.partition("[simulator]")[0])
    assert "a server does not send one" in call("run", "--connect", url).stderr


def test_a_person_asks_a_warm_server(served, plain):
    url = f"{served.server.address}/studies/plain?token={served.token}"
    found = json.loads(call("ask", "--connect", url, "-n", "2", "--json").stdout)
    assert [query["owner"] for query in found["queries"]] == ["person", "person"]
    shown = call("ask", "--connect", url).stdout
    assert shown.startswith("query 3  x = ") and "hyperleaf tell 3 y=…" in shown
    assert call("ask", "--connect", url, "--again").exit_code == 2
    found = call("ask", "--connect", f"{served.server.address}?token={served.token}")  # several studies are served
    assert found.exit_code == 1 and f"{served.server.address}/studies/NAME" in found.stderr


def test_a_person_does_not_wait_long_for_a_server_that_is_not_there(monkeypatch):
    monkeypatch.setattr("hyperleaf.cli.serving.PATIENCE", 0.5)
    done = call("ask", "--connect", "http://127.0.0.1:1")
    assert done.exit_code == 1 and "hyperleaf serve" in done.stderr


def test_serve_says_where_it_is_and_ends_with_ctrl_c(tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": path}
    command = [sys.executable, "-m", "hyperleaf.cli", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    while not lines or lines[-1] != "}\n":
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    shown = json.loads("".join(lines))
    assert shown["url"].startswith(f"http://127.0.0.1:{shown['port']}/?token=") and shown["view"] != shown["url"]
    token = tmp_path / "state" / "hyperleaf" / f"serve-{shown['port']}.token"
    assert token.read_text().strip() in shown["url"]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in said and not token.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "needs TLS"),
        (["sqlite:///nothing.db"], "nothing.db"),
        (["--tls-cert", "c.pem"], "one of them"),
    ],
    ids=str,
)
def test_serve_refuses_with_a_sentence(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(TOML)
    done = call("serve", *options)
    assert done.exit_code == 1 and words in done.stderr
