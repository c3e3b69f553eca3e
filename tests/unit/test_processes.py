"""Commands and their children end with whoever started them, and Ctrl-C pressed in anger leaves no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from hyperleaf.processes import run_command

SOURCE = Path(__file__).resolve().parents[2] / "src"
needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
STRAY = "setsid sh -c 'echo $$ > stray; exec sleep 60' & while [ ! -s stray ]; do sleep 0.05; done"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@needs_proc
def test_a_child_in_a_session_of_its_own_ends_with_the_command(tmp_path: Path) -> None:
    done = run_command(["sh", "-c", STRAY], cwd=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e", timeout=30)
    assert done.code == 0
    assert eventually(lambda: not is_alive(int((tmp_path / "stray").read_text())))


@needs_proc
def test_a_child_in_a_session_of_its_own_does_not_outlive_a_kill(tmp_path: Path) -> None:
    code = f"""
        from hyperleaf.processes import run_command
        run_command(["sh", "-c", {STRAY + "; sleep 60"!r}], cwd=".", stdout="o", stderr="e")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    run = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(SOURCE)})
    try:
        assert eventually(lambda: (tmp_path / "stray").exists() and (tmp_path / "stray").read_text().strip().isdigit())
        stray = int((tmp_path / "stray").read_text())
        assert is_alive(stray)
    finally:
        run.kill()
        run.wait()
    assert eventually(lambda: not is_alive(stray))


STUDY = """
[study]
name = "s"
[inputs]
x = { low = 0.0, high = 1.0 }
[outputs]
y = {}
[simulator]
function = "model:simulate"
[stop]
queries = 5
"""
MODEL = """
import pathlib
import time

def simulate(x):
    pathlib.Path("began").touch()
    time.sleep(20)
    return x
"""


def test_pressing_ctrl_c_again_and_again_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "model.py").write_text(MODEL.replace('"began"', repr(str(tmp_path / "began"))))
    command = [sys.executable, "-m", "hyperleaf.cli", "run", "--jobs", "threads:1"]
    env = os.environ | {"PYTHONPATH": str(SOURCE), "HYPERLEAF_THREADS": "1"}
    run = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert eventually(lambda: (tmp_path / "began").exists())
        for _ in range(5):
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
                time.sleep(0.4)
        said = run.communicate(timeout=60)
    finally:
        run.kill()
    assert "Traceback" not in said[1], said[1]
    assert run.returncode in (130, -signal.SIGINT)  # the latter where the interpreter had gone already
