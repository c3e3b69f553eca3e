"""What the READMEs of the examples, and the page about a day at the bench, show in a terminal is what happens there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hyperleaf.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["examples/test_bench/README.md", "docs/bench-day.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_session_at_the_bench_goes_as_it_is_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "examples" / "test_bench" / "study.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    steps = re.findall(r"\$ hyperleaf (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks))
    assert len(steps) > 8
    for command, shown in steps:
        assert CliRunner().invoke(app, shlex.split(command)).stdout == shown, command
