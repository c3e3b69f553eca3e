"""What the READMEs of the examples show in a terminal is what happens there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hyperleaf.cli import app

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_session_at_the_bench_goes_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(EXAMPLES / "test_bench" / "study.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES / "test_bench" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    steps = re.findall(r"\$ hyperleaf (.*)\n((?:(?!\$ ).*\n)*)", block)
    assert len(steps) > 8
    for command, shown in steps:
        assert CliRunner().invoke(app, shlex.split(command)).stdout == shown, command
