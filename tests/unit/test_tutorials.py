"""The tutorial for the command line, typed from an empty folder: its files, its commands, and what they print."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "learn-solver.md").read_text(encoding="utf-8")


def typed() -> list[str]:
    """The commands of the page, in order."""
    return [line.strip() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="the commands of the page are those of a POSIX shell")
def test_a_solver_from_the_command_line_goes_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text(re.search(r"```python no-run\n(.*?)```", PAGE, re.DOTALL)[1], encoding="utf-8")
    (tmp_path / "study.toml").write_text(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1], encoding="utf-8")
    (tmp_path / "bin").mkdir()
    for name, line in (("hyperleaf", f'exec {sys.executable} -m hyperleaf.cli "$@"'), ("python3", f'exec {sys.executable} "$@"')):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)

    ((command, shown),) = re.findall(r"```console\n\$ (.*?)\n(.*?)```", PAGE, re.DOTALL)
    assert run(command).stdout == shown
    shutil.copy(tmp_path / "study.toml", tmp_path / "right.toml")
    (tmp_path / "study.toml").write_text((tmp_path / "right.toml").read_text().replace("leaves = 4", "leafs = 4"))
    assert run(command).stderr == re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
    shutil.copy(tmp_path / "right.toml", tmp_path / "study.toml")
    started = time.perf_counter()
    for line in typed():
        done = run(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    print(f"{time.perf_counter() - started:.0f} s for {len(typed())} commands")
    predicted = pd.read_csv(tmp_path / "predicted.csv")
    assert {"deflection_mean", "deflection_std", "deflection_low", "deflection_high"} <= {*predicted}
    assert len(pd.read_csv(tmp_path / "runs.csv")) == 20
    said = [float(one) for one in re.search(r"itself says ([\d.]+) and ([\d.]+);", PAGE).groups()]
    exact = [0.01995, 0.71705]
    for load, value, words in zip((0.5, 1.5), exact, said, strict=True):
        assert abs(value**3 + (1 - load) * value - 0.01) < 1e-4 and abs(words - value) < 1e-3
    assert (predicted["deflection_mean"] - exact).abs().max() < 0.1
