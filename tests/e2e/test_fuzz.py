"""Broken files and command lines: a sentence, soon, in a process of 2 GiB. See `fuzz.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("fuzz.py")
LONG = {"toml": 30_000, "csv": 25_000, "sheet": 25_000, "xlsx": 5_000, "npz": 15_000, "commands": 5_000}


def check(what: str, number: int, seed: int) -> None:
    command = [sys.executable, str(PROGRAM), what, str(number), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    texts = [f"{name}, {what} {k} of seed {seed}:\n{text}" for name, (k, text) in found["findings"].items()]
    assert not texts, "\n".join(texts)
    assert sum(found["outcomes"].values()) == number and found["slowest"] < 5.0
    assert found["outcomes"].get("refused", 0) > number // 10 or what == "commands"  # most of it is broken indeed


@pytest.mark.parametrize("what", ["toml", "csv", "sheet", "xlsx"])
def test_some_broken_files_are_sentences(what: str) -> None:
    check(what, 100, 0)


@pytest.mark.long
@pytest.mark.parametrize("what", LONG)
def test_very_many_broken_files_and_command_lines_are_sentences(what: str) -> None:
    for seed in range(5):
        check(what, LONG[what] // 5, 1 + seed)
