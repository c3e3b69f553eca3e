"""`hyperleaf doctor`, `--verbose` and completion."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hyperleaf.cli import app

SOURCE = Path(__file__).resolve().parents[2] / "src"
STUDY = '[study]\nname = "s"\n[inputs]\nx = { low = 0.0, high = 1.0 }\n[outputs]\ny = {}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYPERLEAF_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_doctor_names_versions_cores_cache_and_store(here: Path) -> None:
    before = CliRunner().invoke(app, ["doctor"])
    assert before.exit_code == 0 and "there is no study.toml" in before.stdout and "compiles for half a minute" in before.stdout
    (here / "study.toml").write_text(STUDY)
    assert "has not begun" in CliRunner().invoke(app, ["doctor"]).stdout
    assert CliRunner().invoke(app, ["ask"]).exit_code == 0
    (here / "cache").mkdir(exist_ok=True)
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["findings"]
    by_name = {one["what"]: one["found"] for one in found}
    assert {"Python", "hyperleaf", "jax", "cores", "compiled code", "store"} <= by_name.keys()
    assert by_name["study"] == "s: 1 queries, 0 observations" and "study.db" in by_name["store"]


def test_verbose_says_more_on_stderr_and_nothing_more_on_stdout(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    (here / "study.toml").write_text(STUDY)
    try:
        with caplog.at_level(logging.INFO, "hyperleaf"):
            quiet = CliRunner().invoke(app, ["-v", "ask", "--json"])
        json.loads(quiet.stdout)
        assert any("asked for queries [1] in s" in record.getMessage() for record in caplog.records)
        assert any("bringing" in record.getMessage() and "0004" in record.getMessage() for record in caplog.records)
    finally:
        logging.getLogger("hyperleaf").setLevel(logging.NOTSET)


def test_a_shell_can_complete_commands() -> None:
    asked = {"_HYPERLEAF_COMPLETE": "complete_bash", "COMP_WORDS": "hyperleaf vo", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "hyperleaf.cli"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(SOURCE)} | asked, capture_output=True, text=True)
    assert done.stdout.split() == ["void"], done.stderr
